/**
 * Finds the submodules of a working tree without `git submodule`, so its vulnerabilities in names, paths and links do
 * not apply. Each submodule is cloned into a folder whose name the repository can't choose, and then moved to its path.
 * In: git's listing of a commit. Out: checked URLs and paths.
 */
import { lstatSync, readdirSync, renameSync, rmdirSync } from 'node:fs';
import path from 'node:path';
import { gitSourceOf } from './git-source.js';
import { Refused } from './request.js';

/** $1 is the folder. Prints the configuration of the submodules, a separator line, and the submodules' commits. */
export const LIST_SCRIPT = `cd "$1" || exit 1
git cat-file -e HEAD:.gitmodules 2>/dev/null || exit 0
git config --blob HEAD:.gitmodules --null --list || exit $?
printf '\\0\\0'
git ls-tree -r HEAD | grep '^160000 ' || true`;

const MOST = 50;
const PLACE = /^[\p{L}\p{N}_.@+-][\p{L}\p{N}_.@+ -]*(?:\/[\p{L}\p{N}_.@+-][\p{L}\p{N}_.@+ -]*)*$/u;

export interface Submodule {
  place: string;
  repoUrl: string;
  revision: string;
}

/** Parses the output of `LIST_SCRIPT`. Throws Refused. */
export function submodulesOf(listing: string, parentUrl: string): Submodule[] {
  const [configuration = '', tree = ''] = listing.split('\0\0\0');
  const commits = new Map<string, string>();
  for (const line of tree.replace(/^\0+/, '').split('\n')) {
    const [, commit, place] = /^160000 commit ([\da-f]+)\t(.+)$/.exec(line) ?? [];
    if (commit && place) commits.set(place, commit);
  }
  const byName = new Map<string, Record<string, string>>();
  for (const entry of configuration.split('\0')) {
    const [, name, member, value] = /^submodule\.([^\n]+)\.(path|url)\n(.*)$/s.exec(entry) ?? [];
    if (name && member && value !== undefined) byName.set(name, { ...byName.get(name), [member]: value });
  }
  if (byName.size > MOST) throw new Refused(`The repository has more than ${MOST} submodules.`);
  return [...byName.values()].flatMap(({ path: place = '', url = '' }) => {
    const revision = commits.get(place);
    if (revision === undefined) return [];
    return [{ place: checkedPlace(place), repoUrl: addressOf(url, parentUrl), revision }];
  });
}

function checkedPlace(place: string): string {
  const isSafe = PLACE.test(place) && place.split('/').every((part) => !/^(?:\.|\.\.|\.git)$/i.test(part));
  if (!isSafe) throw new Refused(`The submodule path ${JSON.stringify(place.slice(0, 200))} is not allowed.`);
  return place;
}

/**
 * Returns the URL of a submodule. A relative URL is resolved against the repository's, and so is on the same server.
 */
function addressOf(url: string, parentUrl: string): string {
  const parent = gitSourceOf(parentUrl);
  const [, host, rest] = /^(?:ssh:\/\/)?git@([^:/]+)[:/](.+)$/.exec(url) ?? [];
  // A token works only over https, so repositories on the same host are fetched over https.
  if (parent.kind === 'https' && host === new URL(parentUrl).hostname) return `${parent.origin}/${rest}`;
  if (!/^\.\.?\//.test(url)) return sourceOrThrow(url);
  if (parent.kind === 'https') return sourceOrThrow(new URL(url, `${parentUrl.replace(/\/$/, '')}/`).href);
  const cut = parentUrl.startsWith('ssh://') ? parentUrl.indexOf('/', 6) : parentUrl.indexOf(':') + 1;
  return sourceOrThrow(parentUrl.slice(0, cut) + path.posix.join(parentUrl.slice(cut), url));
}

function sourceOrThrow(url: string): string {
  try {
    gitSourceOf(url);
    return url;
  } catch (error) {
    const reason = (error as Error).message.replaceAll('repo_url', 'The address');
    throw new Refused(`The submodule address ${JSON.stringify(url.slice(0, 200))} is not allowed. ${reason}`);
  }
}

/** Moves a clone to its path in the tree, where git left an empty folder. Follows no link. */
export function moveInto(tree: string, place: string, clone: string): void {
  let folder = tree;
  for (const part of place.split('/')) {
    folder = path.join(folder, part);
    if (!lstatSync(folder, { throwIfNoEntry: false })?.isDirectory())
      throw new Refused(`The submodule path ${JSON.stringify(place)} is not a folder of the repository.`);
  }
  if (readdirSync(folder).length > 0) throw new Refused(`The submodule path ${JSON.stringify(place)} is not empty.`);
  rmdirSync(folder);
  renameSync(clone, folder);
}
