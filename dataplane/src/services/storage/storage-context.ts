/** Request context of storage's operations: caller, limits, and access to the database. */

import { inTurns, STEP_BYTES, type Steps } from '../../bounds/turns.js';
import { heapOf } from '../../http/request-body.js';
import { endWith } from '../../http/small-body.js';
import type { MigratedPools } from '../../projects/migrated-pools.js';
import type { Caller } from '../../projects/tenant.js';
import type { Result, Statement } from '../../sql/pool.js';
import type { ServiceRequest } from '../service.js';
import type { ContentStore } from './content/content.js';
import { eachOfLastRows, identity, lastRows, type Row } from './database.js';
import type { ImageTurns } from './image-turns.js';
import type { ForeignIdLog } from './row-content.js';
import type { UploadsAtOnce } from './uploads-at-once.js';
import type { StorageUsage } from './usage.js';

export interface StorageLimits {
  /** Maximum bytes of one object, whatever its bucket allows. */
  fileBytes: number;
  /** Maximum number of concurrent uploads of one project. */
  uploadsAtOnce: number;
  /** Resumable uploads of one project that are neither complete nor expired. */
  openUploads: number;
  /** Bytes of a project's open uploads: the length of each, or its limit while the length is unknown. */
  openUploadBytes: number;
}

export interface Surroundings {
  databases: MigratedPools;
  content: ContentStore;
  limits: StorageLimits;
  uploads: UploadsAtOnce;
  usage: StorageUsage;
  images: ImageTurns;
  foreignIds: ForeignIdLog;
}

export interface StorageContext extends Surroundings {
  request: ServiceRequest;
  query: URLSearchParams;
}

/**
 * Runs all statements as `caller`, in one round trip. Names of statements differ by role, because Postgres plans
 * policies by role.
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

/**
 * First statement of a batch that deletes. With it, objects can be deleted from a database that is read-only because it
 * is full.
 */
const WRITABLE: Statement = { text: 'set transaction read write' };

export async function send({ databases, request }: StorageContext, statements: Statement[]): Promise<Result[]> {
  const pool = await databases.pool(request.tenant);
  return pool.batch(statements);
}

/** Like `ask`, but also works in a full database. */
export async function askToDelete<T = Row>(
  context: StorageContext,
  operation: string,
  statement: Statement,
): Promise<T[]> {
  return lastRows<T>(
    context,
    await send(context, [WRITABLE, ...as(context, context.request.caller, operation, statement)]),
  );
}

/** Runs a query as the caller, so that row-level security decides. */
export async function ask<T = Row>(context: StorageContext, operation: string, statement: Statement): Promise<T[]> {
  return lastRows<T>(context, await send(context, as(context, context.request.caller, operation, statement)));
}

/**
 * Runs a query of many rows as the caller. `add` gets each row, and a function that stores its JSON for the response,
 * so that the decoded rows are never all in memory.
 */
export async function askForMany<T = Row>(
  context: StorageContext,
  operation: string,
  statement: Statement,
  add: (row: T, toJson: (shown: object) => Buffer) => void,
): Promise<void> {
  const results = await send(context, as(context, context.request.caller, operation, statement));
  const reserve = heapOf(context.request);
  const toJson = (shown: object) => {
    const text = Buffer.from(JSON.stringify(shown));
    reserve(text.length);
    return text;
  };
  await eachOfLastRows<T>(context, results, (row) => add(row, toJson));
}

export const answer = (context: StorageContext, body: unknown, status = 200): void =>
  answerText(context, Buffer.from(JSON.stringify(body)), status);

export function answerText({ request: { outgoing } }: StorageContext, text: Buffer, status = 200): void {
  outgoing.writeHead(status, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': text.length,
  });
  endWith(outgoing, text);
}

/** Sends a list of rows, which may have megabytes of metadata: each is serialized separately. */
export async function answerRows(context: StorageContext, rows: readonly Row[]): Promise<void> {
  answerText(context, jsonList(await inTurns(context.request.tenant.ref, textsOf(rows))));
}

function* textsOf(rows: readonly Row[]): Steps<Buffer[]> {
  const texts: Buffer[] = [];
  let left = STEP_BYTES;
  for (const row of rows) {
    const text = Buffer.from(JSON.stringify(withTimes(row)));
    texts.push(text);
    left -= text.length;
    if (left > 0) continue;
    yield;
    left = STEP_BYTES;
  }
  return texts;
}

const [OPEN, COMMA, CLOSE] = ['[', ',', ']'].map((text) => Buffer.from(text)) as [Buffer, Buffer, Buffer];

/** Returns a JSON array of values that are JSON texts already. */
export const jsonList = (texts: readonly Buffer[]): Buffer =>
  Buffer.concat([OPEN, ...texts.flatMap((text, at) => (at === 0 ? [text] : [COMMA, text])), CLOSE]);

/** Formats times as Supabase does: milliseconds and Z. */
export const withTimes = <T extends Row>(row: T): T =>
  Object.fromEntries(
    Object.entries(row).map(([key, value]) => [
      key,
      typeof value === 'string' && key.endsWith('_at') ? new Date(value).toISOString() : value,
    ]),
  ) as T;
