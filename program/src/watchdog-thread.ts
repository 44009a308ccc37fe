/**
 * Watchdog thread of a program. In: shared memory of the main thread, and its processor time. Out: when the main thread
 * hangs, a record, a log line, and the end of the process. Started by watchdog.ts.
 */
import { readFileSync, writeSync } from 'node:fs';
import { WASI } from 'node:wasi';
import { workerData } from 'node:worker_threads';
import { HangJudge } from './hang-judge.js';
import { recordHang } from './hang-record.js';
import { logLine } from './log-line.js';
import { UnderWay } from './under-way.js';
import type { WatchdogThreadData } from './watchdog.js';

const { memory, program, record, limitMs, lookMs, exitCode } = workerData as WatchdogThreadData;
const state = new UnderWay(memory);
const judge = new HangJudge(limitMs);
const endProcess = processEnd();

const STANDARD_OUTPUT = 1;
/**
 * Maximum attempts to write a log line to a full pipe, which give a reader time to empty it. After them the line is
 * lost.
 */
const MOST_TRIES = 100;
const TRY_AGAIN_MS = 10;
/** Milliseconds of a tick in /proc/…/stat, which is equal on every supported architecture. */
const TICK_MS = 10;
/**
 * Positions of user and system time after the name, which may contain spaces:
 * https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
 */
const [USER_TIME, SYSTEM_TIME] = [11, 12];

setInterval(() => {
  const { turns } = state;
  const isHung = judge.isHung(turns, mainThreadMs());
  // The turn may have ended since the last check.
  if (isHung && state.turns === turns) end();
}, lookMs);

/** Ends the process even if the record or the log line fails. */
function end(): void {
  const { project, operation } = state;
  try {
    if (record && project) recordHang(record, { at: Date.now(), project, operation });
  } catch {
    // The disk may be full or the folder missing: ending the process matters more.
  }
  try {
    log({ project, operation });
  } finally {
    endProcess();
  }
}

function log(names: { project: string; operation: string }): void {
  const line = logLine('fatal', program, { ...names, processorSeconds: limitMs / 1000, exitCode }, 'program hung');
  for (let tries = 0; tries < MOST_TRIES; tries++) {
    try {
      writeSync(STANDARD_OUTPUT, line);
      return;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, TRY_AGAIN_MS);
    }
  }
}

/**
 * Returns the processor time of the main thread in milliseconds. Without /proc, as on macOS, it is that of the whole
 * process, which includes other threads, but still excludes time in which the process is stopped or the machine sleeps.
 */
function mainThreadMs(): number {
  try {
    const stat = readFileSync(`/proc/self/task/${process.pid}/stat`, 'latin1');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return (Number(fields[USER_TIME]) + Number(fields[SYSTEM_TIME])) * TICK_MS;
  } catch {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000;
  }
}

/**
 * Returns a function that ends the whole process with the exit code. process.exit() would end only this thread, and the
 * first process of a container ignores a SIGKILL of its own. WASI's proc_exit is the C library's exit().
 */
function processEnd(): () => void {
  const wasi = new WASI({ version: 'preview1', returnOnExit: false });
  // WASI requires a memory import, although there is no program.
  const { WebAssembly } = globalThis as unknown as {
    WebAssembly: { Memory: new (pages: { initial: number }) => object };
  };
  wasi.initialize({ exports: { memory: new WebAssembly.Memory({ initial: 1 }) } });
  const { proc_exit } = wasi.wasiImport as { proc_exit(code: number): void };
  return () => {
    try {
      proc_exit(exitCode);
    } finally {
      process.kill(process.pid, 'SIGKILL');
    }
  };
}
