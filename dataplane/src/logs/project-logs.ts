/**
 * Logs of projects for their owners: the newest lines of each service, limited in bytes, age and rate. In: lines from
 * services and the gateway. Out: lines for the API. A project is known by its uid, so that a new one never reads the
 * lines of another that had its ref.
 */
import { readdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { SERVICE_LOG_LEVELS as LEVELS, type ServiceLogLevel, type StoredLog } from '@slipway/installation';
import { LogThrottle, parseJson } from '@slipway/program';
import type { Logger } from 'pino';
import { Journal } from './journal.js';
import type { OwnerLog, Written } from './owner-log.js';

export interface ProjectLogsOptions {
  /** Undefined: lines are in memory alone, as on a pod without a disk. */
  folder: string | undefined;
  /** Undefined: there is no such project. */
  uidOf(ref: string): string | undefined;
  /** Uids of all projects. Undefined: not known yet. */
  uids(): ReadonlySet<string> | undefined;
  log: Logger;
  now?: () => Date;
}

export interface LogQuery {
  level?: ServiceLogLevel | undefined;
  /** Milliseconds since 1970. */
  since?: number | undefined;
  limit: number;
}

export interface OwnerLine extends Record<string, unknown> {
  time: string;
  level: ServiceLogLevel;
  message: string;
}

const DAY_MS = 24 * 60 * 60_000;
export const MOST_AGE_MS = 7 * DAY_MS;
const FLUSH_MS = 1_000;
const SWEEP_MS = 6 * 60 * 60_000;
/** Bytes of all journals in memory. Others are read from their files again. */
const MOST_BYTES = 32 * 1024 * 1024;
const MOST_JOURNALS = 4_000;
const MOST_TEXT = 300;

export class ProjectLogs implements OwnerLog {
  /** The least recently used one first. */
  readonly #journals = new Map<string, Journal>();
  readonly #throttle: LogThrottle;
  readonly #now: () => Date;
  #flush: NodeJS.Timeout | undefined;
  #flushed: Promise<void> = Promise.resolve();
  readonly #sweep: NodeJS.Timeout;

  constructor(private readonly options: ProjectLogsOptions) {
    this.#now = options.now ?? (() => new Date());
    this.#throttle = new LogThrottle((count, key) => this.#leftOut(count, key), Number.POSITIVE_INFINITY);
    this.#sweep = setInterval(() => void this.sweep(), SWEEP_MS).unref();
  }

  write(ref: string, service: StoredLog, line: Written): void {
    // Names of projects that do not exist would fill the throttle.
    if (this.options.uidOf(ref) === undefined) return;
    if (this.#throttle.take(`${ref} ${service}`)) this.#add(ref, service, line);
  }

  /** Writes the number of lines that another program has left out. */
  leftOut(ref: string, service: StoredLog, count: number): void {
    const facts = { left_out: count };
    this.#add(ref, service, { level: 'warn', message: 'more lines in this second', facts });
  }

  /** Returns the newest lines, oldest first. Undefined: there is no such project. */
  async read(ref: string, service: StoredLog, { level = 'info', since = 0, limit }: LogQuery) {
    const uid = this.options.uidOf(ref);
    if (uid === undefined) return undefined;
    const from = Math.max(since, this.#now().getTime() - MOST_AGE_MS);
    const lines = await this.#journal(uid, service).read();
    const found: OwnerLine[] = [];
    for (let at = lines.length - 1; at >= 0 && found.length < limit; at -= 1) {
      const line = parsed(lines[at] as string);
      if (!line) continue;
      if (Date.parse(line.time) < from) break;
      if (LEVELS.indexOf(line.level) >= LEVELS.indexOf(level)) found.unshift(line);
    }
    return found;
  }

  /** Deletes the files of deleted projects. */
  async sweep(): Promise<void> {
    const { folder, uids, log } = this.options;
    if (folder === undefined) return;
    try {
      for (const uid of await readdir(folder).catch(() => [])) {
        // Read again for each folder: a project may have been created since.
        const known = uids();
        if (!known || known.has(uid)) continue;
        for (const key of this.#journals.keys()) if (key.startsWith(`${uid}/`)) this.#journals.delete(key);
        await rm(path.join(folder, uid), { recursive: true, force: true });
      }
    } catch (error) {
      log.warn({ err: error }, 'logs of deleted projects not removed');
    }
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep);
    this.#throttle.close();
    clearTimeout(this.#flush);
    await this.#flushed;
    await this.#writeAll();
  }

  #leftOut(count: number, key = ''): void {
    const [ref = '', service = ''] = key.split(' ');
    if (service === '') return;
    this.leftOut(ref, service as StoredLog, count);
  }

  #add(ref: string, service: StoredLog, { level, message, facts = {} }: Written): void {
    const uid = this.options.uidOf(ref);
    if (uid === undefined) return;
    const shown = Object.entries(facts).map(([name, fact]) => [
      name,
      typeof fact === 'string' ? fact.slice(0, MOST_TEXT) : fact,
    ]);
    const line = { time: this.#now().toISOString(), level, message, ...Object.fromEntries(shown) };
    this.#journal(uid, service).add(JSON.stringify(line));
    this.#flush ??= setTimeout(() => this.#begin(), FLUSH_MS).unref();
  }

  #begin(): void {
    this.#flush = undefined;
    this.#flushed = this.#flushed.then(() => this.#writeAll());
  }

  async #writeAll(): Promise<void> {
    for (const [key, journal] of this.#journals) {
      await journal.flush().catch((error: unknown) => {
        this.options.log.warn({ err: error, journal: key }, 'lines for an owner not written');
      });
    }
    this.#evict();
  }

  #journal(uid: string, service: StoredLog): Journal {
    const { folder } = this.options;
    const key = `${uid}/${service}`;
    const known = this.#journals.get(key);
    const journal = known ?? new Journal(folder === undefined ? undefined : path.join(folder, uid, `${service}.log`));
    this.#journals.delete(key);
    this.#journals.set(key, journal);
    return journal;
  }

  #evict(): void {
    let bytes = 0;
    for (const journal of this.#journals.values()) bytes += journal.bytes;
    for (const [key, journal] of this.#journals) {
      if (bytes <= MOST_BYTES && this.#journals.size <= MOST_JOURNALS) return;
      if (!journal.isWritten) continue;
      this.#journals.delete(key);
      bytes -= journal.bytes;
    }
  }
}

/** A line that a killed process has written in part is no JSON. */
function parsed(text: string): OwnerLine | undefined {
  try {
    return parseJson(text) as OwnerLine;
  } catch {
    return undefined;
  }
}
