/**
 * A hook that is a function of the project's own database: `f(event jsonb) returns jsonb`. It runs as the role that
 * owns schema `auth`, which reaches it by what the owner grants to supabase_auth_admin, and which is nobody outside
 * this database.
 */
import { DatabaseError } from '../../sql/errors.js';
import type { Pool } from '../../sql/pool.js';
import { AuthError } from '../errors.js';
import type { HookOutput } from './invoke.js';
import type { HookTarget } from './target.js';

const TIMEOUT_MS = 2000;
const QUERY_CANCELED = '57014';
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

export async function callFunction(
  pool: Pool,
  target: HookTarget & { kind: 'postgres' },
  input: object,
): Promise<HookOutput> {
  const name = `${quoted(target.schema)}.${quoted(target.function)}`;
  try {
    const results = await pool.batch([
      { text: "select set_config('statement_timeout', $1, true)", values: [String(TIMEOUT_MS)] },
      { text: `select ${name}($1::text::jsonb)::text`, values: [JSON.stringify(input)] },
    ]);
    const text = results[1]?.rows[0]?.[0];
    const output: unknown = text == null ? {} : JSON.parse(text.toString());
    if (typeof output !== 'object' || output === null || Array.isArray(output)) {
      throw new AuthError(500, 'unexpected_failure', 'The hook did not return an object');
    }
    return output as HookOutput;
  } catch (error) {
    if (error instanceof DatabaseError && error.code === QUERY_CANCELED) {
      throw new AuthError(
        422,
        'hook_timeout',
        `Failed to reach hook within maximum time of ${TIMEOUT_MS / 1000} seconds`,
      );
    }
    if (error instanceof DatabaseError) {
      throw new AuthError(500, 'unexpected_failure', `Error running hook: SQLSTATE ${error.code}`);
    }
    throw error;
  }
}
