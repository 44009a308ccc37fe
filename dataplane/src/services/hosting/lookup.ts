/**
 * Finds the response of a deployment to a path. In: the paths and rules of the manifest, and the request's path. Out: a
 * file with its status, a redirect, or nothing. Pure: a request's path is only looked up, never joined to a folder.
 */
import type { ManifestFile } from '@slipway/sites';
import { decodedPath, encodedPath } from './encoding.js';
import type { Match, Redirects } from './redirects.js';

export interface SiteFile extends ManifestFile {
  path: string;
  /** Id of the deployment with the file; undefined: the live one. */
  deployment?: string;
}

export type SiteFiles = ReadonlyMap<string, SiteFile>;

/** Fields of a deployment that decide the response to a path. */
export interface SiteContent {
  files: SiteFiles;
  redirects: Redirects;
}

export type Found =
  | { kind: 'file'; status: 200 | 404; file: SiteFile; isFallback: boolean }
  | { kind: 'redirect'; status: number; location: string }
  | { kind: 'missing' };

/** Maximum depth of a path: folders that are nested deeper can't be published. */
const DEEPEST = 33;

/**
 * Finds the response. `path` is decoded, without its leading slash. `query` has its question mark, or is empty.
 * `fetchMode` is the header Sec-Fetch-Mode of the request.
 */
export function findFile(content: SiteContent, path: string, query: string, fetchMode: string | undefined): Found {
  const { files, redirects } = content;
  const match = redirects.find(path);
  const byForce = match?.rule.force ? ruled(files, path, query, match) : undefined;
  if (byForce) return byForce;
  const file = fileAt(files, path);
  if (file) return { kind: 'file', status: 200, file, isFallback: false };
  // The location is a path of the manifest, so it stays on this site.
  if (files.has(`${path}/index.html`)) {
    return { kind: 'redirect', status: 308, location: `/${encodedPath(path)}/${query}` };
  }
  return (match && ruled(files, path, query, match)) ?? notFound(files, path, fetchMode);
}

/** Returns the response of a rule; undefined if its target does not exist or is the requested path. */
function ruled(files: SiteFiles, path: string, query: string, { rule, target }: Match): Found | undefined {
  const [place = '', ownQuery] = target.split(/(?=[?#])/, 2);
  const targetPath = place.startsWith('/') ? decodedPath(place) : undefined;
  if (rule.status === 200 || rule.status === 404) {
    const file =
      targetPath === undefined ? undefined : (fileAt(files, targetPath) ?? files.get(`${targetPath}/index.html`));
    return file && { kind: 'file', status: rule.status, file, isFallback: false };
  }
  if (targetPath === path) return undefined;
  return { kind: 'redirect', status: rule.status, location: ownQuery === undefined ? `${target}${query}` : target };
}

/** True if a file of the site answers the path itself, without a rule and without a fallback. */
export const hasFileAt = (files: SiteFiles, path: string): boolean =>
  fileAt(files, path) !== undefined || files.has(`${path}/index.html`);

function fileAt(files: SiteFiles, path: string): SiteFile | undefined {
  if (path === '' || path.endsWith('/')) return files.get(`${path}index.html`);
  return files.get(path) ?? files.get(`${path}.html`);
}

/** Returns the nearest 404.html up the tree; if there is none at the top, the page of a single-page application. */
function notFound(files: SiteFiles, path: string, fetchMode: string | undefined): Found {
  const folders = path.split('/', DEEPEST).slice(0, -1);
  for (let depth = folders.length; depth >= 0; depth -= 1) {
    const file = files.get([...folders.slice(0, depth), '404.html'].join('/'));
    if (file) return { kind: 'file', status: 404, file, isFallback: false };
  }
  const index = files.get('index.html');
  if (index && isForPage(path, fetchMode)) return { kind: 'file', status: 200, file: index, isFallback: true };
  return { kind: 'missing' };
}

/** True for a navigation. For a client without Sec-Fetch-Mode the path decides. */
const isForPage = (path: string, fetchMode: string | undefined) =>
  fetchMode === undefined ? !path.slice(path.lastIndexOf('/') + 1).includes('.') : fetchMode === 'navigate';
