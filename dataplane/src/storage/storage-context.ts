/** One request as storage's operations see it: who calls, what the installation allows, and how to ask the database. */
import type { ServiceRequest } from '../service.js';
import type { Result, Statement } from '../sql/pool.js';
import type { Caller } from '../tenant.js';
import type { ContentStore } from './content/content.js';
import { identity, lastRows, type Row, type StorageDatabases } from './database.js';
import type { ImageTurns } from './image-turns.js';
import type { ForeignIdLog } from './row-content.js';
import type { UploadsAtOnce } from './uploads-at-once.js';

export interface StorageLimits {
  /** Bytes of one object, whatever its bucket allows. */
  fileBytes: number;
  /** Uploads of one project whose bytes are being received. */
  uploadsAtOnce: number;
  /** Resumable uploads of one project that are neither complete nor expired. */
  openUploads: number;
  /** Bytes that those uploads of a project may reach: the length of each, or its limit while the length is unknown. */
  openUploadBytes: number;
}

export interface Surroundings {
  databases: StorageDatabases;
  content: ContentStore;
  limits: StorageLimits;
  uploads: UploadsAtOnce;
  images: ImageTurns;
  foreignIds: ForeignIdLog;
}

export interface StorageContext extends Surroundings {
  request: ServiceRequest;
  query: URLSearchParams;
}

/**
 * All statements as `caller`, in one round trip; a `name`d statement is one a role, as Postgres plans policies by role.
 */
export const as = (
  context: StorageContext,
  caller: Caller,
  operation: string,
  ...statements: Statement[]
): Statement[] => [
  identity(context.request, caller, operation),
  ...statements.map(({ name, ...rest }) => ({ ...rest, ...(name ? { name: `${name}-${caller.role}` } : {}) })),
];

export async function send({ databases, request }: StorageContext, statements: Statement[]): Promise<Result[]> {
  const pool = await databases.pool(request.tenant);
  return pool.batch(statements);
}

/** Runs a query as the caller: row-level security decides. */
export async function ask<T = Row>(context: StorageContext, operation: string, asked: Statement): Promise<T[]> {
  return lastRows<T>(await send(context, as(context, context.request.caller, operation, asked)));
}

export function answer({ request: { outgoing } }: StorageContext, body: unknown, status = 200): void {
  const text = JSON.stringify(body);
  outgoing.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(text),
  });
  outgoing.end(text);
}

/** Times as Supabase sends them: milliseconds and Z. */
export const withTimes = <T extends Row>(row: T): T =>
  Object.fromEntries(
    Object.entries(row).map(([key, value]) => [
      key,
      typeof value === 'string' && key.endsWith('_at') ? new Date(value).toISOString() : value,
    ]),
  ) as T;
