/**
 * Measures decoders in tests on hostile JSON at their own bound, prints a table, and fails if a turn of the event loop
 * takes too long. SEED=<number> repeats the shapes of fast-check.
 */
import { randomInt } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { medianOfFive, medianOfFiveLater, startWatch, TURN_MS } from '@slipway/testing';
import fc from 'fast-check';
import { CORPUS, hostileText, type Shape, shapes } from './hostile-json.testing.js';
import type { JsonBound } from './json.js';

export interface Decoder {
  /** Bound of the decoder. */
  bound: JsonBound;
  /** Each step is a turn of the event loop. Rejected text throws. */
  decode(text: Buffer): Iterator<unknown, unknown, undefined>;
}

export const SEED = Number(process.env.SEED ?? randomInt(2 ** 31)) | 0;

// biome-ignore lint/correctness/useYield: all is done in the first step
export function* inOneTurn<T>(work: () => T): Generator<undefined, T, undefined> {
  return work();
}

interface Turns {
  longestMs: number;
  /** Undefined if the text was rejected. */
  value: unknown;
}

function turnsOf({ decode }: Decoder, text: Buffer): Turns {
  const steps = decode(text);
  for (let longestMs = 0; ; ) {
    const elapsedMs = startWatch();
    const step = nextOf(steps);
    longestMs = Math.max(longestMs, elapsedMs());
    if (step.done) return { longestMs, value: step.value };
  }
}

function nextOf(steps: Iterator<unknown, unknown, undefined>): IteratorResult<unknown, unknown> {
  try {
    return steps.next();
  } catch {
    return { done: true, value: undefined };
  }
}

/** One measurement suffices far below the limit. */
function longestTurnOf(decoder: Decoder, text: Buffer): number {
  const measure = () => turnsOf(decoder, text).longestMs;
  const onceMs = measure();
  return onceMs <= TURN_MS / 2 ? onceMs : medianOfFive(measure);
}

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

/** Returns the bytes of the heap that the decoded value uses. */
function heapOf(decoder: Decoder, text: Buffer): number {
  collectGarbage();
  const before = process.memoryUsage().heapUsed;
  const { value } = turnsOf(decoder, text);
  collectGarbage();
  const bytes = process.memoryUsage().heapUsed - before;
  return value === undefined ? 0 : Math.max(0, bytes);
}

interface Row {
  shape: string;
  bytes: number;
  longestMs: number;
  heapBytes: number;
}

function measured(decoder: Decoder, shape: string, part: Partial<Shape>): Row {
  const text = hostileText(part, decoder.bound);
  return { shape, bytes: text.length, longestMs: longestTurnOf(decoder, text), heapBytes: heapOf(decoder, text) };
}

/** Fails if a shape of the corpus makes a turn too long. Prints the worst, or `all` of them. */
export function checkCorpus(name: string, decoder: Decoder, all = false): void {
  const rows = Object.entries(CORPUS).map(([shape, part]) => measured(decoder, shape, part));
  print(name, all ? rows : worstOf(rows));
  for (const { shape, longestMs } of rows) failBeyond(longestMs, `${name}: ${shape}`);
}

/** Fails if one of `count` random shapes makes a turn too long. */
export function checkMadeUp(name: string, decoder: Decoder, count: number): void {
  const rows: Row[] = [];
  const property = fc.property(shapes, (shape) => {
    const row = measured(decoder, JSON.stringify(shape), shape);
    rows.push(row);
    failBeyond(row.longestMs, name);
  });
  console.log(`# SEED=${SEED}`);
  try {
    fc.assert(property, { seed: SEED, numRuns: count });
  } finally {
    print(name, worstOf(rows));
  }
}

function failBeyond(longestMs: number, subject: string): void {
  if (longestMs > TURN_MS) throw new Error(`${subject}: a turn takes ${longestMs.toFixed(1)} ms`);
}

/** Returns the processor time of the longest turn during the work, as the median of five. */
export const longestTurnDuring = (work: () => Promise<unknown>): Promise<number> =>
  medianOfFiveLater(async () => {
    let longestMs = 0;
    let isOver = false;
    let elapsedMs = startWatch();
    const done = work().finally(() => {
      isOver = true;
    });
    while (!isOver) {
      await nextTurn();
      longestMs = Math.max(longestMs, elapsedMs());
      elapsedMs = startWatch();
    }
    await done;
    return longestMs;
  });

/** Row of the longest turn, and that of the most heap. */
function worstOf(rows: readonly Row[]): Row[] {
  const most = (figure: (row: Row) => number) => rows.toSorted((a, b) => figure(b) - figure(a)).slice(0, 1);
  return [...new Set([...most(({ longestMs }) => longestMs), ...most(({ heapBytes }) => heapBytes)])];
}

const MIB = 1024 * 1024;

/** The test runner shows lines that begin with '# '. */
function print(name: string, rows: readonly Row[]): void {
  for (const { shape, bytes, longestMs, heapBytes } of rows) {
    const heap = (heapBytes / MIB).toFixed(1).padStart(6);
    const figures = `${longestMs.toFixed(1).padStart(5)} ms in a turn, ${heap} MiB of heap`;
    console.log(`# ${name.padEnd(24)} ${figures} for ${(bytes / MIB).toFixed(2).padStart(5)} MiB  ${shape}`);
  }
}
