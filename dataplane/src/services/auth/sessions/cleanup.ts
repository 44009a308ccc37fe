/**
 * Deletes rows that are of no further use: spent refresh tokens, ended sessions, incomplete sign-ins. Runs in bounded
 * batches from time to time while a project is used, after a response, as upstream does.
 */

import type { AuthConfig } from '@slipway/installation/auth-settings.js';
import type { Result, Statement } from '../../../sql/pool.js';
import type { Context } from '../context.js';

const EVERY_MS = 10 * 60_000;
/** Milliseconds until the next batch if the last batch was full. */
const AGAIN_MS = 1_000;
const ROWS = 1000;

const some = (table: string, condition: string, values: Statement['values'] = []): Statement => ({
  text: `delete from auth.${table} where id in (
    select t.id from auth.${table} t where ${condition} limit ${ROWS} for update skip locked)`,
  values,
});

/** Returns statements that delete rows that ended more than a day ago, which no code reads. */
const stale = ({ sessions: { timeboxSeconds, inactivitySeconds, single } }: AuthConfig): Statement[] => [
  some('refresh_tokens', "revoked and updated_at < now() - interval '24 hours'"),
  some('sessions', "not_after < now() - interval '24 hours'"),
  ...(timeboxSeconds === undefined ? [] : [some('sessions', `created_at < ${DAY_AFTER}`, [timeboxSeconds])]),
  ...(inactivitySeconds === undefined ? [] : [some('sessions', `${USED} < ${DAY_AFTER}`, [inactivitySeconds])]),
  ...(single ? [some('sessions', REPLACED)] : []),
  some('flow_state', "created_at < now() - interval '24 hours'"),
  some('one_time_tokens', "created_at < (now() at time zone 'utc') - interval '7 days'"),
  some('mfa_challenges', "created_at < now() - interval '24 hours'"),
  some('mfa_factors', "created_at < now() - interval '24 hours' and status = 'unverified'"),
];

const DAY_AFTER = 'now() - make_interval(days => 1, secs => $1::double precision)';
const USED = "coalesce(refreshed_at at time zone 'utc', created_at)";
const REPLACED = `exists (select from auth.sessions n
  where n.user_id = t.user_id and n.created_at > t.created_at and n.created_at < now() - interval '24 hours')`;

export class Cleanup {
  /** Time of the next cleanup, by project. */
  readonly #due = new Map<string, number>();

  /** Starts a cleanup of the project if one is due. */
  consider({ request, pool, outbox, config }: Context): void {
    const { ref } = request.tenant;
    const now = performance.now();
    if (now < (this.#due.get(ref) ?? 0)) return;
    this.#due.set(ref, now + EVERY_MS);
    const send = async () => {
      const results = await pool.batch(stale(config));
      if (results.some(isFull) && this.#due.has(ref)) this.#due.set(ref, performance.now() + AGAIN_MS);
    };
    outbox.post({ ref, kind: 'cleanup', send });
  }

  forget(ref: string): void {
    this.#due.delete(ref);
  }
}

const isFull = ({ command }: Result) => command === `DELETE ${ROWS}`;
