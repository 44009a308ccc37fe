/**
 * Removes what nobody will ask for again: spent refresh tokens, ended sessions, sign-ins that were never completed. A
 * bounded piece at a time, now and then while a project is used, after the answer that it came with; as upstream does.
 */
import type { Result, Statement } from '../sql/pool.js';
import type { AuthConfig } from './config.js';
import type { Context } from './context.js';

const EVERY_MS = 10 * 60_000;
/** Where there was more than one piece. */
const AGAIN_MS = 1_000;
const ROWS = 1000;

const some = (table: string, condition: string, values: Statement['values'] = []): Statement => ({
  text: `delete from auth.${table} where id in (
    select t.id from auth.${table} t where ${condition} limit ${ROWS} for update skip locked)`,
  values,
});

/** Deletes rows that ended more than a day ago: no code reads them any more. */
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
  /** When each project's is due. */
  readonly #due = new Map<string, number>();

  /** Does nothing when it was done lately. */
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
