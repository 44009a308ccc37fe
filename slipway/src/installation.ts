/**
 * Finds the files of one installation, inside its home and outside. In: SLIPWAY_HOME. Out: paths to remove, in an order
 * that lets a second run finish an interrupted removal. Used by `npm run uninstall`.
 */
import { lstat, readdir, readFile, realpath } from 'node:fs/promises';
import path from 'node:path';
import { linkTarget } from '@slipway/postgres';
import { REMOVAL_MARKER, socketsOf } from './home.js';
import { StartProblem } from './problem.js';
import { isSharedFolder, sharedFolder } from './shared-home.js';

export interface Installation {
  /** The real path of the home. */
  home: string;
  /** Folders in /var/lib/slipway that belong only to this installation. */
  shared: string[];
  /** Folders of sockets. */
  sockets: string[];
  /** Files and folders in the home, without the lock. Links come last. */
  contents: string[];
  /** Names in the home that are not Slipway's. These files stay. */
  foreign: string[];
}

const FOLDERS = ['secrets', 'tls', 'programs', 'logs', 'cache'];
/** Names of links in the home, or of folders in their place. */
const LINKS = ['functions', 'postgres', 'platform-postgres'];
const OTHERS = [
  'certificates',
  'storage',
  'sites',
  'builds',
  'apps',
  'machines',
  'kubeconfig',
  'services-shared',
  '.probe',
];
/** Files that are removed last, because they prevent a start, and identify the folder as a home. */
export const LAST = ['pid', 'lock', 'lock-journal', REMOVAL_MARKER];
/** Matches files with these names that a killed process left unfinished. */
const OWN_FILE = /^(kubeconfig|services-shared|pid)\.[0-9a-f]{12}\.new$/;

/** Throws if `folder` is not a home, or if a link in it leads to files of another owner. */
export async function findInstallation(folder: string, shared: string): Promise<Installation> {
  const home = await realpath(folder).catch(() => folder);
  const names = await readdir(home).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT')
      throw new StartProblem(`there is no folder ${home}: set SLIPWAY_HOME to the one to remove`);
    if (error.code === 'ENOTDIR') throw notAHome(home);
    throw error;
  });
  // An interrupted removal may leave only the marker, or the empty folder.
  const isHome = names.length === 0 || names.includes(REMOVAL_MARKER) || FOLDERS.every((name) => names.includes(name));
  if (!isHome) throw notAHome(home);
  const owner = (await lstat(home)).uid;
  const uid = process.getuid?.();
  if (uid !== 0 && uid !== owner)
    throw new StartProblem(`${home} belongs to another account: run the command as it, or as root`);
  const own = [...FOLDERS, ...OTHERS, ...LINKS].filter((name) => names.includes(name));
  const unfinished = names.filter((name) => OWN_FILE.test(name));
  return {
    home,
    shared: await sharedOf(home, owner, shared),
    sockets: await socketsFoldersOf(home, owner),
    contents: [...unfinished, ...own].map((name) => path.join(home, name)),
    foreign: names.filter((name) => ![...own, ...unfinished, ...LAST].includes(name)),
  };
}

const notAHome = (home: string) =>
  new StartProblem(
    `${home} is not a folder of Slipway, and nothing was removed: set SLIPWAY_HOME to the one to remove`,
  );

async function sharedOf(home: string, owner: number, shared: string): Promise<string[]> {
  const links = ['postgres', 'platform-postgres', 'functions/deployed'].map((name) => path.join(home, name));
  const all = await Promise.all(links.map((link) => targetOf(link, home, shared)));
  const targets = all.filter((target) => target !== undefined);
  // Only a start by root makes these links.
  if (owner !== 0 && process.getuid?.() === 0 && targets.length > 0) {
    throw new StartProblem(`${home} names folders in ${shared} but does not belong to root, and nothing was removed`);
  }
  return targets;
}

/** Returns the folder in /var/lib/slipway that `link` leads to, or undefined if it belongs to another installation. */
async function targetOf(link: string, home: string, shared: string): Promise<string | undefined> {
  const target = await linkTarget(link);
  if (target === undefined || path.resolve(home, target).startsWith(`${home}${path.sep}`)) return undefined;
  const stats = await lstat(target).catch(() => undefined);
  if (!isSharedFolder(target, shared) || (stats && !stats.isDirectory())) {
    throw new StartProblem(
      `${link} leads to ${target}, which Slipway did not make, and nothing was removed: ` +
        'remove the link, and that folder if nothing else needs it',
    );
  }
  const { state, link: recorded } = await sharedFolder(target);
  // The home is a copy of the home that owns the folder.
  return state === 'owned' && recorded !== link ? undefined : target;
}

/** Returns the socket folders in the system's temporary folder. Another account may own a folder with the same name. */
async function socketsFoldersOf(home: string, owner: number): Promise<string[]> {
  const functions = await readFile(path.join(home, 'functions', 'sockets'), 'utf8').catch(() => '');
  const { folder } = socketsOf(home);
  const isOfFunctions =
    path.dirname(functions) === path.dirname(folder) && path.basename(functions).startsWith('slipway-fn-');
  const folders = [folder, ...(isOfFunctions ? [functions] : [])];
  const stats = await Promise.all(folders.map((folder) => lstat(folder).catch(() => undefined)));
  return folders.filter((_, i) => stats[i]?.isDirectory() && stats[i].uid === owner);
}
