/** Cache headers of a site's files. In: paths and requests' headers. Out: header values. Pure. */
import type { Encoding } from '@slipway/sites';
import type { SiteFile } from './lookup.js';

/** Cache-Control of a file whose name changes with its content. */
const IMMUTABLE = 'public, max-age=31536000, immutable';
const REVALIDATED = 'public, max-age=0, must-revalidate';

/**
 * Matches folders in which bundlers (Next, SvelteKit, Astro, Nuxt) put only files whose name changes with their
 * content.
 */
const HASHED_FOLDERS = /(^|\/)(_next\/static|_app\/immutable|_astro|_nuxt)\//;
/** Matches names such as `main.8f3b2c1d.js`, by webpack and others: hexadecimal with letters and digits. */
const HEXADECIMAL = /[-.](?=[0-9a-f]*[0-9][0-9a-f]*[0-9])(?=[0-9a-f]*[a-f][0-9a-f]*[a-f])[0-9a-f]{8,64}\./;
/** Matches names such as `assets/index-BxYz12_4.js`, by Vite: eight characters of base64url. */
const BASE64 = /(^|\/)assets\/(?:[^/]*\/)*[^/]*[-.]([A-Za-z0-9_-]{8})\.[a-z0-9.]+$/;
/**
 * Matches `LongName` and `Version2`, which are as likely a word as a hash. Only bundlers put scripts and styles with
 * such names there.
 */
const WORDS = /^[A-Za-z]?[a-z]*([A-Z][a-z]+)*[0-9]*$/;

export const cacheControlOf = (path: string): string => (hasHash(path) ? IMMUTABLE : REVALIDATED);

/**
 * True for names that bundlers derive from the content. In doubt false, because browsers would cache a changed file for
 * a year.
 */
export function hasHash(path: string): boolean {
  if (HASHED_FOLDERS.test(path) || HEXADECIMAL.test(path.slice(path.lastIndexOf('/') + 1))) return true;
  const hash = BASE64.exec(path)?.[2];
  if (hash === undefined || !/[a-z]/.test(hash) || !/[A-Z]/.test(hash)) return false;
  return /\.(js|css)$/.test(path) || !WORDS.test(hash);
}

/** Returns the tag, which differs for each encoding of a file. */
export const etagOf = ({ hash }: SiteFile, encoding: Encoding | undefined): string =>
  encoding ? `"${hash}-${encoding}"` : `"${hash}"`;

/** True if the client has the representation. A weak tag matches a strong one (RFC 9110, 13.1.2). */
export function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false;
  if (ifNoneMatch === etag || ifNoneMatch.trim() === '*') return true;
  return ifNoneMatch.split(',').some((each) => each.trim().replace(/^W\//, '') === etag);
}
