/**
 * One pool of connections a project, as the role that owns its schema `auth`. On first contact the schema is brought up
 * to date, so that a project made by an older version is served by this one.
 */
import { scramOnly } from '@slipway/crds';
import { authMigrations, migrateAuth, unknownMigration } from '@slipway/project-database';
import pg from 'pg';
import { boundedSocket, JOB_BYTES } from '../sql/bounded-socket.js';
import { DatabaseError } from '../sql/errors.js';
import { Pool } from '../sql/pool.js';
import type { Tenant } from '../tenant.js';

interface Entry {
  tenant: Tenant;
  pool: Pool;
  ready: Promise<void> | undefined;
}

/** Under the connection limit of the role, and what one project's sign-ins need. */
const LIMITS = { connections: 4, statementTimeoutMs: 10_000 };
/** Connections of all projects together. Beyond it, idle connections of the least recently used projects are closed. */
const CONNECTIONS = 48;
const UNDEFINED_TABLE = '42P01';

export class AuthDatabases {
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>();

  /** The project's pool, once its schema is current. */
  async pool(tenant: Tenant): Promise<Pool> {
    const entry = this.#entry(tenant);
    if (entry.pool.size === 0) this.#makeRoom();
    entry.ready ??= bringUpToDate(tenant, entry.pool).catch((error: unknown) => {
      entry.ready = undefined;
      throw error;
    });
    await entry.ready;
    return entry.pool;
  }

  async forget(ref: string): Promise<void> {
    const entry = this.#entries.get(ref);
    this.#entries.delete(ref);
    await entry?.pool.close();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#entries.keys()].map((ref) => this.forget(ref)));
  }

  #entry(tenant: Tenant): Entry {
    let entry = this.#entries.get(tenant.ref);
    this.#entries.delete(tenant.ref);
    if (entry?.tenant.incarnation !== tenant.incarnation) {
      void entry?.pool.close();
      entry = { tenant, pool: new Pool(tenant.authAdmin, LIMITS), ready: undefined };
    } else if (entry.tenant !== tenant) {
      entry.tenant = tenant;
      entry.pool.useLogin(tenant.authAdmin);
    }
    this.#entries.set(tenant.ref, entry);
    return entry;
  }

  #makeRoom(): void {
    let held = LIMITS.connections;
    for (const { pool } of this.#entries.values()) held += pool.size;
    for (const { pool } of this.#entries.values()) {
      if (held <= CONNECTIONS) return;
      held -= pool.closeIdle();
    }
  }
}

async function bringUpToDate(tenant: Tenant, pool: Pool): Promise<void> {
  const applied = await appliedVersions(pool);
  const isUpToDate = authMigrations.every(({ version }) => applied.has(version));
  // The migration refuses what a newer release wrote, by name.
  if (isUpToDate && unknownMigration(authMigrations, applied) === undefined) return;
  const client = scramOnly(
    new pg.Client({ ...tenant.authAdmin, application_name: 'slipway', stream: () => boundedSocket(JOB_BYTES) }),
  );
  client.on('error', () => undefined);
  await client.connect();
  try {
    await migrateAuth(client);
  } finally {
    await client.end();
  }
}

async function appliedVersions(pool: Pool): Promise<Set<string>> {
  try {
    const rows = await pool.query<{ version: string }>('select version from auth.schema_migrations');
    return new Set(rows.map(({ version }) => version));
  } catch (error) {
    if (error instanceof DatabaseError && error.code === UNDEFINED_TABLE) return new Set();
    throw error;
  }
}
