/** Limits and timeouts of functions. One object, so that a test may pass smaller ones. */
import { availableParallelism, totalmem } from 'node:os';

export interface FunctionLimits {
  /** MiB of V8's old generation: past it the isolate ends itself. */
  heapMegabytes: number;
  /** MiB of the process: past it the isolate is ended. Array buffers count here, and not in the heap. */
  residentMegabytes: number;
  /** MiB of all isolates together: past it the largest is ended. */
  togetherMegabytes: number;
  /** MiB of one project's isolates and deploy checks: past it its largest is ended. */
  megabytesOfProject: number;
  /** The same of all projects of one account. */
  megabytesOfAccount: number;
  /** MiB of the processes that check one source: past it the deploy fails. */
  checkMegabytes: number;
  /**
   * Cores that one project's isolates may use for long; beyond it they use up `cpuMillisecondsOfShare`, and then calls
   * are refused.
   */
  coresOfProject: number;
  coresOfAccount: number;
  /** Processor time that a project, or an account, has saved up at most. */
  cpuMillisecondsOfShare: number;
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
  /**
   * To resolve and fetch what a function imports; it starts after that, and the operator waits longer than for both.
   */
  resolveMilliseconds: number;
  /** MiB on disk of the packages that a project's functions import. */
  cacheMegabytes: number;
  /**
   * Functions of one project that are brought up at once: whoever deploys waits for each, and others' are to have their
   * turn.
   */
  deploysOfProject: number;
  deploysOfAccount: number;
  /** Deploys of all projects at once. */
  deploys: number;
  /** Requests in one isolate at once; the next is refused. */
  concurrency: number;
  /** Isolates at once on this machine. */
  isolates: number;
  isolatesOfProject: number;
  isolatesOfAccount: number;
  /** An isolate without a request for so long is ended. */
  idleMilliseconds: number;
  /** Limits of a function's log. */
  logLines: number;
  logLineBytes: number;
  /** Bytes of all log lines of one function. */
  logBytes: number;
  /** Bytes of output that are read from one isolate per second; an isolate that writes more is slowed down. */
  logBytesPerSecond: number;
  /** How often CPU and memory are looked at. */
  lookMilliseconds: number;
  /** How often the addresses of this machine are read again. */
  addressMilliseconds: number;
}

/** For the platform's own process, where all share what a container may have. */
const OWN_MEGABYTES = 512;
const BYTES_PER_MEGABYTE = 1024 * 1024;

/** In a container that runs out of memory everything may be ended at once: before it does, one isolate is. */
function togetherMegabytes(): number {
  const bytes = process.constrainedMemory();
  // Without a bound it is 0, or more than any machine has: half of the machine is then Postgres' and the platform's.
  if (bytes === 0 || bytes > totalmem()) return totalmem() / BYTES_PER_MEGABYTE / 2;
  const megabytes = bytes / BYTES_PER_MEGABYTE;
  return Math.max(megabytes - OWN_MEGABYTES, megabytes / 2);
}

const ISOLATES = 64;
const RESIDENT_MEGABYTES = 512;
const CHECK_MEGABYTES = 512;
const TOGETHER_MEGABYTES = togetherMegabytes();
/** One isolate always fits. */
const share = (part: number) => Math.max(RESIDENT_MEGABYTES, TOGETHER_MEGABYTES * part);
const cores = (part: number) => Math.max(1, availableParallelism() * part);

/** An account never has all deploys at once, however few there are. */
export const deployShares = (megabytes: number) => {
  const deploys = Math.max(2, Math.min(8, Math.floor(megabytes / CHECK_MEGABYTES)));
  return { deploysOfProject: Math.min(2, deploys - 1), deploysOfAccount: Math.min(4, deploys - 1), deploys };
};

export const LIMITS: FunctionLimits = {
  heapMegabytes: 256,
  residentMegabytes: RESIDENT_MEGABYTES,
  togetherMegabytes: TOGETHER_MEGABYTES,
  megabytesOfProject: share(1 / 4),
  megabytesOfAccount: share(1 / 2),
  checkMegabytes: CHECK_MEGABYTES,
  coresOfProject: cores(1 / 2),
  coresOfAccount: cores(3 / 4),
  cpuMillisecondsOfShare: 60_000,
  cpuMillisecondsPerRequest: 2_000,
  cpuMillisecondsAtMost: 20_000,
  firstByteMilliseconds: 150_000,
  wallMilliseconds: 400_000,
  bootMilliseconds: 15_000,
  resolveMilliseconds: 105_000,
  cacheMegabytes: 1_024,
  ...deployShares(share(1 / 2)),
  concurrency: 100,
  isolates: ISOLATES,
  isolatesOfProject: ISOLATES / 4,
  isolatesOfAccount: ISOLATES / 2,
  idleMilliseconds: 120_000,
  logLines: 1_000,
  logLineBytes: 4_096,
  logBytes: 1024 * 1024,
  logBytesPerSecond: 512 * 1024,
  lookMilliseconds: 200,
  addressMilliseconds: 5_000,
};
