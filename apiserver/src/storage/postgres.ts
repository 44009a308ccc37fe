/**
 * The one connection to Postgres. It holds the advisory lock that makes this process the only writer, and every write
 * goes over it: whoever loses the connection has lost the lock too. Used by the store alone.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Logger } from 'pino';
import type { Encryption } from './encryption.js';
import { migrate } from './migrations.js';
import type { StoredObject } from './stored-object.js';

/** 'kube', in ASCII. */
const LOCK = 0x6b756265;
/** Postgres may need a moment to notice that an earlier writer is gone. */
const LOCK_ATTEMPTS = 50;
const LOCK_PAUSE_MS = 100;
const MAX_PAUSE_MS = 2000;
/** A commit that takes longer counts as failed. */
const STATEMENT_TIMEOUT_MS = 20_000;

/** An object to put, or the place of one to remove. */
export interface Row {
  resource: string;
  namespace: string;
  name: string;
  revision: number;
  json: string | undefined;
}

const COMMIT = `
  WITH input AS (
    SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bytea[], $7::text[])
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
  /** Called with the counter each time a lost connection is back. */
  onReconnected: (revision: number) => void = () => {};

  constructor(url: string, encryption: Encryption, log: Logger) {
    this.#url = url;
    this.#encryption = encryption;
    this.#log = log;
  }

  get connected(): boolean {
    return this.#client !== undefined;
  }

  /** Connects, becomes the writer, and brings the tables up to date. */
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
    // A connection whose state is in doubt must not keep the lock.
    client.end().catch(() => {});
    if (this.#closed) return;
    this.#log.warn('Postgres connection lost: writes are rejected until it is restored');
    void this.#reconnect();
  }

  async #reconnect(): Promise<void> {
    for (let pause = 50; !this.#closed; pause = Math.min(pause * 2, MAX_PAUSE_MS)) {
      await sleep(pause * (0.5 + Math.random() / 2), undefined, { ref: false });
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

  /** Everything that is stored. Objects sealed with an old key are sealed anew. */
  async load(take: (object: Omit<StoredObject, 'object'>) => void): Promise<number> {
    const client = this.#client as pg.Client;
    const { rows } = await client.query(
      'SELECT resource, namespace, name, revision, value, sealed, key_id FROM kube.objects',
    );
    const revision = await readRevision(client);
    const old: Row[] = [];
    for (const row of rows) {
      const json = row.sealed ? this.#encryption.open(row.sealed, row.key_id, row) : row.value;
      const stored = { ...row, revision: Number(row.revision), json };
      if (row.sealed && row.key_id !== this.#encryption.current) old.push(stored);
      take(stored);
    }
    if (old.length > 0) await this.commit(old, revision);
    return revision;
  }

  /** One transaction in one round trip. Rejects when it failed, or when nobody knows whether it did. */
  async commit(rows: readonly Row[], revision: number): Promise<void> {
    const client = this.#client;
    if (!client) throw new Error('not connected to Postgres');
    const columns: [string[], string[], string[], number[], (string | null)[], (Buffer | null)[], (string | null)[]] = [
      ...([[], [], [], [], [], [], []] as const),
    ].map(() => []) as never;
    for (const row of rows) {
      const sealed = row.json !== undefined && this.#encryption.covers(row.resource);
      columns[0].push(row.resource);
      columns[1].push(row.namespace);
      columns[2].push(row.name);
      columns[3].push(row.revision);
      columns[4].push(sealed ? null : (row.json ?? null));
      columns[5].push(sealed ? this.#encryption.seal(row.json as string, row) : null);
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
