/**
 * Limits the memory and the processes of a command by a control group, so that the kernel enforces the limits at each
 * allocation. In: the limits. Out: the command that runs in the group. Only root of a machine can make one, with
 * version 2 at the top of the hierarchy, or with version 1. Everywhere else the other limits of a sealed command apply.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { isRoot } from './account.js';

interface GroupLimits {
  /** Bytes of all processes together, with their files in memory. */
  memoryBytes: number;
  processes: number;
}

const HIERARCHY = '/sys/fs/cgroup';
/** The group of all groups that are made here. */
const PARENT = 'slipway-builds';
const CONTROLLERS = ['memory', 'pids'];
/** The kernel may count an ended process for some milliseconds. */
const [REMOVALS, REMOVAL_PAUSE_MS] = [20, 50];
const ENTER = 'for group in $1; do echo 0 >"$group/cgroup.procs" || exit 1; done; shift; exec "$@"';

export class ControlGroup {
  /** `folders`: one for each hierarchy. */
  constructor(
    private readonly folders: readonly string[],
    private readonly kills: { file: string; line: RegExp },
  ) {}

  /** Undefined: this process can't make a group with limits. */
  static make(limits: GroupLimits): ControlGroup | undefined {
    canLimit ??= isRoot() && canEnter();
    return canLimit ? ControlGroup.in(HIERARCHY, limits) : undefined;
  }

  /** Makes a group in the hierarchy that is mounted at `top`. */
  static in(top: string, limits: GroupLimits): ControlGroup | undefined {
    const name = `${process.pid}-${++count}`;
    try {
      return existsSync(path.join(top, 'cgroup.controllers')) ? second(top, name, limits) : first(top, name, limits);
    } catch {
      return undefined;
    }
  }

  /** Returns the command that runs `command` in the group. */
  running(command: readonly string[]): string[] {
    return ['sh', '-c', ENTER, 'sh', this.folders.join(' '), ...command];
  }

  /** True if the kernel killed a process because the group exceeded its memory. */
  get isExceeded(): boolean {
    const [, kills] = this.kills.line.exec(readIfThere(path.join(this.folders[0] as string, this.kills.file))) ?? [];
    return Number(kills ?? 0) > 0;
  }

  /** Removes the group after its processes have ended. If one has not, the group stays, with its limits. */
  async remove(): Promise<void> {
    for (let removal = 1; removal <= REMOVALS; removal += 1) {
      if (this.folders.every(isRemoved)) return;
      await pause(REMOVAL_PAUSE_MS);
    }
  }
}

let canLimit: boolean | undefined;
let count = 0;

/** Tries a group once, because a container may have a hierarchy that it can't change. */
function canEnter(): boolean {
  removeLeftovers();
  const group = ControlGroup.in(HIERARCHY, { memoryBytes: 2 ** 26, processes: 10 });
  if (!group) return false;
  const [program, ...args] = group.running(['true']) as [string, ...string[]];
  const { status } = spawnSync(program, args, { stdio: 'ignore', timeout: 5_000 });
  void group.remove();
  return status === 0;
}

function second(top: string, name: string, { memoryBytes, processes }: GroupLimits): ControlGroup {
  const available = readIfThere(path.join(top, 'cgroup.controllers')).trim().split(' ');
  if (!CONTROLLERS.every((each) => available.includes(each))) throw new Error('no controllers');
  const parent = path.join(top, PARENT);
  mkdirSync(parent, { recursive: true });
  for (const folder of [top, parent]) {
    writeFileSync(path.join(folder, 'cgroup.subtree_control'), CONTROLLERS.map((each) => `+${each}`).join(' '));
  }
  const folder = path.join(parent, name);
  mkdirSync(folder);
  const group = new ControlGroup([folder], { file: 'memory.events', line: /^oom_kill (\d+)$/m });
  try {
    writeFileSync(path.join(folder, 'memory.max'), `${memoryBytes}`);
    writeFileSync(path.join(folder, 'memory.oom.group'), '1');
    writeIfThere(path.join(folder, 'memory.swap.max'), '0');
    writeFileSync(path.join(folder, 'pids.max'), `${processes}`);
  } catch (error) {
    void group.remove();
    throw error;
  }
  return group;
}

function first(top: string, name: string, { memoryBytes, processes }: GroupLimits): ControlGroup {
  const [memory, pids] = CONTROLLERS.map((each) => path.join(top, each, PARENT, name)) as [string, string];
  if (!CONTROLLERS.every((each) => existsSync(path.join(top, each, 'cgroup.procs')))) throw new Error('no controllers');
  const group = new ControlGroup([memory, pids], { file: 'memory.oom_control', line: /^oom_kill (\d+)$/m });
  try {
    for (const folder of [memory, pids]) mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(memory, 'memory.limit_in_bytes'), `${memoryBytes}`);
    writeIfThere(path.join(memory, 'memory.memsw.limit_in_bytes'), `${memoryBytes}`);
    writeFileSync(path.join(pids, 'pids.max'), `${processes}`);
  } catch (error) {
    void group.remove();
    throw error;
  }
  return group;
}

/** Removes groups of processes that were killed before they removed them. A group with a process can't be removed. */
function removeLeftovers(): void {
  for (const parent of ['.', ...CONTROLLERS].map((each) => path.join(HIERARCHY, each, PARENT))) {
    for (const name of foldersIn(parent)) {
      const [pid = ''] = name.split('-');
      if (!existsSync(`/proc/${pid}`)) isRemoved(path.join(parent, name));
    }
  }
}

function foldersIn(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);
}

function isRemoved(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return !existsSync(folder);
  }
}

function writeIfThere(file: string, text: string): void {
  if (existsSync(file)) writeFileSync(file, text);
}

function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
