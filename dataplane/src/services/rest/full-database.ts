/**
 * Detects that a database is read-only because it is full. In: the error of a writing request. Out: the error for its
 * client. Called by `execute`.
 */
import { DatabaseError } from '../../sql/pool.js';
import type { CompiledRequest } from './compile.js';
import { RestError } from './errors.js';
import type { TenantDatabase } from './tenant-database.js';

/** SQLSTATEs of a write in a read-only transaction, and of starting a transaction that writes. */
const READ_ONLY = new Set(['25006', '25001']);
/** Query for the setting that the operator gives the data plane's roles while the database exceeds its quota. */
const IS_FULL = { text: "select current_setting('slipway.database_full', true)" };

/** Returns undefined for any other error. */
export async function fullDatabaseError(
  error: unknown,
  { pool }: TenantDatabase,
  { readOnly }: CompiledRequest,
): Promise<RestError | undefined> {
  if (readOnly || !(error instanceof DatabaseError) || !READ_ONLY.has(error.code)) return undefined;
  const [result] = await pool.batch([IS_FULL], { repeatable: true }).catch(() => []);
  if (result?.rows[0]?.[0]?.toString() !== 'on') return undefined;
  return new RestError(503, '53100', 'The database is full, and is read-only until it has room again', {
    hint: "Delete data through db_url, or use a larger plan. The project's status has its usage and quota.",
  });
}
