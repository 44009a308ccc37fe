/**
 * Storage's queries to a project's database, each in one round trip and one implicit transaction as the caller, so that
 * row-level security on `storage.objects` and `storage.buckets` decides. The schema is migrated on first use.
 */
import { type ApiRole, CONNECTIONS_AS_AUTHENTICATOR } from '@slipway/installation';
import { type JsonBound, JsonRefusal, ONE_TURN, parseJson } from '@slipway/program';
import { migrateStorage, storageMigrations } from '@slipway/project-database';
import { inTurns, type Steps } from '../../bounds/turns.js';
import { reserveBytes } from '../../http/request-body.js';
import { MigratedPools } from '../../projects/migrated-pools.js';
import type { Caller } from '../../projects/tenant.js';
import { jsonRowsOf, ROW_SEPARATOR } from '../../sql/json-rows.js';
import { DatabaseError, type Pool, type Result, type Statement } from '../../sql/pool.js';
import type { ServiceRequest } from '../service.js';
import { ANSWER_TOO_LARGE, invalidRequest, StorageError } from './errors.js';
import type { StorageContext } from './storage-context.js';

export type Row = Record<string, unknown>;

/** Limits of a project's pool: fewer connections than the limit of the role, which REST shares. */
const LIMITS = { connections: CONNECTIONS_AS_AUTHENTICATOR.storage, statementTimeoutMs: 30_000 };
/** Maximum connections of all projects. Beyond it, idle connections of the least recently used projects are closed. */
const CONNECTIONS = 48;

/** Statement timeouts by role, as on Supabase; statements of service_role may be maintenance. */
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

/** Identity for queries that policies don't decide: a bucket's limits, public buckets, signed objects. */
export const SERVICE: Caller = { role: 'service_role', claims: '{"role":"service_role"}' };

export const storageDatabases = (): MigratedPools =>
  new MigratedPools({
    limits: LIMITS,
    connections: CONNECTIONS,
    login: ({ authenticator }) => authenticator,
    migrator: ({ owner }) => owner,
    migrations: storageMigrations,
    migrate: migrateStorage,
    applied: appliedVersions,
  });

async function appliedVersions(pool: Pool): Promise<Set<unknown>> {
  try {
    const text = "select coalesce(json_agg(version), '[]')::text from storage.schema_migrations";
    const [, result] = await pool.batch([roleStatement('service_role'), { text }]);
    return new Set(parseJson(result?.rows[0]?.[0] ?? '') as unknown[]);
  } catch (error) {
    // The schema or table is missing, or not readable.
    if (error instanceof DatabaseError && ['42P01', '3F000', '42501'].includes(error.code)) return new Set();
    throw error;
  }
}

const roleStatement = (role: ApiRole): Statement => ({
  text: "select set_config('role', $1, true)",
  values: [role],
});

/**
 * Returns the statement that sets the caller and the operation in Postgres, for the transaction or until the next one.
 */
export function identity({ incoming, path }: ServiceRequest, caller: Caller, operation: string): Statement {
  const { sub = '' } = parseJson(caller.claims) as { sub?: string };
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

/** Maximum bytes of a result. The metadata of an object may be large, and the owner may make it larger by SQL. */
const MOST_BYTES = 8 * 1024 * 1024;
/** Limits of one object, whose metadata is at most a megabyte unless the owner made it larger. */
const MOST_OF_ROW: JsonBound = { ...ONE_TURN, depth: 128, bytes: 1.125 * 1024 * 1024 };
/** Maximum number of values and names in a result: a page of 10,000 objects has 300,000. */
const MOST_VALUES = 400_000;

/**
 * Statement whose rows are returned as one text: JSON between separators. `name` is its purpose. A result beyond the
 * limit raises an error (an invalid cast to integer), which undoes the statement.
 */
export const rows = (name: string, text: string, values: Statement['values'] = []): Statement => ({
  name: `storage-${name}`,
  text: `with t as (${text}), lines as materialized (select row_to_json(t)::text as line from t)
    select case when sum(octet_length(line)) > ${MOST_BYTES} or max(octet_length(line)) > ${MOST_OF_ROW.bytes}
      then ('${ANSWER_TOO_LARGE}' || count(*))::int::text
      else string_agg(line, ${ROW_SEPARATOR}) end from lines`,
  values,
});

export const statement = (name: string, text: string, values: Statement['values'] = []): Statement => ({
  name: `storage-${name}`,
  text,
  values,
});

/** Returns the rows of a statement made by `rows`. Many are decoded in several turns of the event loop. */
export async function lastRows<T = Row>({ request }: StorageContext, results: Result[]): Promise<T[]> {
  const all: T[] = [];
  const steps = decodedRows<T>(textOf(results), (row, heapBytes) => {
    if (heapBytes > UNCOUNTED_BYTES) reserveBytes(request, heapBytes);
    all.push(row);
  });
  await inTurns(request.tenant.ref, steps);
  return all;
}

/**
 * Converts each row as it is decoded, so that the decoded rows, which may take ten times their bytes, are never all in
 * memory.
 */
export function eachOfLastRows<T>(
  { request }: StorageContext,
  results: Result[],
  each: (row: T) => void,
): Promise<void> {
  return inTurns(request.tenant.ref, decodedRows<T>(textOf(results), each));
}

const EMPTY = Buffer.alloc(0);
const textOf = (results: Result[]): Buffer => results.at(-1)?.rows[0]?.[0] ?? EMPTY;
/** Bytes of the heap below which a row is not counted. Most rows take less. */
const UNCOUNTED_BYTES = 16 * 1024;

/** `onRow` gets each row, and an upper bound of its heap. */
export function* decodedRows<T>(text: Buffer, onRow: (row: T, heapBytes: number) => void): Steps<void> {
  let left = MOST_VALUES;
  let heapBytes = 0;
  const count = (values: number, bytes: number) => {
    heapBytes = bytes;
    left -= values;
    if (left < 0) throw invalidRequest(`The answer would have more than ${MOST_VALUES} values: request fewer objects`);
  };
  yield* jsonRowsOf(text, (row) => onRow(rowOf(row, count) as T, heapBytes));
}

function rowOf(text: Buffer, count: (values: number, heapBytes: number) => void): unknown {
  try {
    return parseJson(text, MOST_OF_ROW, count);
  } catch (error) {
    if (!(error instanceof JsonRefusal)) throw error;
    throw new StorageError(500, 'DatabaseError', `A row of storage can't be read: ${(error as Error).message}`);
  }
}

export const subjectOf = ({ claims }: Caller): string | undefined => {
  const { sub } = parseJson(claims) as { sub?: unknown };
  return typeof sub === 'string' && sub !== '' ? sub : undefined;
};
