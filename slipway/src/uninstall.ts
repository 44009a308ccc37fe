/**
 * Removes an installation with all its files, including those outside its folder (`npm run uninstall`). With
 * `--orphans`, removes folders in /var/lib/slipway whose installation was deleted. Called by `main.ts`.
 */
import { rm, rmdir, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { appFolders, endApp } from '@slipway/operator/leftover-apps.js';
import { endLeftover, recordOf } from '@slipway/postgres';
import { diskUsage, inWords } from './disk-usage.js';
import { REMOVAL_MARKER } from './home.js';
import { findInstallation, type Installation, LAST } from './installation.js';
import { lockHolder, takeLock } from './lock.js';
import { StartProblem } from './problem.js';
import { progressOf } from './progress.js';
import {
  expectWritable,
  processesIn,
  removeSharedFolder,
  removeUnusedPrograms,
  type SharedFolder,
  sharedFolder,
  sharedFolders,
} from './shared-home.js';

export interface Removal {
  /** The path of /var/lib/slipway. */
  shared: string;
  apps: MachineApps;
  say(text: string): void;
  /** Returns true if the person agrees. */
  confirm(): Promise<boolean>;
  /** Shows the progress in place of its last text. Absent if the output is no terminal. */
  show?: ((progress: string) => void) | undefined;
}

/** The apps of all installations on this machine. Each folder is `<home>/apps/<ref>`. */
export interface MachineApps {
  folders(): Promise<string[]>;
  /** Ends the containers of an app, and removes what it has outside of its folder. */
  end(folder: string): Promise<void>;
}

const MACHINE_APPS: MachineApps = { folders: appFolders, end: endApp };
const homeOf = (app: string) => path.dirname(path.dirname(app));

/** Maximum number of files that are counted while a person waits. A larger folder is shown as "more than". */
const MOST_ENTRIES = 1_000_000;

/** Runs the command with its words. */
export async function uninstall(words: string[], home: string, shared: string): Promise<void> {
  const unknown = words.find((word) => !['--yes', '--orphans', '--unknown'].includes(word));
  if (unknown !== undefined) {
    throw new StartProblem(`uninstall takes no "${unknown}": npm run uninstall -- --help lists its options`);
  }
  const has = (word: string) => words.includes(word);
  if (has('--unknown') && !has('--orphans')) throw new StartProblem('--unknown goes with --orphans');
  const { isTTY } = process.stdout;
  // A line replaces the shown progress.
  const say = (text: string) => void process.stdout.write(`${isTTY ? '\r\x1b[K' : ''}${text}\n`);
  const show = isTTY ? (text: string) => void process.stdout.write(`\r\x1b[K${text}`) : undefined;
  const removal: Removal = {
    shared,
    apps: MACHINE_APPS,
    say,
    confirm: has('--yes') ? async () => true : askOnTerminal,
    show,
  };
  if (has('--orphans')) await removeOrphans(removal, has('--unknown'));
  else await removeInstallation(home, removal);
}

async function askOnTerminal(): Promise<boolean> {
  if (!process.stdin.isTTY) {
    throw new StartProblem('nothing was removed, as there is no terminal to confirm on: add `-- --yes` to remove it');
  }
  const terminal = createInterface({ input: process.stdin, output: process.stdout });
  try {
    return /^y(es)?$/i.test((await terminal.question('Remove all of it? It cannot be restored. [y/N] ')).trim());
  } finally {
    terminal.close();
  }
}

export async function removeInstallation(folder: string, removal: Removal): Promise<void> {
  const { shared, say, confirm } = removal;
  const installation = await findInstallation(folder, shared);
  await refuseRunning(installation.home);
  if (installation.shared.length > 0) await expectWritable(shared);
  say(`The installation at ${installation.home}:`);
  const sizes = await list([...installation.shared, ...installation.sockets, ...installation.contents], say);
  const { foreign } = installation;
  if (foreign.length > 0) say(`These files in it are not Slipway’s, and stay: ${foreign.join(', ')}`);
  say('Files of the storage service in another folder (SLIPWAY_STORAGE_DIR) or in S3 stay.');
  if (!(await confirm())) return say('Nothing was removed.');
  const lock = await takeLock(installation.home);
  if (!lock) throw await running(installation.home);
  try {
    await remove(installation, removal, removing(sizes, removal));
  } finally {
    lock.release();
  }
  say('Removed.');
}

async function refuseRunning(home: string): Promise<void> {
  if ((await lockHolder(home)) !== undefined) throw await running(home);
}

const running = async (home: string) =>
  new StartProblem(`Slipway runs over ${home} (process ${await lockHolder(home)}): end it with \`npm stop\` first`);

/**
 * Removes the links after the folders that they name, and the lock and the marker last, so that a second run can
 * finish.
 */
async function remove(
  { home, shared, sockets, contents }: Installation,
  removal: Removal,
  removed: (target: string) => void,
): Promise<void> {
  await writeFile(path.join(home, REMOVAL_MARKER), '');
  // A server may have survived a killed supervisor.
  for (const name of ['postgres', 'platform-postgres']) await endLeftover(path.join(home, name));
  for (const app of await removal.apps.folders()) if (homeOf(app) === home) await removal.apps.end(app);
  for (const folder of shared) {
    await removeSharedFolder(folder);
    removed(folder);
  }
  for (const folder of sockets) {
    await rm(folder, { recursive: true, force: true });
    removed(folder);
  }
  if (process.getuid?.() === 0) await removeUnusedPrograms(removal.shared, removal.say);
  for (const each of [...contents, ...LAST.map((name) => path.join(home, name))]) {
    await rm(each, { recursive: true, force: true });
    removed(each);
  }
  removal.show?.('');
  await rmdir(home).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOTEMPTY') throw error;
  });
}

/** Prints the targets with their sizes. Returns their bytes. */
async function list(targets: readonly string[], say: (text: string) => void): Promise<Map<string, number>> {
  const sizes = new Map<string, number>();
  for (const target of targets) {
    const usage = await diskUsage(target, MOST_ENTRIES);
    sizes.set(target, usage.bytes);
    say(`${inWords(usage).padStart(12)}  ${target}`);
  }
  return sizes;
}

/** Returns a function to call after the removal of each target. It shows how much is removed. */
function removing(sizes: ReadonlyMap<string, number>, { show }: Removal): (target: string) => void {
  const total = [...sizes.values()].reduce((sum, bytes) => sum + bytes, 0);
  const begin = performance.now();
  let done = 0;
  return (target) => {
    done += sizes.get(target) ?? 0;
    show?.(`… removed: ${progressOf(done, total, performance.now() - begin)}`);
  };
}

/**
 * Removes folders whose installation was deleted, and ends its apps. With `withUnknown`, also removes folders without a
 * record.
 */
export async function removeOrphans(removal: Removal, withUnknown: boolean): Promise<void> {
  const { shared, say, confirm } = removal;
  await expectWritable(shared);
  const isMeant = ({ state }: SharedFolder) => state === 'orphan' || (withUnknown && state === 'unknown');
  const all = await sharedFolders(shared);
  const meant: SharedFolder[] = [];
  for (const folder of all.filter(isMeant)) if (!(await isInUse(folder, say))) meant.push(folder);
  if (!withUnknown) tellUnknown(all, say);
  const apps = await abandonedApps(removal);
  if (meant.length === 0 && apps.length === 0) return say(`There is nothing to remove in ${shared}.`);
  for (const app of apps) say(`An app whose installation is deleted: ${path.basename(app)}, of ${homeOf(app)}`);
  if (meant.length > 0) {
    say(`Folders in ${shared} whose installation is deleted${withUnknown ? ' or unknown' : ''}:`);
  }
  const sizes = new Map<string, number>();
  for (const { path: folder, link } of meant) {
    const usage = await diskUsage(folder, MOST_ENTRIES);
    sizes.set(folder, usage.bytes);
    say(`${inWords(usage).padStart(12)}  ${folder}  (${link ?? 'of an unknown home'})`);
  }
  if (!(await confirm())) return say('Nothing was removed.');
  const removed = removing(sizes, removal);
  for (const app of await abandonedApps(removal)) if (apps.includes(app)) await removal.apps.end(app);
  for (const { path: folder } of meant) {
    // A start may have used the folder since.
    const now = await sharedFolder(folder);
    if (isMeant(now) && !(await isInUse(now, say))) await removeSharedFolder(folder);
    removed(folder);
  }
  removal.show?.('');
  await removeUnusedPrograms(shared, say);
  say('Removed.');
}

/** Returns the folders of apps whose home does not exist. A disk that does not respond must not end them. */
async function abandonedApps({ apps }: Removal): Promise<string[]> {
  const folders = await apps.folders();
  const errors = await Promise.all(folders.map((app) => stat(homeOf(app)).then(() => undefined, codeOf)));
  return folders.filter((_, i) => errors[i] === 'ENOENT');
}

const codeOf = ({ code }: NodeJS.ErrnoException) => code;

/** Maximum number of files that a start counts in each folder: a new Postgres has 2,500. */
const MOST_ENTRIES_AT_START = 5_000;
const MOST_NAMED = 5;

/** Returns the line that names folders whose installation was deleted, or undefined if there are none. */
export async function orphansMessage(shared: string): Promise<string | undefined> {
  const orphans = (await sharedFolders(shared)).filter(({ state }) => state === 'orphan');
  if (orphans.length === 0) return undefined;
  const named = orphans.slice(0, MOST_NAMED).map(async ({ path: folder, link }) => {
    const usage = await diskUsage(folder, MOST_ENTRIES_AT_START);
    return `${folder} (${inWords(usage)}, of ${link})`;
  });
  const more = orphans.length > MOST_NAMED ? ` and ${orphans.length - MOST_NAMED} more` : '';
  return (
    `! data whose SLIPWAY_HOME is deleted: ${(await Promise.all(named)).join(', ')}${more}. ` +
    'npm run uninstall -- --orphans removes it'
  );
}

async function isInUse({ path: folder }: SharedFolder, say: (text: string) => void): Promise<boolean> {
  const pids = await processesIn(folder);
  if (pids.length > 0) say(`! ${folder} stays: process ${pids.join(', ')} works in it`);
  return pids.length > 0;
}

function tellUnknown(all: readonly SharedFolder[], say: (text: string) => void): void {
  const unknown = all.filter(({ state }) => state === 'unknown');
  if (unknown.length === 0) return;
  say('Folders of an unknown home, which stay. A start of their home adopts them; `--orphans --unknown` removes them:');
  for (const { path: folder } of unknown) say(`  ${folder} (no ${path.basename(recordOf(folder))})`);
}
