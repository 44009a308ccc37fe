/**
 * Chooses the version of Node and the package manager of a project. In: its sources. Out: the plan for the toolchain.
 */
import semver from 'semver';
import { Refused } from '../request.js';
import { smallFile, smallObject } from '../small-file.js';

export type ManagerName = 'npm' | 'pnpm' | 'yarn';

export interface Manager {
  name: ManagerName;
  /** A version or range. Undefined: the machine's npm. */
  version: string | undefined;
  install: string;
}

export interface Plan {
  /** A range of versions of Node. Undefined: any version. */
  node: string | undefined;
  manager: Manager;
  lockfile: string | undefined;
}

/** Older versions get no fixes, and current package managers do not run on them. */
const OLDEST_NODE = '>=18';
const LTS: Readonly<Record<string, string>> = { hydrogen: '18', iron: '20', jod: '22', krypton: '24' };
const LOCKFILES: readonly [file: string, manager: ManagerName][] = [
  ['pnpm-lock.yaml', 'pnpm'],
  ['yarn.lock', 'yarn'],
  ['package-lock.json', 'npm'],
  ['npm-shrinkwrap.json', 'npm'],
];

/**
 * Returns the plan. `folders` has the project's folder and its parents up to the repository's, because the lockfile of
 * a workspace may be in a parent. Throws Refused if a file names an invalid version.
 */
export function planOf(folders: readonly string[]): Plan {
  const lock = firstOf(folders, (folder) => LOCKFILES.find(([file]) => smallFile(folder, file) !== undefined));
  const named = firstOf(folders, (folder) => managerField(smallObject(folder, 'package.json')?.packageManager));
  const [file, byLockfile] = lock?.found ?? [undefined, 'npm' as const];
  const lockfile = lock && smallFile(lock.folder, lock.found[0]);
  const name = named?.found.name ?? byLockfile;
  const version = named?.found.version ?? versionFor(name, name === byLockfile ? lockfile : undefined);
  return {
    node: firstOf(folders, nodeRange)?.found,
    manager: { name, version, install: installCommand(name, version, file !== undefined && name === byLockfile) },
    lockfile,
  };
}

function firstOf<T>(folders: readonly string[], find: (folder: string) => T | undefined) {
  for (const folder of folders) {
    const found = find(folder);
    if (found !== undefined) return { folder, found };
  }
  return undefined;
}

function nodeRange(folder: string): string | undefined {
  for (const file of ['.nvmrc', '.node-version']) {
    const line = smallFile(folder, file)
      ?.split('\n')
      .map((each) => each.replace(/#.*/, '').trim())
      .find((each) => each !== '');
    if (line) return rangeOf(line, file);
  }
  const { engines } = smallObject(folder, 'package.json') ?? {};
  const range = typeof engines === 'object' && engines !== null ? (engines as { node?: unknown }).node : undefined;
  return typeof range === 'string' ? rangeOf(range, 'engines.node of package.json') : undefined;
}

/** Returns undefined for aliases of the newest version. */
function rangeOf(text: string, file: string): string | undefined {
  if (/^(?:node|stable|latest|current|lts\/\*|lts\/-\d|\*)$/i.test(text)) return undefined;
  const range = semver.validRange(LTS[text.toLowerCase().replace(/^lts\//, '')] ?? text);
  const shown = JSON.stringify(text.slice(0, 100));
  if (range === null) throw new Refused(`${file} has ${shown}, which is not a version of Node. Set one such as "22".`);
  if (!semver.intersects(range, OLDEST_NODE))
    throw new Refused(`${file} sets Node ${shown}, which no longer gets fixes. Set ${OLDEST_NODE}.`);
  return range;
}

function managerField(field: unknown): { name: ManagerName; version: string } | undefined {
  const [, name, version] = /^(npm|pnpm|yarn)@([^+]+)(?:\+.*)?$/.exec(typeof field === 'string' ? field : '') ?? [];
  if (name === undefined || version === undefined || semver.valid(version) === null) return undefined;
  return { name: name as ManagerName, version };
}

/** Returns the versions that read and write the lockfile in its current format. */
function versionFor(name: ManagerName, lockfile = ''): string | undefined {
  if (name === 'npm') return undefined;
  if (name === 'yarn') return /^__metadata:/m.test(lockfile) ? '^4' : '^1.22';
  const format = Number(/^lockfileVersion: '?(\d+(?:\.\d+)?)/m.exec(lockfile)?.[1] ?? 9);
  return format >= 9 ? '^10' : format >= 6 ? '^8' : '^7';
}

function installCommand(name: ManagerName, version: string | undefined, isLocked: boolean): string {
  if (name === 'npm' || !isLocked) return `${name} install`;
  const isModernYarn = name === 'yarn' && semver.intersects(version ?? '1', '>=2');
  return `${name} install ${isModernYarn ? '--immutable' : '--frozen-lockfile'}`;
}
