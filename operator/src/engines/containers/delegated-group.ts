/**
 * The control group of a project's containers. Its limits belong to root of this machine, and the root of the project's
 * space may divide it: the engine makes a group of each container. In: a name, limits and ids. Out: the group for the
 * engine, and commands that run in it. Control groups of version 1 alone.
 */
import { chown, mkdir, readdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { namesIn } from '@slipway/program';

export interface GroupLimits {
  /** Bytes of all processes together, also of the engine. */
  memoryBytes: number;
  processes: number;
}

const HIERARCHY = '/sys/fs/cgroup';
/** The group of all groups that are made here. */
const PARENT = 'slipway-apps';
/** The part that the engine may divide. */
const DELEGATED = 'containers';
const LOOK_MS = 10;
const MOST_LOOKS = 1000;
const PROCESSES = 'cgroup.procs';
/** Prefix of the groups that podman makes for containers. */
const OF_CONTAINER = 'libpod-';
/** The group that podman makes for its own process of each container. */
const OF_ENGINE = 'conmon';
const OF_SOCKETS = 'memory.kmem.tcp.limit_in_bytes';
/** Files of a new group of version 1 that must be filled before a process may enter it. */
const OF_CPUSET = ['cpuset.cpus', 'cpuset.mems'];

/** Makes the group, or sets the limits of one that exists. Returns its path for the engine. */
export async function openGroup(name: string, firstId: number, limits: GroupLimits): Promise<string> {
  const within = path.join(PARENT, name, DELEGATED);
  if (await isThere(path.join(HIERARCHY, 'cgroup.controllers'))) {
    throw new Error('containers need control groups of version 1, and this machine has version 2');
  }
  for (const hierarchy of await hierarchies()) {
    await openIn(hierarchy, name, limits);
    await give(path.join(hierarchy, within), firstId);
  }
  return `/${within}`;
}

/** Returns the processes of the containers in the group, without those of the engine. */
export async function processesOfGroup(name: string): Promise<number[]> {
  const folder = path.join(HIERARCHY, 'pids', PARENT, name, DELEGATED);
  const groups = (await namesIn(folder)).filter((each) => each.startsWith(OF_CONTAINER));
  const lists = await Promise.all(
    groups.map((group) => readFile(path.join(folder, group, PROCESSES), 'utf8').catch(() => '')),
  );
  return lists.flatMap((list) => list.split('\n').filter(Boolean).map(Number));
}

/** True if podman's process for a container of the group runs. */
export async function isEngineInGroup(name: string): Promise<boolean> {
  const file = path.join(HIERARCHY, 'pids', PARENT, name, DELEGATED, OF_ENGINE, 'cgroup.procs');
  return (await readFile(file, 'utf8').catch(() => '')).trim() !== '';
}

/** Returns the bytes of memory that all processes of the group use. */
export async function memoryOfGroup(name: string): Promise<number> {
  const file = path.join(HIERARCHY, 'memory', PARENT, name, 'memory.usage_in_bytes');
  return Number(await readFile(file, 'utf8').catch(() => '0'));
}

/**
 * Limits the bytes that wait in the sockets of TCP and UDP of the containers in the group. The kernel counts them apart
 * from other memory, in the group of each container alone, and only for sockets that are made after the limit.
 */
export async function limitSocketsOfGroup(name: string, bytes: number): Promise<void> {
  const folder = path.join(HIERARCHY, 'memory', PARENT, name, DELEGATED);
  const groups = (await namesIn(folder)).filter((each) => each.startsWith(OF_CONTAINER));
  for (const group of groups) await writeIfThere(path.join(folder, group, OF_SOCKETS), `${bytes}`);
}

/** Returns the command that runs `command` in the group, beside the groups that the engine makes. */
export async function inGroup(name: string, command: readonly string[]): Promise<string[]> {
  const files = (await hierarchies()).map((hierarchy) => path.join(hierarchy, PARENT, name, PROCESSES));
  return ['sh', '-c', ENTER, 'sh', ...files, '--', ...command];
}

/** Kills the processes of the group, and removes it. */
export async function closeGroup(name: string): Promise<void> {
  await killGroup(path.join(HIERARCHY, 'pids', PARENT, name));
  for (const hierarchy of await hierarchies()) await removeGroups(path.join(hierarchy, PARENT, name));
}

/** Script that enters the groups of the files before `--`, and runs the command after it. */
const ENTER = 'while [ "$1" != -- ]; do echo $$ >"$1" || exit 1; shift; done; shift; exec "$@"';

/** Kills all processes below the folder. The limit stops them from starting others. */
async function killGroup(folder: string): Promise<void> {
  if (!(await isThere(folder))) return;
  await writeIfThere(path.join(folder, 'pids.max'), '0');
  for (let look = 1; look <= MOST_LOOKS; look += 1) {
    const processes = await processesBelow(folder);
    if (processes.length === 0) return;
    for (const pid of processes) killIfThere(pid);
    await sleep(LOOK_MS);
  }
}

async function processesBelow(folder: string): Promise<number[]> {
  const own = await readFile(path.join(folder, PROCESSES), 'utf8').catch(() => '');
  const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
  const below = entries
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => processesBelow(path.join(folder, name)));
  return [...own.split('\n').filter(Boolean).map(Number), ...(await Promise.all(below)).flat()];
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

async function openIn(hierarchy: string, name: string, { memoryBytes, processes }: GroupLimits): Promise<void> {
  let folder = hierarchy;
  for (const part of [PARENT, name, DELEGATED]) {
    const above = folder;
    folder = path.join(folder, part);
    await mkdir(folder, { recursive: true });
    for (const file of OF_CPUSET) await copyIfThere(path.join(above, file), path.join(folder, file));
  }
  const limited = path.join(hierarchy, PARENT, name);
  // The limit with swap must never be the lower one of both.
  const withSwap = path.join(limited, 'memory.memsw.limit_in_bytes');
  await writeIfThere(withSwap, `${memoryBytes}`).catch(() => undefined);
  await writeIfThere(path.join(limited, 'memory.limit_in_bytes'), `${memoryBytes}`);
  await writeIfThere(withSwap, `${memoryBytes}`);
  await writeIfThere(path.join(limited, 'pids.max'), `${processes}`);
}

/** Gives the folder and the files by which groups are made and entered, and no file of a limit. */
async function give(folder: string, id: number): Promise<void> {
  await chown(folder, id, id);
  for (const file of [PROCESSES, 'tasks']) {
    const place = path.join(folder, file);
    if (await isThere(place)) await chown(place, id, id);
  }
}

/** Returns the top folder of each hierarchy. `unified` is one of version 2, without controllers. */
async function hierarchies(): Promise<string[]> {
  const entries = await readdir(HIERARCHY, { withFileTypes: true });
  const folders = entries.filter((entry) => entry.isDirectory() && entry.name !== 'unified');
  return folders.map(({ name }) => path.join(HIERARCHY, name));
}

async function removeGroups(folder: string): Promise<void> {
  if (!(await isThere(folder))) return;
  const entries = await readdir(folder, { withFileTypes: true });
  for (const entry of entries) if (entry.isDirectory()) await removeGroups(path.join(folder, entry.name));
  await rmdir(folder).catch(() => undefined);
}

const isThere = (place: string) =>
  readdir(place).then(
    () => true,
    (error: NodeJS.ErrnoException) => error.code === 'ENOTDIR',
  );

async function copyIfThere(from: string, to: string): Promise<void> {
  if (await isThere(from)) await writeFile(to, await readFile(from));
}

async function writeIfThere(file: string, text: string): Promise<void> {
  if (await isThere(file)) await writeFile(file, text);
}
