/**
 * Lowers the scheduling priority of tenants' sessions that keep a processor busy, so that short requests of other
 * sessions run first. Restores the priority when the sessions rest. In: the processor time that each session has used.
 * Works only where Postgres runs on this Linux machine and this process is root: other users can't restore a priority.
 * Called by SessionWatch.
 */
import { readFile, writeFile } from 'node:fs/promises';
import { setPriority } from 'node:os';

export interface SessionCpu {
  pid: number;
  startedAt: string;
  /** Processor time in milliseconds since the session began. */
  cpu: number;
}

/**
 * The niceness of a lowered priority. It is a tenth of the weight of normal priority, so that a session that has a lock
 * of the server still makes progress.
 */
const LOW = 10;
/**
 * Share of a processor that a session may use without a limit of time. Use beyond it adds to a debt. The priority stays
 * low until the debt is 0.
 */
const FREE_SHARE = 0.25;
const DEBT_MS = 250;
const MOST_DEBT_MS = 2 * DEBT_MS;

interface Known {
  startedAt: string;
  cpu: number;
  at: number;
  debt: number;
  isLow: boolean;
}

export class SessionPriority {
  readonly #known = new Map<number, Known>();

  constructor(private readonly set: (pid: number, niceness: number) => Promise<void> = setNiceness) {}

  async look(sessions: readonly SessionCpu[], now: number): Promise<void> {
    const present = new Set(sessions.map(({ pid }) => pid));
    for (const pid of this.#known.keys()) if (!present.has(pid)) this.#known.delete(pid);
    for (const { pid, startedAt, cpu } of sessions) {
      const before = this.#known.get(pid);
      const known = before?.startedAt === startedAt ? before : { startedAt, cpu: 0, at: now, debt: 0, isLow: false };
      const debt = known.debt + cpu - known.cpu - (now - known.at) * FREE_SHARE;
      const isLow = known.isLow ? debt > 0 : debt > DEBT_MS;
      this.#known.set(pid, { startedAt, cpu, at: now, debt: Math.min(Math.max(debt, 0), MOST_DEBT_MS), isLow });
      if (isLow !== known.isLow) await this.set(pid, isLow ? LOW : 0);
    }
  }
}

/**
 * True if the server at `url` is reached by a Unix socket, and this process may lower and restore the priority of other
 * processes.
 */
export const canSetPriority = (url: string) =>
  process.platform === 'linux' && process.getuid?.() === 0 && /[?&]host=(%2F|\/)/i.test(url);

/** Ignores a session that has ended, and another program that has its process id. */
async function setNiceness(pid: number, niceness: number): Promise<void> {
  try {
    if (!(await readFile(`/proc/${pid}/cmdline`, 'utf8')).startsWith('postgres: ')) return;
    setPriority(pid, niceness);
    // Each session of Postgres is an autogroup of its own for the scheduler. Where autogroups are on, the scheduler
    // compares the niceness of the groups.
    await writeFile(`/proc/${pid}/autogroup`, String(niceness));
  } catch {}
}
