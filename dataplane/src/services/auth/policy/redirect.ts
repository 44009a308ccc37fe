/**
 * Decides the target of a redirect: a URL of the project's site or of its allow list of globs. Any other URL is
 * replaced by the site's.
 */
import { domainToASCII } from 'node:url';
import type { AuthConfig } from '@slipway/installation/auth-settings.js';
import { globMatcher, type Matcher } from './glob.js';

const MAX_LENGTH = 2048;

/** Returns `wanted` if it is allowed, otherwise the site. `projectUrl` is the base URL of the project's services. */
export function allowedRedirect(
  wanted: string | null | undefined,
  { siteUrl, uriAllowList }: AuthConfig,
  projectUrl: string,
): string {
  return wanted && isAllowed(wanted, siteUrl, uriAllowList, new URL(projectUrl)) ? wanted : siteUrl;
}

function isAllowed(wanted: string, siteUrl: string, allowList: readonly string[], project: URL): boolean {
  if (wanted.length > MAX_LENGTH) return false;
  // Browsers drop or replace these characters, so another URL than the checked one would be opened.
  if (/[\s\\]/.test(wanted) || hasControl(wanted) || !URL.canParse(wanted)) return false;
  const url = new URL(wanted);
  if (url.protocol === 'javascript:' || url.protocol === 'data:' || url.protocol === 'vbscript:') return false;
  if (url.username !== '' || url.password !== '') return false;
  const site = new URL(siteUrl);
  if (/^https?:$/.test(url.protocol) && url.origin === site.origin && !isOfOthers(url, site, project)) return true;
  // Compares the normalized URL, as a browser opens it. Another spelling could hide a foreign host before the text that
  // a glob's `*` matches.
  const [whole, bare] = [withoutFragment(url), withoutSlash(url)];
  return allowList.some((glob) => [whole, bare].some((each) => isSame(glob, each) || matcherOf(glob)(each)));
}

/**
 * True if the URL is on the shared origin of `/p/<ref>` but outside of this project: other paths there belong to other
 * projects and the platform.
 */
function isOfOthers(url: URL, site: URL, project: URL): boolean {
  const isInside = ({ pathname }: URL) => `${pathname}/`.startsWith(`${project.pathname}/`);
  if (project.pathname === '/') return false;
  return (url.origin === project.origin || isInside(site)) && !isInside(url);
}

/** True if the glob is this URL without wildcards, in any spelling. */
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
    matcher = globMatcher(withNormalizedOrigin(glob));
    compiled.set(glob, matcher);
  }
  return matcher;
}

/** Normalizes scheme and host as a browser does: lower case, no default port, encoded letters beyond ASCII. */
function withNormalizedOrigin(glob: string): string {
  const [, scheme = '', rest = glob] = /^([a-z][a-z0-9+.-]*:)(.*)$/is.exec(glob) ?? [];
  const head = /^https?:$/i.test(scheme) ? (/^\/\/[^/]*/.exec(rest)?.[0] ?? '') : '';
  const port = scheme.toLowerCase() === 'https:' ? /:443$/ : /:80$/;
  const host = head.toLowerCase().replace(port, '').replace(BEYOND_ASCII, toAscii);
  return scheme.toLowerCase() + host + rest.slice(head.length).replace(/[^\0-\x7f]+/g, encodeURIComponent);
}

/** Matches a label of a host name that has characters beyond ASCII. */
const BEYOND_ASCII = /[^./:*?{},]*[^\0-\x7f][^./:*?{},]*/g;
const toAscii = (label: string) => domainToASCII(label) || label;

/** Sets parameters in the query or the fragment, replacing those of the same name. */
export function withParameters(
  address: string,
  parameters: Readonly<Record<string, string | undefined>>,
  where: 'query' | 'fragment' | 'both',
): string {
  const url = new URL(address);
  const present = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== undefined);
  if (where !== 'fragment') for (const [name, value] of present) url.searchParams.set(name, value);
  if (where !== 'query') url.hash = new URLSearchParams(present).toString();
  return url.href;
}
