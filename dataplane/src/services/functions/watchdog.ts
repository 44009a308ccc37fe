/**
 * Monitors isolates and deploy checks. It ends an isolate that exceeds a limit, writes files, or is idle. If a project,
 * an account or the machine exceeds its memory, it ends the largest isolate there. One timer serves all isolates, and
 * runs only while there are any. Without /proc, V8's heap limit limits memory, and the timeouts of calls limit
 * processor time.
 */
import { readFile } from 'node:fs/promises';
import type { Launched } from '@slipway/sandbox';
import type { Isolate } from './isolate.js';
import type { FunctionLimits } from './limits.js';
import type { Shares } from './shares.js';

export interface Watched {
  ref: string;
  isolate: Isolate;
  log(message: string): void;
}

export interface WatchedCheck {
  ref: string;
  process: Launched;
  /** Called before the process is ended for memory. `isShared`: for the memory of others too. */
  tooLarge(isShared: boolean): void;
}

/** Measurements of a process in one check. */
interface Seen {
  ref: string;
  megabytes: number;
  end(why: string): void;
}

/** Milliseconds of a tick of USER_HZ, which Linux fixes at 100 a second for user space. */
const MILLISECONDS_PER_TICK = 10;
const KIB_PER_MIB = 1024;
const WHOSE = { project: 'the project’s functions', account: 'the functions of the account’s projects' };

export class Watchdog {
  readonly #isolates = new Map<Isolate, Watched & { cpu: number }>();
  readonly #checks = new Set<WatchedCheck & { cpu: number }>();
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;

  constructor(
    private readonly limits: FunctionLimits,
    private readonly shares: Shares,
  ) {}

  watch(watched: Watched): void {
    this.#isolates.set(watched.isolate, { ...watched, cpu: 0 });
    this.#begin();
    void watched.isolate.ended.then(() => this.#rest(() => this.#isolates.delete(watched.isolate)));
  }

  watchCheck(watched: WatchedCheck): void {
    const check = { ...watched, cpu: 0 };
    this.#checks.add(check);
    this.#begin();
    const over = () => this.#rest(() => this.#checks.delete(check));
    watched.process.closed.then(over, over);
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #begin(): void {
    this.#timer ??= setInterval(() => void this.#look(), this.limits.lookMilliseconds).unref();
  }

  #rest(forget: () => void): void {
    forget();
    if (this.#isolates.size + this.#checks.size === 0) this.close();
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const seen = await Promise.all([
        ...[...this.#isolates.values()].map((watched) => this.#lookAt(watched)),
        ...[...this.#checks].map((check) => this.#lookAtCheck(check)),
      ]);
      this.#bound(seen.filter((each) => each !== undefined));
      this.shares.prune();
    } finally {
      this.#isLooking = false;
    }
  }

  /** Ends the largest process of each exceeded share, and then of all, until the rest keeps to the limits. */
  #bound(seen: Seen[]): void {
    let left = seen;
    for (let over = this.#exceeded(left); over; over = this.#exceeded(left)) {
      const { refs, why } = over;
      const victim = largest(left.filter(({ ref }) => refs === undefined || refs.includes(ref)));
      victim?.end(why);
      left = left.filter((each) => each !== victim);
    }
  }

  /** `refs`: projects of which one process must end; undefined: all projects. */
  #exceeded(seen: Seen[]): { refs?: string[]; why: string } | undefined {
    const used = new Map<string, number>();
    for (const { ref, megabytes } of seen) used.set(ref, (used.get(ref) ?? 0) + megabytes);
    const [share] = this.shares.overMemory(used);
    if (share) return { refs: share.refs, why: `${WHOSE[share.holder]} used too much together` };
    const together = seen.reduce((sum, { megabytes }) => sum + megabytes, 0);
    return together > this.limits.togetherMegabytes ? { why: 'all functions here used too much together' } : undefined;
  }

  /** Returns undefined for a process that is being ended. */
  async #lookAt(watched: Watched & { cpu: number }): Promise<Seen | undefined> {
    const { ref, isolate, log } = watched;
    const { idleMilliseconds, residentMegabytes } = this.limits;
    if (isolate.active === 0 && performance.now() - isolate.lastUsed > idleMilliseconds) {
      isolate.end('asked');
      return undefined;
    }
    if (!(await isolate.keepsToSockets())) {
      log('the isolate wrote files in place of its sockets and was ended');
      isolate.end('crash');
      return undefined;
    }
    const usage = isolate.pid === undefined ? undefined : await usageOf(isolate.pid);
    if (usage === undefined) return undefined;
    const milliseconds = usage.cpuMilliseconds - watched.cpu;
    watched.cpu = usage.cpuMilliseconds;
    isolate.cpuCredit -= milliseconds;
    const isOverdrawn = this.shares.spend(ref, milliseconds);
    const end = (why: string) => {
      log(`memory limit exceeded: ${why}, and of them the isolate the most`);
      isolate.endForRoom();
    };
    if (usage.residentMegabytes > residentMegabytes) {
      log(`memory limit exceeded: the isolate used more than ${residentMegabytes} MiB and was ended`);
      isolate.end('memory');
    } else if (isolate.cpuCredit < 0) {
      log('CPU limit exceeded: the isolate computed for longer than its requests allow and was ended');
      isolate.end('cpu');
    } else if (isOverdrawn) {
      log('CPU limit exceeded: the project’s functions used more than their share, and the isolate was ended');
      isolate.end('cpu');
    } else return { ref, megabytes: usage.ownMegabytes, end };
    return undefined;
  }

  async #lookAtCheck(check: WatchedCheck & { cpu: number }): Promise<Seen | undefined> {
    const { ref, process, tooLarge } = check;
    const usage = process.pid === undefined ? undefined : await usageOf(process.pid);
    if (usage === undefined) return undefined;
    this.shares.spend(ref, usage.cpuMilliseconds - check.cpu);
    check.cpu = usage.cpuMilliseconds;
    const end = (isShared: boolean) => {
      tooLarge(isShared);
      process.kill();
    };
    const megabytes = usage.ownMegabytes;
    if (megabytes <= this.limits.checkMegabytes) return { ref, megabytes, end: () => end(true) };
    end(false);
    return undefined;
  }
}

const largest = (seen: Seen[]) =>
  seen.reduce<Seen | undefined>((a, b) => (a === undefined || b.megabytes > a.megabytes ? b : a), undefined);

async function usageOf(pid: number) {
  try {
    const [stat, status] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8'),
      readFile(`/proc/${pid}/status`, 'utf8'),
    ]);
    // The program's name, in parentheses, may contain spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    const megabytes = (name: string) =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) / KIB_PER_MIB;
    return {
      cpuMilliseconds: ticks * MILLISECONDS_PER_TICK,
      residentMegabytes: megabytes('VmRSS'),
      // The program's code is in memory once for all processes.
      ownMegabytes: megabytes('RssAnon') + megabytes('RssShmem'),
    };
  } catch {
    return undefined;
  }
}
