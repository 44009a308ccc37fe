/** What a function may use, and how long things may take. One object, so that a test may bring a smaller one. */
import { totalmem } from 'node:os';

export interface FunctionLimits {
  /** Of V8's old generation, in MiB: past it the isolate ends itself. */
  heapMegabytes: number;
  /** Of the process, in MiB: past it the isolate is ended. Array buffers count here, and not in the heap. */
  residentMegabytes: number;
  /** Of all isolates together, in MiB: past it the one with the most is ended. */
  togetherMegabytes: number;
  /** CPU that a request brings along; an isolate that used up what its requests brought is ended. */
  cpuMillisecondsPerRequest: number;
  /** CPU of an isolate before its first request, and the most that requests can save up. */
  cpuMillisecondsAtMost: number;
  /** To the first byte of an answer. */
  firstByteMilliseconds: number;
  /** To the last byte of an answer. */
  wallMilliseconds: number;
  /** From its start until an isolate serves. */
  bootMilliseconds: number;
  /** To resolve and fetch what a function imports; it starts after that, and the operator waits longer than for both. */
  resolveMilliseconds: number;
  /** Of what a project's functions import, in MiB on disk. */
  cacheMegabytes: number;
  /** Functions of one project that are brought up at once: whoever deploys waits for each, and others' are to have their turn. */
  deploysOfProject: number;
  /** Requests in one isolate at once; the next is refused. */
  concurrency: number;
  /** Isolates at once on this machine. */
  isolates: number;
  /** An isolate without a request for so long is ended. */
  idleMilliseconds: number;
  /** What is kept of a function's log. */
  logLines: number;
  logLineBytes: number;
  /** Of output that is read from one isolate a second; one that writes more is slowed down. */
  logBytesPerSecond: number;
  /** How often CPU and memory are looked at. */
  lookMilliseconds: number;
}

/** For the platform's own process, where all share what a container may have. */
const OWN_MEGABYTES = 512;
const BYTES_PER_MEGABYTE = 1024 * 1024;

/** In a container that runs out of memory everything may be ended at once: before it does, one isolate is. */
function togetherMegabytes(): number {
  const bytes = process.constrainedMemory();
  // Without a bound it is 0, or more than any machine has.
  if (bytes === 0 || bytes > totalmem()) return Number.POSITIVE_INFINITY;
  const megabytes = bytes / BYTES_PER_MEGABYTE;
  return Math.max(megabytes - OWN_MEGABYTES, megabytes / 2);
}

export const LIMITS: FunctionLimits = {
  heapMegabytes: 256,
  residentMegabytes: 512,
  togetherMegabytes: togetherMegabytes(),
  cpuMillisecondsPerRequest: 2_000,
  cpuMillisecondsAtMost: 20_000,
  firstByteMilliseconds: 150_000,
  wallMilliseconds: 400_000,
  bootMilliseconds: 15_000,
  resolveMilliseconds: 105_000,
  cacheMegabytes: 1_024,
  deploysOfProject: 2,
  concurrency: 100,
  isolates: 64,
  idleMilliseconds: 120_000,
  logLines: 1_000,
  logLineBytes: 4_096,
  logBytesPerSecond: 512 * 1024,
  lookMilliseconds: 200,
};
