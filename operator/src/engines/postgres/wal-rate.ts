/**
 * Ends the sessions of an account that writes more write-ahead log in a minute than its plan allows. In: a superuser's
 * sessions, and the project of each database. Out: a report of each ended session. Called by the server each second,
 * and only where projects share it.
 *
 * Postgres counts the log of each session, but updates the count only when a statement ends. The position of the whole
 * server is exact at any time. The difference is log that no session has reported yet. It is charged to the sessions
 * that write, by the bytes that their processes wrote to files.
 */
import { WAL_BYTES_A_MINUTE } from '@slipway/installation';
import { literal, type Session } from '@slipway/project-database';
import type { Logger } from 'pino';
import { every } from '../../runtime/every.js';
import type { Housed } from './database-sizes.js';
import type { EndedSession } from './session-watch.js';

const GB = 1e9;
const LOOK_MS = 1_000;
const WINDOW_MS = 60_000;

export interface Writer {
  pid: number;
  /** The start time. Together with `pid` it identifies one session: the system reuses process ids. */
  startedAt: string;
  database: string;
  /** Null for autovacuum. */
  role: string | null;
  /** Bytes of log that Postgres has counted for the session. */
  wal: number;
  /** Bytes that the session's process has written to files. 0 where the system does not report them. */
  written: number;
  /** True while the session has a transaction id or runs a statement, which can write log without an id. */
  mayWrite: boolean;
}

interface Known {
  wal: number;
  written: number;
  /** Bytes that were charged before Postgres counted them. */
  advance: number;
  mayWrite: boolean;
}

/** Adds up the log of each account in the last minute. */
export class WalMeter {
  #sessions: Map<string, Known> | undefined;
  #position = 0;
  /** The bytes at each look of the last minute, by account. */
  readonly #looks = new Map<string, { at: number; bytes: number }[]>();

  /** Returns the bytes of the last minute by account. `position`: the end of the log, in bytes. */
  look(writers: readonly (Writer & { account: string })[], position: number, now: number): Map<string, number> {
    const before = this.#sessions ?? new Map(writers.map((each) => [keyOf(each), newKnown(each)]));
    const known = writers.map((writer) => ({ writer, last: before.get(keyOf(writer)) ?? firstOf(writer) }));
    const total = this.#sessions ? Math.max(position - this.#position, 0) : 0;
    const reported = known.map(({ writer, last }) => Math.max(writer.wal - last.wal, 0));
    const rest = Math.max(total - reported.reduce((sum, each) => sum + each, 0), 0);
    const advances = advancesOf(known, rest);
    this.#sessions = new Map();
    for (const [at, { writer, last }] of known.entries()) {
      const repaid = Math.min(last.advance, reported[at] as number);
      const advance = advances[at] as number;
      this.#add(writer.account, (reported[at] as number) - repaid + advance, now);
      this.#sessions.set(keyOf(writer), { ...newKnown(writer), advance: last.advance - repaid + advance });
    }
    this.#position = position;
    return this.#lastMinute(now);
  }

  #add(account: string, bytes: number, at: number): void {
    if (bytes <= 0) return;
    const looks = this.#looks.get(account) ?? [];
    this.#looks.set(account, looks);
    if (looks.at(-1)?.at === at) (looks.at(-1) as { bytes: number }).bytes += bytes;
    else looks.push({ at, bytes });
  }

  #lastMinute(now: number): Map<string, number> {
    const sums = new Map<string, number>();
    for (const [account, looks] of this.#looks) {
      while (looks[0] && looks[0].at <= now - WINDOW_MS) looks.shift();
      if (looks.length === 0) this.#looks.delete(account);
      else
        sums.set(
          account,
          looks.reduce((sum, { bytes }) => sum + bytes, 0),
        );
    }
    return sums;
  }
}

const keyOf = ({ pid, startedAt }: Pick<Writer, 'pid' | 'startedAt'>) => `${pid} ${startedAt}`;
const newKnown = ({ wal, written, mayWrite }: Writer): Known => ({ wal, written, advance: 0, mayWrite });
const NEW: Known = { wal: 0, written: 0, advance: 0, mayWrite: false };
/** The log that autovacuum wrote before its ANALYZE is of VACUUM, which the account is not charged for. */
const firstOf = (writer: Writer): Known => (writer.role === null ? newKnown(writer) : NEW);

/**
 * Distributes the log that no session has reported, in proportion to the bytes that the processes of writing sessions
 * wrote. No session is charged with more than those bytes: the log of sessions that ended between two looks must not be
 * charged to a neighbour. A process writes at least as many bytes to files as its log has. Measured: 1.0 times as many
 * for logical messages, 1.1 to 3.1 times for rows. Where the system does not report the bytes of processes, none of the
 * log is charged: a session that only keeps a transaction open must not pay for it.
 */
function advancesOf(known: readonly { writer: Writer; last: Known }[], rest: number): number[] {
  const written = known.map(({ writer, last }) => {
    const isWriting = writer.mayWrite || last.mayWrite || writer.wal > last.wal;
    return isWriting ? Math.max(writer.written - last.written, 0) : 0;
  });
  const sum = written.reduce((total, each) => total + each, 0);
  return written.map((each) => (sum > 0 ? Math.min(each, (rest * each) / sum) : 0));
}

export class WalRate {
  readonly #meter = new WalMeter();
  #countsSessions: boolean | undefined;
  #end: (() => void) | undefined;

  constructor(
    private readonly session: Session,
    private readonly projects: ReadonlyMap<string, Housed>,
    private readonly onEnded: (ended: EndedSession) => void,
    private readonly log: Logger,
    private readonly bytesAMinute = WAL_BYTES_A_MINUTE,
  ) {}

  start(): void {
    this.#end ??= every(LOOK_MS, 'looking at the write-ahead log', () => this.#look(), this.log);
  }

  close(): void {
    this.#end?.();
  }

  async #look(): Promise<void> {
    this.#countsSessions ??= await this.#canCountSessions();
    const { rows } = await this.session.query(look(this.#countsSessions));
    const { position, writers } = rows[0] as { position: string; writers: Writer[] | null };
    const found = (writers ?? []).map((writer) => ({
      ...writer,
      account: this.projects.get(writer.database)?.owner ?? writer.database,
    }));
    const sums = this.#meter.look(found, Number(position), performance.now());
    for (const [account, bytes] of sums) {
      const limit = this.#limitOf(account);
      if (bytes <= limit) continue;
      const writing = found.filter((writer) => writer.account === account && writer.mayWrite);
      for (const writer of writing) await this.#endSession(writer, bytes, limit);
    }
  }

  #limitOf(account: string): number {
    const plans = [...this.projects.values()].filter(({ owner }) => owner === account).map(({ plan }) => plan);
    return Math.max(this.bytesAMinute.free, ...plans.map((plan) => this.bytesAMinute[plan]));
  }

  async #endSession({ pid, startedAt, database, role }: Writer, bytes: number, limit: number): Promise<void> {
    await this.session.query(`
      SELECT pg_terminate_backend(pid) FROM pg_stat_activity
      WHERE pid = ${Number(pid)} AND backend_start::text = ${literal(startedAt)}`);
    this.log.warn({ database, role, bytes, limit }, 'session ended for its write-ahead log');
    this.onEnded({ database, role, reason: 'WalRate', message: messageOf(limit) });
  }

  /**
   * Whether Postgres counts the log of sessions, as it does since version 18. Without it all of the log is distributed
   * by the bytes that processes wrote.
   */
  async #canCountSessions(): Promise<boolean> {
    const { rows } = await this.session.query(`SELECT to_regprocedure('pg_stat_get_backend_wal(int)') AS it`);
    return rows[0]?.it !== null;
  }
}

const messageOf = (limit: number) =>
  `A session was ended: the sessions of this account's projects wrote more than ${(limit / GB).toFixed(1)} GB of ` +
  'write-ahead log in the last minute. Write less at a time, or use a larger plan.';

/** SQL for the bytes that the process has written, from its file in /proc. */
const WRITTEN = `coalesce(
  substring(pg_read_file('/proc/' || a.pid || '/io', 0, 1000, true) FROM 'wchar: (\\d+)')::int8, 0)`;

/**
 * Query for the end of the log, and for the sessions of tenants. An automatic ANALYZE is one of them, because it runs a
 * tenant's functions.
 */
const look = (countsSessions: boolean) => `
  SELECT (pg_current_wal_insert_lsn() - '0/0')::text AS position, (
    SELECT json_agg(json_build_object('pid', a.pid, 'startedAt', a.backend_start::text, 'database', a.datname,
      'role', a.usename, 'mayWrite', a.backend_xid IS NOT NULL OR a.state = 'active', 'written', ${WRITTEN},
      'wal', ${countsSessions ? '(SELECT wal_bytes FROM pg_stat_get_backend_wal(a.pid))' : '0'}))
    FROM pg_stat_activity a LEFT JOIN pg_roles r ON r.oid = a.usesysid
    WHERE a.datname IS NOT NULL AND (
      a.backend_type = 'autovacuum worker' AND a.pid IN (SELECT pid FROM pg_stat_get_progress_info('ANALYZE'))
      OR a.backend_type = 'client backend' AND NOT r.rolsuper AND NOT r.rolreplication)) AS writers`;
