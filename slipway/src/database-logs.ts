/**
 * Sends messages of projects' databases to the data plane, which stores them for the projects' owners. In: records of
 * the tenants' Postgres. Out: redacted lines at the data plane's control socket. Lines are lost while the data plane is
 * unavailable: neither Postgres nor memory waits for them.
 */
import { request } from 'node:http';
import { type DatabaseLine, databaseLineOf, projectDatabaseIdIn } from '@slipway/installation';
import type { LogRecord } from '@slipway/postgres';
import { LogThrottle } from '@slipway/program';

export interface DatabaseLogsOptions {
  /** The data plane's control socket for logs. */
  socket: string;
  /** Returns the refs of projects by the ids of their databases. */
  refsOf(databaseIds: readonly string[]): Promise<ReadonlyMap<string, string>>;
  /** Reports the number of messages of a database that were left out of the log in one second. */
  onLeftOut(database: string, count: number): void;
}

/** A line as the data plane accepts it, but with the id of its database in place of the project's ref. */
interface Line extends DatabaseLine {
  left_out?: number;
}

const FLUSH_MS = 200;
/** Maximum number of lines that wait. Further ones are dropped. */
const MOST_LINES = 1_000;
/** Number of lines in one request. With the longest messages they have half of the data plane's limit. */
const LINES_IN_REQUEST = 100;
const DEADLINE_MS = 5_000;
/** FATAL messages of a database in a second. The data plane accepts ten messages, so others have room beside them. */
const MOST_FATAL = 2;
/** Milliseconds for which the projects of databases are cached. */
const REFS_MS = 10_000;
const MOST_REFS = 10_000;

export class DatabaseLogs {
  readonly #options: DatabaseLogsOptions;
  readonly #throttle: LogThrottle;
  readonly #fatalThrottle: LogThrottle;
  #lines: Line[] = [];
  #flush: NodeJS.Timeout | undefined;
  /** Undefined: no project has the database. */
  readonly #refs = new Map<string, string | undefined>();
  #refsSince = 0;

  constructor(options: DatabaseLogsOptions) {
    this.#options = options;
    const report = (count: number, database?: string) => this.#leftOut(count, database);
    this.#throttle = new LogThrottle(report, Number.POSITIVE_INFINITY);
    this.#fatalThrottle = new LogThrottle(report, Number.POSITIVE_INFINITY, MOST_FATAL);
  }

  /**
   * Returns false for messages of a database beyond ten in a second. FATAL messages count apart: a client that the
   * database rejects causes them, and must not displace the messages of the owner's sessions.
   */
  accepts = (database: string, isFatal: boolean): boolean =>
    (isFatal ? this.#fatalThrottle : this.#throttle).take(database);

  add(record: LogRecord): void {
    const line = databaseLineOf(record);
    if (line) this.#add(line);
  }

  /** Drops lines that wait. */
  close(): void {
    this.#throttle.close();
    this.#fatalThrottle.close();
    clearTimeout(this.#flush);
    this.#lines = [];
  }

  #leftOut(count: number, database = ''): void {
    this.#options.onLeftOut(database, count);
    const id = projectDatabaseIdIn(database);
    if (id !== undefined) this.#add({ id, level: 'warn', message: 'more lines in this second', left_out: count });
  }

  #add(line: Line): void {
    if (this.#lines.length >= MOST_LINES) return;
    this.#lines.push(line);
    this.#flush ??= setTimeout(() => void this.#send(), FLUSH_MS).unref();
  }

  /** Sends the lines that wait. Not more than one call at a time: the timer starts again after the last response. */
  async #send(): Promise<void> {
    const lines = this.#lines;
    this.#lines = [];
    try {
      await this.#lookUp(lines);
      const found = lines.flatMap(({ id, ...line }) => {
        const ref = this.#refs.get(id);
        return ref === undefined ? [] : [{ ref, ...line }];
      });
      for (let at = 0; at < found.length; at += LINES_IN_REQUEST) {
        await post(this.#options.socket, found.slice(at, at + LINES_IN_REQUEST));
      }
    } catch {
      // Postgres or the data plane is unavailable. Its own log has the reason.
    }
    this.#flush = undefined;
    if (this.#lines.length > 0) this.#flush = setTimeout(() => void this.#send(), FLUSH_MS).unref();
  }

  /** Any client can name databases that do not exist, so those are cached too. */
  async #lookUp(lines: readonly Line[]): Promise<void> {
    const now = performance.now();
    if (now - this.#refsSince > REFS_MS || this.#refs.size > MOST_REFS) {
      this.#refs.clear();
      this.#refsSince = now;
    }
    const unknown = [...new Set(lines.map(({ id }) => id))].filter((id) => !this.#refs.has(id));
    if (unknown.length === 0) return;
    const refs = await this.#options.refsOf(unknown);
    for (const id of unknown) this.#refs.set(id, refs.get(id));
  }
}

function post(socketPath: string, lines: readonly object[]): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const headers = { 'content-type': 'application/json' };
  const signal = AbortSignal.timeout(DEADLINE_MS);
  request({ socketPath, path: '/postgres', method: 'POST', headers, agent: false, signal }, (response) => {
    response.resume().on('close', resolve);
  })
    .on('error', reject)
    .end(JSON.stringify(lines));
  return promise;
}
