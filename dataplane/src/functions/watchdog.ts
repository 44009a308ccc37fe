/**
 * Looks at what isolates use and ends those that use too much or write files, or that nobody has called for long. One timer for all, which
 * runs only while there are isolates. Where the system has no /proc, memory is bounded by V8's heap and CPU by how long each call may take.
 */
import { readFile } from 'node:fs/promises';
import type { Isolate } from './isolate.js';
import type { FunctionLimits } from './limits.js';

export interface Watched {
  isolate: Isolate;
  log(message: string): void;
}

/** USER_HZ, which Linux fixes at 100 for what it shows to programs. */
const MILLISECONDS_PER_TICK = 10;
const KIB_PER_MIB = 1024;

export class Watchdog {
  readonly #watched = new Map<Isolate, { log(message: string): void; cpu: number }>();
  #timer: NodeJS.Timeout | undefined;

  constructor(private readonly limits: FunctionLimits) {}

  watch({ isolate, log }: Watched): void {
    this.#watched.set(isolate, { log, cpu: 0 });
    this.#timer ??= setInterval(() => void this.#look(), this.limits.lookMilliseconds).unref();
    void isolate.ended.then(() => {
      this.#watched.delete(isolate);
      if (this.#watched.size === 0) this.close();
    });
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #look(): Promise<void> {
    const own = await Promise.all(
      [...this.#watched].map(async ([isolate, state]) => ({
        isolate,
        state,
        megabytes: await this.#lookAt(isolate, state),
      })),
    );
    const { togetherMegabytes } = this.limits;
    if (own.reduce((sum, { megabytes }) => sum + megabytes, 0) <= togetherMegabytes) return;
    const largest = own.reduce((a, b) => (b.megabytes > a.megabytes ? b : a));
    largest.state.log(
      'memory limit exceeded: all functions here used too much together, and of all the isolate the most',
    );
    largest.isolate.end('memory');
  }

  /** Says how much memory it has for itself alone. */
  async #lookAt(isolate: Isolate, state: { log(message: string): void; cpu: number }): Promise<number> {
    const { idleMilliseconds, residentMegabytes } = this.limits;
    if (isolate.active === 0 && performance.now() - isolate.lastUsed > idleMilliseconds) {
      isolate.end('asked');
      return 0;
    }
    if (!(await isolate.keepsToSockets())) {
      state.log('the isolate wrote files in place of its sockets and was ended');
      isolate.end('crash');
      return 0;
    }
    const usage = isolate.pid === undefined ? undefined : await usageOf(isolate.pid);
    if (usage === undefined) return 0;
    isolate.cpuCredit -= usage.cpuMilliseconds - state.cpu;
    state.cpu = usage.cpuMilliseconds;
    if (usage.residentMegabytes > residentMegabytes) {
      state.log(`memory limit exceeded: the isolate used more than ${residentMegabytes} MiB and was ended`);
      isolate.end('memory');
    } else if (isolate.cpuCredit < 0) {
      state.log('CPU limit exceeded: the isolate computed for longer than its requests allow and was ended');
      isolate.end('cpu');
    } else return usage.ownMegabytes;
    return 0;
  }
}

async function usageOf(pid: number) {
  try {
    const [stat, status] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'utf8'),
      readFile(`/proc/${pid}/status`, 'utf8'),
    ]);
    // The name of the program, in parentheses, may itself have spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const ticks = Number(fields[11]) + Number(fields[12]);
    const megabytes = (name: string) =>
      Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? 0) / KIB_PER_MIB;
    return {
      cpuMilliseconds: ticks * MILLISECONDS_PER_TICK,
      residentMegabytes: megabytes('VmRSS'),
      // The program itself is in memory once for all.
      ownMegabytes: megabytes('RssAnon') + megabytes('RssShmem'),
    };
  } catch {
    return undefined;
  }
}
