/**
 * Runs one command of a build in a sealed process, whose only network access is the egress proxy. In: the command, its
 * variables and folders, and limits. Out: its exit code, after every process that it started has ended. Rejects with
 * `Ended` if the command exceeded a limit, and with the signal's reason if it was aborted.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Account, ControlGroup, installedDeno, sealed, watchMemory } from '@slipway/sandbox';
import { inBackground } from './background.js';
import { watchDisk } from './disk-watch.js';
import type { BuildLimits } from './request.js';

/** The program that offers the egress proxy on loopback. */
export const RELAY = fileURLToPath(new URL('./egress/relay.mjs', import.meta.url));
export const PROXY_PORT = 14_128;
/** The address of the egress proxy inside of a build. */
export const PROXY_URL = `http://127.0.0.1:${PROXY_PORT}`;
/** Limits of the scratch file system in memory. All other files of a build are on disk. */
const SCRATCH = { diskBytes: 64 * 2 ** 20, diskFiles: 10_000 };
const COMPLAINT_BYTES = 4096;
/**
 * Milliseconds after which a killed command's sealing program is killed too. The sealed process ends within
 * milliseconds of a kill.
 */
const PATIENCE_MS = 2_000;

export interface StepCommand {
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  readable: readonly string[];
  writable: readonly string[];
  /** The name of the command in messages for the tenant. */
  shown: string;
}

export interface SealedCommand extends StepCommand {
  account: Account | undefined;
  /** The egress proxy's socket. */
  socket: string;
  /** A list of accounts that names the build's account, because ssh and some programs of npm look the name up. */
  passwd: string;
  /** The folders whose total size is limited. */
  disk: readonly string[];
  limits: BuildLimits;
}

/** The command was killed because it exceeded a limit. The message is for the tenant. */
export class Ended extends Error {}

export async function runSealed(
  how: SealedCommand,
  onOutput: (bytes: Buffer) => void,
  signal: AbortSignal,
): Promise<number> {
  signal.throwIfAborted();
  const group = ControlGroup.make(how.limits);
  try {
    return await runIn(group, how, onOutput, signal);
  } finally {
    await group?.remove();
  }
}

/** `group`: undefined where none can be made. The watches limit the command in both cases. */
async function runIn(
  group: ControlGroup | undefined,
  how: SealedCommand,
  onOutput: (bytes: Buffer) => void,
  signal: AbortSignal,
): Promise<number> {
  const { command, args, env } = sealedForm(how);
  const whole = inBackground([command, ...args]);
  const [program, ...words] = (group?.running(whole) ?? whole) as [string, ...string[]];
  const child = spawn(program, words, { cwd: '/', env, stdio: ['ignore', 'pipe', 'pipe'] });
  child.stdout.on('data', onOutput);
  // The relay sends all output of the command to standard output, so these errors are from the programs around it.
  let complaints = Buffer.alloc(0);
  child.stderr.on('data', (bytes: Buffer) => {
    if (complaints.length < COMPLAINT_BYTES) complaints = Buffer.concat([complaints, bytes]);
  });
  const closed = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  const kill = () => killSealed(child);
  const watched = {
    closed,
    kill,
    get pid() {
      return child.exitCode === null ? child.pid : undefined;
    },
  };
  signal.addEventListener('abort', kill);
  try {
    const { memoryBytes, diskBytes } = how.limits;
    const watches = Promise.all([watchMemory(watched, memoryBytes), watchDisk(watched, how.disk, diskBytes)]);
    // If a watch fails, the command is killed: nothing runs without its limits.
    watches.catch(kill);
    const [[code, by]] = await Promise.all([closed, watches.catch(() => undefined)]);
    const [memory, disk] = await watches;
    signal.throwIfAborted();
    if (memory !== undefined || group?.isExceeded)
      throw new Ended(`its processes used more than ${mebibytes(memoryBytes)} of memory`);
    if (disk !== undefined) throw new Ended(disk);
    if (code !== 0) onOutput(complaints);
    return code ?? (by === 'SIGKILL' ? 137 : 143);
  } finally {
    signal.removeEventListener('abort', kill);
  }
}

const mebibytes = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`;

function sealedForm(how: SealedCommand) {
  const { account, limits, socket, writable } = how;
  const node = process.execPath;
  const readable = [node, RELAY, ...how.readable];
  // A mount over a folder hides its content.
  const isHidden = [...readable, ...writable, socket].some((place) => place.startsWith('/tmp/'));
  const fileSize = ['prlimit', `--fsize=${limits.diskBytes}`, '--'];
  return sealed([...fileSize, node, RELAY, socket, String(PROXY_PORT), ...how.command], {
    account,
    deno: installedDeno(),
    env: how.env,
    scratch: isHidden ? '/scratch' : '/tmp',
    socket,
    readable,
    writable,
    replaced: { '/etc/passwd': how.passwd },
    limits: { processMemoryBytes: limits.processMemoryBytes, processes: limits.processes, ...SCRATCH },
  });
}

/**
 * Kills process 1 of the sealed namespace. The kernel then kills all other processes before the command counts as
 * ended.
 */
function killSealed(child: ChildProcess): void {
  const first = child.pid === undefined ? [] : childrenOf(child.pid);
  for (const pid of first) killed(pid);
  if (first.length === 0) return void child.kill('SIGKILL');
  const patience = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
  child.once('close', () => clearTimeout(patience));
}

function childrenOf(pid: number): number[] {
  try {
    return readFileSync(path.join('/proc', String(pid), 'task', String(pid), 'children'), 'utf8')
      .split(' ')
      .filter(Boolean)
      .map(Number);
  } catch {
    return [];
  }
}

function killed(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // The process has ended.
  }
}
