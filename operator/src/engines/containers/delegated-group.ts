/**
 * The control group of a project's containers. Its limits belong to root of this machine, and the root of the project's
 * space may divide it: the engine makes a group of each container. In: a name, limits and ids. Out: the group for the
 * engine, and commands that run in it.
 *
 * Version 1 of control groups has a hierarchy of folders for each controller, version 2 has one for all of them. There,
 * a group that has groups with controllers has no process of its own, and a process is moved only by who may change
 * the group above both places. So the engine runs in a group beside those of its containers.
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
/** A file of version 2 with the controllers that the groups below have. */
const SUBTREE = 'cgroup.subtree_control';
/** Prefix of the groups that podman makes for containers. */
const OF_CONTAINER = 'libpod-';
/** The group of the engine's own processes with version 2, and those of its process of each container with any. */
const ENGINE = 'engine';
const OF_ENGINE = ['conmon', ENGINE] as const;
/** Exists at the top of version 2. */
const OF_SECOND = 'cgroup.controllers';
const CONTROLLERS = ['cpu', 'memory', 'pids'] as const;
/** The files by which groups are made, divided and entered. */
const GIVEN = [PROCESSES, 'tasks', 'cgroup.threads', SUBTREE];
const OF_SOCKETS = 'memory.kmem.tcp.limit_in_bytes';
/** Files of a new group of version 1 that must be filled before a process may enter it. */
const OF_CPUSET = ['cpuset.cpus', 'cpuset.mems'];

/** Makes the group, or sets the limits of one that exists. Returns its path for the engine. */
export async function openGroup(name: string, firstId: number, limits: GroupLimits): Promise<string> {
  const within = path.join(PARENT, name, DELEGATED);
  const isDivided = await isSecond();
  if (isDivided) await examineControllers();
  for (const hierarchy of await hierarchies()) {
    await makeGroups(hierarchy, [PARENT, name, DELEGATED, ...(isDivided ? [ENGINE] : [])]);
    await limit(path.join(hierarchy, PARENT, name), limits);
    await give(path.join(hierarchy, within), firstId);
  }
  return `/${within}`;
}

/** Returns the processes of the containers in the group, without those of the engine. */
export async function processesOfGroup(name: string): Promise<number[]> {
  const folder = await folderOf('pids', name, DELEGATED);
  const groups = (await namesIn(folder)).filter((each) => each.startsWith(OF_CONTAINER));
  const lists = await Promise.all(
    groups.map((group) => readFile(path.join(folder, group, PROCESSES), 'utf8').catch(() => '')),
  );
  return lists.flatMap((list) => list.split('\n').filter(Boolean).map(Number));
}

/** True if podman's process for a container of the group runs. */
export async function isEngineInGroup(name: string): Promise<boolean> {
  const folder = await folderOf('pids', name, DELEGATED);
  const lists = OF_ENGINE.map((group) => readFile(path.join(folder, group, PROCESSES), 'utf8').catch(() => ''));
  return (await Promise.all(lists)).some((list) => list.trim() !== '');
}

/** Returns the bytes of memory that all processes of the group use. */
export async function memoryOfGroup(name: string): Promise<number> {
  const folder = await folderOf('memory', name);
  for (const file of ['memory.current', 'memory.usage_in_bytes']) {
    const bytes = await readFile(path.join(folder, file), 'utf8').catch(() => undefined);
    if (bytes !== undefined) return Number(bytes);
  }
  return 0;
}

/**
 * Limits the bytes that wait in the sockets of TCP and UDP of the containers in the group. The kernel of version 1
 * counts them apart from other memory, in the group of each container alone, and only for sockets that are made after
 * the limit. Version 2 counts them as memory of the group.
 */
export async function limitSocketsOfGroup(name: string, bytes: number): Promise<void> {
  const folder = await folderOf('memory', name, DELEGATED);
  const groups = (await namesIn(folder)).filter((each) => each.startsWith(OF_CONTAINER));
  for (const group of groups) await writeIfThere(path.join(folder, group, OF_SOCKETS), `${bytes}`);
}

/** Returns the command that runs `command` in the group, beside the groups that the engine makes. */
export async function inGroup(name: string, command: readonly string[]): Promise<[string, ...string[]]> {
  const within = (await isSecond()) ? path.join(PARENT, name, DELEGATED, ENGINE) : path.join(PARENT, name);
  const files = (await hierarchies()).map((hierarchy) => path.join(hierarchy, within, PROCESSES));
  return ['sh', '-c', ENTER, 'sh', ...files, '--', ...command];
}

/** Kills the processes of the group, and removes it. */
export async function closeGroup(name: string): Promise<void> {
  await killGroup(await folderOf('pids', name));
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

/** Makes groups of which each one is in the group before it. */
async function makeGroups(hierarchy: string, names: readonly string[]): Promise<void> {
  let folder = hierarchy;
  for (const name of names) {
    const above = folder;
    folder = path.join(above, name);
    await mkdir(folder, { recursive: true });
    for (const file of OF_CPUSET) await fillIfEmpty(path.join(folder, file), path.join(above, file));
    await writeIfThere(path.join(above, SUBTREE), CONTROLLERS.map((each) => `+${each}`).join(' '));
  }
}

/** Without swap, beside the memory. Each version has files of its own. */
async function limit(folder: string, { memoryBytes, processes }: GroupLimits): Promise<void> {
  const write = (file: string, value: number) => writeIfThere(path.join(folder, file), `${value}`);
  // The limit with swap must never be the lower one of both.
  await write('memory.memsw.limit_in_bytes', memoryBytes).catch(() => undefined);
  await write('memory.limit_in_bytes', memoryBytes);
  await write('memory.memsw.limit_in_bytes', memoryBytes);
  await write('memory.max', memoryBytes);
  await write('memory.swap.max', 0);
  await write('pids.max', processes);
}

/** Gives the folder and the files by which groups are made and entered, and no file of a limit. */
async function give(folder: string, id: number): Promise<void> {
  await chown(folder, id, id);
  for (const file of GIVEN) {
    const place = path.join(folder, file);
    if (await isThere(place)) await chown(place, id, id);
  }
}

const isSecond = () => isThere(path.join(HIERARCHY, OF_SECOND));

/** Throws if the kernel, or the container in which this process runs, has no limits of some kind. */
async function examineControllers(): Promise<void> {
  const available = (await readFile(path.join(HIERARCHY, OF_SECOND), 'utf8')).trim().split(' ');
  const absent = CONTROLLERS.filter((each) => !available.includes(each));
  if (absent.length > 0) throw new Error(`this machine has no control groups for ${absent.join(', ')}`);
}

/** Returns the folder of a group that has the files of a controller. */
async function folderOf(controller: (typeof CONTROLLERS)[number], ...names: string[]): Promise<string> {
  return path.join(HIERARCHY, (await isSecond()) ? '' : controller, PARENT, ...names);
}

/** Returns the top folder of each hierarchy. With version 1, `unified` is one of version 2 without controllers. */
async function hierarchies(): Promise<string[]> {
  if (await isSecond()) return [HIERARCHY];
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

async function fillIfEmpty(file: string, from: string): Promise<void> {
  const read = async (each: string) => ((await isThere(each)) ? (await readFile(each, 'utf8')).trim() : '');
  const text = await read(from);
  if (text !== '' && (await isThere(file)) && (await read(file)) === '') await writeFile(file, text);
}

async function writeIfThere(file: string, text: string): Promise<void> {
  if (await isThere(file)) await writeFile(file, text);
}
