/**
 * Ends this program when its main thread hangs, so that the supervisor or the kubelet restarts it. In: the turns of the
 * main thread, and its present project and operation. Out: a log line, a record of the project, and HUNG_EXIT_CODE.
 * Started by the main.ts of each program; a separate thread (watchdog-thread.ts) does the work.
 */
import { Worker } from 'node:worker_threads';
import { logLongTurns } from './long-turns.js';
import { UnderWay } from './under-way.js';

/** Exit code of a program that its watchdog ended. */
export const HUNG_EXIT_CODE = 86;
/** Milliseconds of processor time in one turn of the event loop from which the main thread counts as hanging. */
export const HANG_MS = 10_000;

const LOOK_MS = 1_000;
/** Limits of the thread's heap. V8 can't start a thread with a quarter of them. */
const MEMORY = { maxOldGenerationSizeMb: 16, maxYoungGenerationSizeMb: 1 };

export interface WatchdogOptions {
  /** Name of the program, for the log. */
  program: string;
  /** Path of the file that records hangs of projects (hang-record.ts); undefined: not recorded. */
  record?: string | undefined;
  /** Differs from HANG_MS only in tests. */
  limitMs?: number;
}

export interface WatchdogThreadData extends WatchdogOptions {
  memory: SharedArrayBuffer;
  limitMs: number;
  lookMs: number;
  exitCode: number;
}

const state = new UnderWay();
let isNamed = false;
let endLongTurn = (): void => undefined;

/**
 * Sets the project and operation of the present event, and of the promises that it settles. They are reset at its end:
 * the next event of the same turn of the event loop may belong to another project. So an operation that continues in a
 * later event must set them again.
 */
export function underWay(project: string, operation: string): void {
  state.begin(project, operation);
  if (isNamed) return;
  isNamed = true;
  settled.then(afterTicks);
}

/** The ticks of an event run before its microtasks, and the tick of a microtask once all of them have run. */
const afterTicks = () => process.nextTick(endNamedEvent);
/** Its `then` costs a tenth of `queueMicrotask`. */
const settled = Promise.resolve();

function endNamedEvent(): void {
  endLongTurn();
  isNamed = false;
  state.endNames();
}

export function startWatchdog({ program, record, limitMs = HANG_MS }: WatchdogOptions): void {
  const lookMs = Math.min(LOOK_MS, limitMs / 4);
  const data: WatchdogThreadData = {
    ...{ program, record, limitMs, lookMs },
    memory: state.memory,
    exitCode: HUNG_EXIT_CODE,
  };
  setInterval(() => state.endTurn(), lookMs).unref();
  endLongTurn = logLongTurns(program, state);
  const thread = new Worker(new URL('./watchdog-thread.js', import.meta.url), {
    workerData: data,
    env: {},
    // WASI, which the thread needs to end the process, prints a warning as experimental.
    execArgv: ['--disable-warning=ExperimentalWarning'],
    resourceLimits: MEMORY,
  });
  thread.unref();
}
