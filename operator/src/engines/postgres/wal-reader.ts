/**
 * Reads from the write-ahead log which transactions wrote while they were in progress. Postgres' counters of a session
 * (`pg_stat_get_backend_wal`) do not change until its transaction ends. In: a superuser's sessions in the database
 * `postgres`. Out: ids and databases. Called by SessionWatch while a transaction delays a slot.
 */
import type { Session } from '@slipway/project-database';
import type { Logger } from 'pino';
import type { Write } from './slot-holders.js';

/** Maximum bytes that are read at once. Reading them takes 0.1 s of processor time. */
const MOST_BYTES = 16 * 2 ** 20;

export class WalReader {
  #isReady = false;
  #hasFailed = false;
  #position: string | undefined;

  constructor(
    private readonly session: Session,
    private readonly log: Logger,
  ) {}

  /** Returns the writes since the last call. Undefined: there were too many, or the log can't be read. */
  async writes(): Promise<readonly Write[] | undefined> {
    try {
      if (!this.#isReady) await this.session.query('CREATE EXTENSION IF NOT EXISTS pg_walinspect SCHEMA pg_catalog');
      this.#isReady = true;
      const from = this.#position;
      const { rows } = await this.session.query(
        `SELECT position, position - ${from ? `'${from}'` : 'position'} AS bytes
         FROM pg_current_wal_flush_lsn() AS position`,
      );
      this.#position = String(rows[0]?.position);
      if (from === undefined || Number(rows[0]?.bytes) === 0) return [];
      if (Number(rows[0]?.bytes) > MOST_BYTES) return undefined;
      return (await this.session.query(read(from, this.#position))).rows as unknown as Write[];
    } catch (error) {
      // The next reading starts from the end of the log: the writes up to there are unknown.
      this.#position = undefined;
      if (!this.#hasFailed) this.log.warn({ why: (error as Error).message }, 'writes of transactions not read');
      this.#hasFailed = true;
      return undefined;
    }
  }

  /** Forgets the position: the next reading starts from the end of the log. */
  pause(): void {
    this.#position = undefined;
  }
}

/**
 * Selects only transactions that are still in progress. An id in the log has 32 bits, while the server's next id has
 * all 64.
 */
const read = (from: string, to: string) => `
  WITH written AS (
    SELECT DISTINCT xid::text::int8 AS id, substring(block_ref FROM 'rel \\d+/(\\d+)/')::oid AS database
    FROM pg_get_wal_records_info('${from}', '${to}') WHERE xid <> '0'
  ), next AS (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::int8 AS id)
  SELECT written.id::text AS "transactionId", datname AS database
  FROM written CROSS JOIN next LEFT JOIN pg_database ON pg_database.oid = written.database
  WHERE pg_xact_status((next.id - (((next.id - written.id + 2147483648) & 4294967295) - 2147483648))::text::xid8)
    = 'in progress'`;
