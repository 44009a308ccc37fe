/**
 * Removes what nobody will ask for again: spent refresh tokens, ended sessions, sign-ins that were never completed. A bounded piece at a
 * time, now and then while a project is used, after the answer that it came with; as upstream does.
 */
import type { Statement } from '../sql/pool.js';
import type { Context } from './context.js';

const EVERY_MS = 10 * 60_000;
const ROWS = 1000;

/** What is older than a day is looked at by nothing any more. */
const some = (table: string, condition: string): Statement => ({
  text: `delete from auth.${table} where id in (
    select id from auth.${table} where ${condition} limit ${ROWS} for update skip locked)`,
});

const STALE: readonly Statement[] = [
  some('refresh_tokens', "revoked and updated_at < now() - interval '24 hours'"),
  some('sessions', "not_after < now() - interval '24 hours'"),
  some('flow_state', "created_at < now() - interval '24 hours'"),
  some('one_time_tokens', "created_at < (now() at time zone 'utc') - interval '7 days'"),
  some('mfa_challenges', "created_at < now() - interval '24 hours'"),
  some('mfa_factors', "created_at < now() - interval '24 hours' and status = 'unverified'"),
];

export class Cleanup {
  readonly #last = new Map<string, number>();

  /** Does nothing when it was done lately. */
  consider({ request, pool, outbox }: Context): void {
    const { ref } = request.tenant;
    const now = performance.now();
    if (now - (this.#last.get(ref) ?? Number.NEGATIVE_INFINITY) < EVERY_MS) return;
    this.#last.set(ref, now);
    outbox.post({ ref, kind: 'cleanup', send: async () => void (await pool.batch(STALE)) });
  }

  forget(ref: string): void {
    this.#last.delete(ref);
  }
}
