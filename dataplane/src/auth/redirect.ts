/**
 * Where a browser may be sent: the project's site, and what its allow list names by glob; anything else becomes the
 * site.
 */
import { domainToASCII } from 'node:url';
import type { AuthConfig } from './config.js';
import { globMatcher, type Matcher } from './glob.js';

const MAX_LENGTH = 2048;

/** Returns `wanted` if it is allowed, else the site itself. `projectUrl`: where the project's services are. */
export function allowedRedirect(
  wanted: string | null | undefined,
  { siteUrl, uriAllowList }: AuthConfig,
  projectUrl: string,
): string {
  return wanted && isAllowed(wanted, siteUrl, uriAllowList, new URL(projectUrl)) ? wanted : siteUrl;
}

function isAllowed(wanted: string, siteUrl: string, allowList: readonly string[], project: URL): boolean {
  if (wanted.length > MAX_LENGTH) return false;
  // What browsers drop or turn around before they read it would be matched as something else.
  if (/[\s\\]/.test(wanted) || hasControl(wanted) || !URL.canParse(wanted)) return false;
  const url = new URL(wanted);
  if (url.protocol === 'javascript:' || url.protocol === 'data:' || url.protocol === 'vbscript:') return false;
  if (url.username !== '' || url.password !== '') return false;
  const site = new URL(siteUrl);
  if (/^https?:$/.test(url.protocol) && url.origin === site.origin && !isOfOthers(url, site, project)) return true;
  // As it will be gone to: what is written otherwise may hide another host before what a glob's `*` takes for a name.
  const [whole, bare] = [withoutFragment(url), withoutSlash(url)];
  return allowList.some((glob) => [whole, bare].some((each) => isSame(glob, each) || matcherOf(glob)(each)));
}

/**
 * At `/p/<ref>` the origin is shared: the rest of it belongs to other projects and the platform, whatever the site's
 * host is.
 */
function isOfOthers(url: URL, site: URL, project: URL): boolean {
  const isInside = ({ pathname }: URL) => `${pathname}/`.startsWith(`${project.pathname}/`);
  if (project.pathname === '/') return false;
  return (url.origin === project.origin || isInside(site)) && !isInside(url);
}

/** An address without wildcards, however its owner wrote it. */
const isSame = (glob: string, address: string) =>
  !/[*?{]/.test(glob) && URL.canParse(glob) && withoutFragment(new URL(glob)) === address;

const hasControl = (text: string) => [...text].some((character) => character < ' ' || character === '\x7f');

const withoutFragment = ({ href }: URL) => href.split('#', 1)[0] as string;

const withoutSlash = (url: URL) => {
  const text = withoutFragment(url);
  return url.pathname === '/' && url.search === '' && text.endsWith('/') ? text.slice(0, -1) : text;
};

const compiled = new Map<string, Matcher>();
const MAX_COMPILED = 1000;

function matcherOf(glob: string): Matcher {
  let matcher = compiled.get(glob);
  if (matcher === undefined) {
    if (compiled.size >= MAX_COMPILED) compiled.clear();
    matcher = globMatcher(withHeadAsGone(glob));
    compiled.set(glob, matcher);
  }
  return matcher;
}

/**
 * Normalizes scheme and host as a browser does: lower case, no default port, letters beyond ASCII in their encoded
 * form.
 */
function withHeadAsGone(glob: string): string {
  const [, scheme = '', rest = glob] = /^([a-z][a-z0-9+.-]*:)(.*)$/is.exec(glob) ?? [];
  const head = /^https?:$/i.test(scheme) ? (/^\/\/[^/]*/.exec(rest)?.[0] ?? '') : '';
  const port = scheme.toLowerCase() === 'https:' ? /:443$/ : /:80$/;
  const host = head.toLowerCase().replace(port, '').replace(BEYOND_ASCII, toAscii);
  return scheme.toLowerCase() + host + rest.slice(head.length).replace(/[^\0-\x7f]+/g, encodeURIComponent);
}

/** A label of a host. */
const BEYOND_ASCII = /[^./:*?{},]*[^\0-\x7f][^./:*?{},]*/g;
const toAscii = (label: string) => domainToASCII(label) || label;

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
