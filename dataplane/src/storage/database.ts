/**
 * Storage's queries of a project's database, each in one round trip and one implicit transaction as the caller:
 * row-level security on `storage.objects` and `storage.buckets` decides. The schema is migrated on first contact.
 */
import { type ApiRole, CONNECTIONS_AS_AUTHENTICATOR, scramOnly } from '@slipway/crds';
import { migrateStorage, storageMigrations, unknownMigration } from '@slipway/project-database';
import pg from 'pg';
import type { ServiceRequest } from '../service.js';
import { boundedSocket, JOB_BYTES } from '../sql/bounded-socket.js';
import { DatabaseError, Pool, type Statement } from '../sql/pool.js';
import type { Caller, Tenant } from '../tenant.js';
import { ANSWER_TOO_LARGE } from './errors.js';

interface Entry {
  tenant: Tenant;
  pool: Pool;
  ready: Promise<void> | undefined;
}

export type Row = Record<string, unknown>;

/** Under the connection limit of the role, which REST shares. */
const LIMITS = { connections: CONNECTIONS_AS_AUTHENTICATOR.storage, statementTimeoutMs: 30_000 };
/** Connections of all projects together. Beyond it, idle connections of the least recently used projects are closed. */
const CONNECTIONS = 48;

/** Statement timeouts, as on Supabase; statements of service_role may be maintenance. */
const STATEMENT_TIMEOUT: Record<ApiRole, string> = { anon: '3s', authenticated: '8s', service_role: '30s' };

const SETTINGS = [
  'role',
  'request.jwt.claims',
  'request.jwt.claim.sub',
  'request.jwt.claim.role',
  'request.method',
  'request.path',
  'request.headers',
  'storage.operation',
  'search_path',
  'statement_timeout',
];
const IDENTITY = `select ${SETTINGS.map((setting, i) => `set_config('${setting}', $${i + 1}, true)`).join(', ')}`;

/**
 * Asks without the caller's rights, for what policies don't decide: a bucket's limits, what is public, what was signed.
 */
export const SERVICE: Caller = { role: 'service_role', claims: '{"role":"service_role"}' };

export class StorageDatabases {
  /** Least recently used first. */
  readonly #entries = new Map<string, Entry>();

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
      entry = { tenant, pool: new Pool(tenant.authenticator, LIMITS), ready: undefined };
    } else if (entry.tenant !== tenant) {
      entry.tenant = tenant;
      entry.pool.useLogin(tenant.authenticator);
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
  const isUpToDate = storageMigrations.every(({ version }) => applied.has(version));
  // The migration refuses what a newer release wrote, by name.
  if (isUpToDate && unknownMigration(storageMigrations, applied) === undefined) return;
  const client = scramOnly(
    new pg.Client({ ...tenant.owner, application_name: 'slipway', stream: () => boundedSocket(JOB_BYTES) }),
  );
  client.on('error', () => undefined);
  await client.connect();
  try {
    await migrateStorage(client);
  } finally {
    await client.end();
  }
}

async function appliedVersions(pool: Pool): Promise<Set<unknown>> {
  try {
    const text = "select coalesce(json_agg(version), '[]')::text from storage.schema_migrations";
    const [, result] = await pool.batch([roleStatement('service_role'), { text }]);
    return new Set(JSON.parse(String(result?.rows[0]?.[0])) as unknown[]);
  } catch (error) {
    // Neither schema nor table, or none that may be read.
    if (error instanceof DatabaseError && ['42P01', '3F000', '42501'].includes(error.code)) return new Set();
    throw error;
  }
}

const roleStatement = (role: ApiRole): Statement => ({
  text: "select set_config('role', $1, true)",
  values: [role],
});

/**
 * Returns the statement that tells Postgres the caller and the operation, for the transaction or until the next one.
 */
export function identity({ incoming, path }: ServiceRequest, caller: Caller, operation: string): Statement {
  const { sub = '' } = JSON.parse(caller.claims) as { sub?: string };
  const values = [
    caller.role,
    caller.claims,
    sub,
    caller.role,
    incoming.method ?? 'GET',
    `/storage/v1${path}`,
    caller === SERVICE ? '{}' : JSON.stringify(incoming.headers),
    `storage.${operation}`,
    'storage, public, extensions',
    STATEMENT_TIMEOUT[caller.role],
  ];
  return { name: 'storage-identity', text: IDENTITY, values };
}

/** Bytes of one answer: the metadata of an object may be large, and the project's owner may make it larger by SQL. */
const MOST_BYTES = 32 * 1024 * 1024;

/**
 * A statement whose rows are asked for as one JSON text, `name`d after what it does. Too much of it is no integer, and
 * that fails and undoes the statement.
 */
export const rows = (name: string, text: string, values: Statement['values'] = []): Statement => ({
  name: `storage-${name}`,
  text: `with t as (${text}), lines as materialized (select row_to_json(t)::text as line from t)
    select case when sum(octet_length(line)) > ${MOST_BYTES} then ('${ANSWER_TOO_LARGE}' || count(*))::int::text
      else '[' || coalesce(string_agg(line, ','), '') || ']' end from lines`,
  values,
});

export const statement = (name: string, text: string, values: Statement['values'] = []): Statement => ({
  name: `storage-${name}`,
  text,
  values,
});

/** The rows of the last statement that was asked for by `rows`. */
export function lastRows<T = Row>(results: Awaited<ReturnType<Pool['batch']>>): T[] {
  return JSON.parse(String(results.at(-1)?.rows[0]?.[0] ?? '[]')) as T[];
}

export const subjectOf = ({ claims }: Caller): string | undefined => {
  const { sub } = JSON.parse(claims) as { sub?: unknown };
  return typeof sub === 'string' && sub !== '' ? sub : undefined;
};
