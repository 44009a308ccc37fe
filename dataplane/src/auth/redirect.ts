/** Where a browser may be sent: the project's site, and what its allow list names by glob; anything else becomes the site. */
import type { AuthConfig } from './config.js';

/** In: what the caller asked for. Out: that, if allowed; else the site itself. */
export function allowedRedirect(wanted: string | null | undefined, { siteUrl, uriAllowList }: AuthConfig): string {
  return wanted && isAllowed(wanted, siteUrl, uriAllowList) ? wanted : siteUrl;
}

function isAllowed(wanted: string, siteUrl: string, allowList: readonly string[]): boolean {
  // What browsers drop or turn around before they read it would be matched as something else.
  if (/[\s\\]/.test(wanted) || hasControl(wanted) || !URL.canParse(wanted)) return false;
  const url = new URL(wanted);
  if (url.protocol === 'javascript:' || url.protocol === 'data:' || url.protocol === 'vbscript:') return false;
  if (url.username !== '' || url.password !== '') return false;
  const site = new URL(siteUrl);
  if (/^https?:$/.test(url.protocol) && url.host === site.host && url.protocol === site.protocol) return true;
  const plain = wanted.split('#', 1)[0] as string;
  // A host of digits or one long number is an address that no glob of names means.
  return allowList.some((glob) => globPattern(glob).test(plain) || globPattern(glob).test(canonical(url)));
}

const hasControl = (text: string) => [...text].some((character) => character < ' ' || character === '\x7f');

const canonical = (url: URL) => {
  const text = url.href.split('#', 1)[0] as string;
  return url.pathname === '/' && url.search === '' && text.endsWith('/') ? text.slice(0, -1) : text;
};

const compiled = new Map<string, RegExp>();
const MAX_COMPILED = 1000;

/** Upstream's globs: `*` and `?` stop at `.` and `/`, `**` at nothing. */
function globPattern(glob: string): RegExp {
  let pattern = compiled.get(glob);
  if (pattern === undefined) {
    if (compiled.size >= MAX_COMPILED) compiled.clear();
    const source = glob.replace(/\*\*|\*|\?|\{[^{}]*\}|[.+^$()|[\]\\{}]/g, (token) => {
      if (token === '**') return '.*';
      if (token === '*') return '[^./]*';
      if (token === '?') return '[^./]';
      if (token.length > 1) return `(?:${token.slice(1, -1).split(',').map(literal).join('|')})`;
      return literal(token);
    });
    pattern = new RegExp(`^${source}$`);
    compiled.set(glob, pattern);
  }
  return pattern;
}

const literal = (text: string) => text.replace(/[.*+?^$()|[\]\\{}]/g, '\\$&');

/** Adds to the query or the fragment; what is there already under the same name goes. */
export function withParameters(
  address: string,
  parameters: Readonly<Record<string, string | undefined>>,
  where: 'query' | 'fragment' | 'both',
): string {
  const url = new URL(address);
  const given = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined);
  if (where !== 'fragment') for (const [name, value] of given) url.searchParams.set(name, value);
  if (where !== 'query') url.hash = new URLSearchParams(given).toString();
  return url.href;
}
