/**
 * Calls a hook that is a function of the project's own database: `f(event jsonb) returns jsonb`. The function runs as
 * the role that owns schema `auth`, by the owner's grants to supabase_auth_admin. This role has no rights outside of
 * the database.
 */

import type { HookTarget } from '@slipway/installation/auth-settings.js';
import { ONE_TURN, parseJson } from '@slipway/program';
import { DatabaseError } from '../../../sql/errors.js';
import type { Pool } from '../../../sql/pool.js';
import { AuthError } from '../errors.js';
import type { HookOutput } from './invoke.js';

const TIMEOUT_MS = 2000;
const QUERY_CANCELED = '57014';
/** Bytes of the returned claims: no client sends a larger token. */
function outputOf(text: Buffer): unknown {
  try {
    return parseJson(text, { ...ONE_TURN, bytes: 256 * 1024 });
  } catch (error) {
    throw new AuthError(500, 'unexpected_failure', `The hook's output can't be read: ${(error as Error).message}`);
  }
}

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
    const output: unknown = text == null ? {} : outputOf(text);
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
