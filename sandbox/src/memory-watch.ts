/**
 * Limits the memory of all processes of a sealed command together: measures it ten times a second, and kills the
 * command above the limit. In: the started command and the limit. Out: a promise of its end. Reads only `/proc`, so it
 * needs no rights. Between two measurements, RLIMIT_DATA times RLIMIT_NPROC is the bound; if the machine runs out of
 * memory earlier, the kernel kills the command first (`oom_score_adj`).
 *
 * Counts private and shared pages, swap and page tables of each process, and for each socket the size of its buffer,
 * which the filter of system calls fixes. Pages that a fork shares count for both processes. The scratch folder has a
 * separate limit.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as pause, setImmediate as turn } from 'node:timers/promises';

const INTERVAL_MS = 100;
/** Number of processes that are measured in one turn of the event loop, at some 40 µs each. */
const PROCESSES_A_TURN = 64;
const COUNTED = /^(?:RssAnon|RssShmem|VmSwap|VmPTE):\s+(\d+) kB$/gm;
const DEFAULT_SOCKET_BYTES = 212_992;

export interface Watched {
  /** Undefined before its start and after its exit. */
  readonly pid: number | undefined;
  readonly closed: Promise<unknown>;
  kill(): void;
}

/** Resolves with the measured bytes if it killed the command, or with undefined if the command ended by itself. */
export async function watchMemory(command: Watched, limitBytes: number): Promise<number | undefined> {
  let hasEnded = false;
  let exceeded: number | undefined;
  const end = () => {
    hasEnded = true;
  };
  command.closed.then(end, end);
  while (!hasEnded) {
    const bytes = command.pid === undefined ? 0 : await memoryOf(command.pid);
    if (bytes > limitBytes) {
      exceeded ??= bytes;
      command.kill();
    }
    await pause(INTERVAL_MS);
  }
  return exceeded;
}

/** Returns the bytes of a sealed command, which `pid` started. */
export async function memoryOf(pid: number): Promise<number> {
  let bytes = 0;
  let count = 0;
  for (const process of descendantsOf(pid)) {
    bytes += bytesOf(process);
    // The first child is in the command's network namespace.
    if (++count === 2) bytes += socketsOf(process) * socketBytes();
    if (count % PROCESSES_A_TURN === 0) await turn();
  }
  return bytes;
}

/**
 * Returns the processes that `pid` started, and their descendants. An orphan's parent is process 1 of the namespace.
 */
function* descendantsOf(pid: number): Generator<number> {
  yield pid;
  for (const thread of threadsOf(pid))
    for (const child of textOf(`/proc/${pid}/task/${thread}/children`).split(' '))
      if (child !== '') yield* descendantsOf(Number(child));
}

function bytesOf(pid: number): number {
  const lines = textOf(`/proc/${pid}/status`).matchAll(COUNTED);
  return [...lines].reduce((sum, [, kibibytes]) => sum + Number(kibibytes) * 1024, 0);
}

const socketsOf = (pid: number) => Number(/^sockets: used (\d+)$/m.exec(textOf(`/proc/${pid}/net/sockstat`))?.[1] ?? 0);

const socketBytes = () => Number(textOf('/proc/sys/net/core/wmem_default')) || DEFAULT_SOCKET_BYTES;

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/** Returns an empty text for a process that has ended. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
