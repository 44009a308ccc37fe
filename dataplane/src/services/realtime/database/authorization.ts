/**
 * Checks a caller's permissions on a private topic by the policies on `realtime.messages`, as upstream does: inserts,
 * reads or writes a message as the caller, and rolls everything back. In: a caller and a topic. Out: the permissions.
 */

import type { Caller } from '../../../projects/tenant.js';
import { DatabaseError, type Pool, type Queryable } from '../../../sql/pool.js';
import { assume, SERVICE } from '../identity.js';

export interface Allowed {
  broadcast: boolean;
  presence: boolean;
}

const EXTENSIONS = ['broadcast', 'presence'] as const;
const NOTHING: Allowed = { broadcast: false, presence: false };

/** Error that is thrown to roll the transaction back. */
class RollBack extends Error {}

export function mayRead(pool: Pool, caller: Caller, topic: string): Promise<Allowed> {
  return rolledBack(pool, async (transaction) => {
    await become(transaction, SERVICE, topic);
    const probes = await transaction.query<{ id: string; extension: keyof Allowed }>(
      'insert into realtime.messages (topic, extension, private) ' +
        `values ($1, 'broadcast', true), ($1, 'presence', true) returning id::text, extension`,
      [topic],
    );
    await become(transaction, caller, topic);
    const seen = await transaction.query<{ extension: keyof Allowed }>(
      'select extension from realtime.messages where topic = $1 and id = any($2::uuid[])',
      [topic, `{${probes.map(({ id }) => id).join()}}`],
    );
    return allowed(new Set(seen.map(({ extension }) => extension)));
  });
}

export function mayWrite(pool: Pool, caller: Caller, topic: string): Promise<Allowed> {
  return rolledBack(pool, async (transaction) => {
    await become(transaction, caller, topic);
    const written = new Set<keyof Allowed>();
    for (const extension of EXTENSIONS) {
      await transaction.query('savepoint probe');
      try {
        await transaction.query('insert into realtime.messages (topic, extension, private) values ($1, $2, true)', [
          topic,
          extension,
        ]);
        written.add(extension);
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error;
      }
      await transaction.query('rollback to savepoint probe');
    }
    return allowed(written);
  });
}

const allowed = (extensions: Set<keyof Allowed>): Allowed => ({
  broadcast: extensions.has('broadcast'),
  presence: extensions.has('presence'),
});

async function become(transaction: Queryable, caller: Caller, topic: string): Promise<void> {
  const { text, values = [] } = assume(caller, topic);
  await transaction.query(text, values);
}

/** A policy that fails allows nothing. The caller handles an unavailable database. */
async function rolledBack(pool: Pool, work: (transaction: Queryable) => Promise<Allowed>): Promise<Allowed> {
  let result = NOTHING;
  try {
    await pool.transaction(async (transaction) => {
      result = await work(transaction);
      throw new RollBack();
    });
  } catch (error) {
    if (!(error instanceof RollBack) && !(error instanceof DatabaseError)) throw error;
  }
  return result;
}
