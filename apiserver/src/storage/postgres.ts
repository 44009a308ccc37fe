/**
 * The only connection to Postgres. It holds the advisory lock that makes this process the only writer. All writes use
 * this connection, so a process that loses the connection also loses the lock. Only the store uses it.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { delayOf } from '@slipway/program';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Encryption } from './encryption.js';
import { migrate } from './migrations.js';
import { bytesOf } from './stored-object.js';

/** Key of the advisory lock: 'kube' in ASCII. */
const LOCK = 0x6b756265;
/**
 * Maximum attempts to get the lock, because Postgres may need a moment to detect that an earlier writer has
 * disconnected.
 */
const LOCK_ATTEMPTS = 50;
const LOCK_PAUSE_MS = 100;
const BACKOFF = { firstMs: 50, maxMs: 2_000 };
/** Number of objects that are loaded in one query. An object has at most 3 MiB. */
const LOADED_AT_ONCE = 32;
/** Milliseconds after which a commit counts as failed. */
const STATEMENT_TIMEOUT_MS = 20_000;

/** An object to store, or the key of an object to remove. */
export interface Row {
  resource: string;
  namespace: string;
  name: string;
  revision: number;
  /** The object as JSON in UTF-8. */
  bytes: Buffer | undefined;
}

const COMMIT = `
  WITH input AS (
    SELECT resource, namespace, name, revision, convert_from(value, 'UTF8') AS value, sealed, key_id
    FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::bytea[], $6::bytea[], $7::text[])
      AS input (resource, namespace, name, revision, value, sealed, key_id)
  ), removed AS (
    DELETE FROM kube.objects AS object USING input
    WHERE (object.resource, object.namespace, object.name) = (input.resource, input.namespace, input.name)
      AND input.value IS NULL AND input.sealed IS NULL
  ), put AS (
    INSERT INTO kube.objects (resource, namespace, name, revision, value, sealed, key_id)
    SELECT * FROM input WHERE input.value IS NOT NULL OR input.sealed IS NOT NULL
    ON CONFLICT (resource, namespace, name) DO UPDATE
      SET revision = excluded.revision, value = excluded.value, sealed = excluded.sealed, key_id = excluded.key_id
  )
  UPDATE kube.counter SET revision = $8`;

export class Postgres {
  #client: pg.Client | undefined;
  #closed = false;
  readonly #url: string;
  readonly #encryption: Encryption;
  readonly #log: Logger;
  /** Called with the counter each time a lost connection is restored. */
  onReconnected: (revision: number) => void = () => {};

  constructor(url: string, encryption: Encryption, log: Logger) {
    this.#url = url;
    this.#encryption = encryption;
    this.#log = log;
  }

  get connected(): boolean {
    return this.#client !== undefined;
  }

  /** Connects, takes the writer's lock, and brings the tables up to date. */
  async open(): Promise<void> {
    const client = await this.#connect();
    try {
      await migrate(client);
    } catch (error) {
      await client.end();
      throw error;
    }
    this.#adopt(client);
  }

  async #connect(): Promise<pg.Client> {
    const client = new pg.Client({
      connectionString: this.#url,
      application_name: 'slipway-apiserver',
      statement_timeout: STATEMENT_TIMEOUT_MS,
      query_timeout: STATEMENT_TIMEOUT_MS + 5000,
      connectionTimeoutMillis: 10_000,
      keepAlive: true,
    });
    client.on('error', () => this.#lost(client));
    await client.connect();
    for (let attempt = 1; ; attempt++) {
      const { rows } = await client.query('SELECT pg_try_advisory_lock($1) AS held', [LOCK]);
      if (rows[0].held) return client;
      if (attempt === LOCK_ATTEMPTS) break;
      await sleep(LOCK_PAUSE_MS);
    }
    await client.end();
    throw new Error('another API server is writing to these tables; stop it first');
  }

  #adopt(client: pg.Client): void {
    this.#client = client;
    client.on('end', () => this.#lost(client));
  }

  #lost(client: pg.Client): void {
    if (this.#client !== client) return;
    this.#client = undefined;
    // A connection in an unknown state must not keep the lock.
    client.end().catch(() => {});
    if (this.#closed) return;
    this.#log.warn('Postgres connection lost: writes are rejected until it is restored');
    void this.#reconnect();
  }

  async #reconnect(): Promise<void> {
    for (let attempt = 1; !this.#closed; attempt++) {
      await sleep(delayOf(BACKOFF, attempt), undefined, { ref: false });
      try {
        const client = await this.#connect();
        const revision = await readRevision(client);
        if (this.#closed) return void (await client.end());
        this.#adopt(client);
        this.#log.info('Postgres connection restored');
        return this.onReconnected(revision);
      } catch (error) {
        this.#log.warn({ reason: (error as Error).message }, 'Postgres unreachable');
      }
    }
  }

  /**
   * Passes all stored objects to `take`, a few at a time. Objects encrypted with an old key are encrypted again, in one
   * transaction.
   */
  async load(take: (row: Row & { bytes: Buffer }) => void): Promise<number> {
    const client = this.#client as pg.Client;
    await client.query('BEGIN');
    const revision = await readRevision(client);
    await client.query(`DECLARE objects NO SCROLL CURSOR FOR
      SELECT resource, namespace, name, revision, value, sealed, key_id FROM kube.objects`);
    for (;;) {
      const { rows } = await client.query(`FETCH ${LOADED_AT_ONCE} FROM objects`);
      if (rows.length === 0) break;
      const loaded = rows.map((row) => ({ row, stored: this.#opened(row) }));
      const old = loaded.filter(({ row }) => row.sealed && row.key_id !== this.#encryption.current);
      if (old.length > 0)
        await this.commit(
          old.map(({ stored }) => stored),
          revision,
        );
      for (const { stored } of loaded) take(stored);
    }
    await client.query('COMMIT');
    return revision;
  }

  #opened(row: pg.QueryResultRow): Row & { bytes: Buffer } {
    const { resource, namespace, name } = row;
    const bytes = row.sealed
      ? this.#encryption.open(row.sealed, row.key_id, { resource, namespace, name })
      : bytesOf(row.value);
    return { resource, namespace, name, revision: Number(row.revision), bytes };
  }

  /** Commits one transaction in one round trip. Rejects if it failed, or if its outcome is unknown. */
  async commit(rows: readonly Row[], revision: number): Promise<void> {
    const client = this.#client;
    if (!client) throw new Error('not connected to Postgres');
    const columns: [string[], string[], string[], number[], (Buffer | null)[], (Buffer | null)[], (string | null)[]] = [
      ...([[], [], [], [], [], [], []] as const),
    ].map(() => []) as never;
    for (const row of rows) {
      const sealed = row.bytes !== undefined && this.#encryption.covers(row.resource);
      columns[0].push(row.resource);
      columns[1].push(row.namespace);
      columns[2].push(row.name);
      columns[3].push(row.revision);
      // An array of texts would be escaped, which takes 10 ms for a megabyte of backslashes. Bytes are sent in
      // hexadecimal.
      columns[4].push(sealed ? null : (row.bytes ?? null));
      columns[5].push(sealed ? this.#encryption.seal(row.bytes as Buffer, row) : null);
      columns[6].push(sealed ? this.#encryption.current : null);
    }
    try {
      await client.query({ name: 'commit', text: COMMIT, values: [...columns, revision] });
    } catch (error) {
      this.#lost(client);
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    const client = this.#client;
    this.#client = undefined;
    await client?.end().catch(() => {});
  }
}

async function readRevision(client: pg.Client): Promise<number> {
  const { rows } = await client.query('SELECT revision FROM kube.counter');
  return Number(rows[0].revision);
}
