/**
 * Messages that the database sends: rows of `realtime.messages`, each delivered once after its commit, in the order in
 * which they were written. A notification only triggers a query, which reads the rows that the last snapshot did not
 * show, so that a broken connection neither loses nor repeats a message. In: the project's pool, which listens. Out:
 * messages. Used by the project's hub.
 */
import type { Pool } from '../../../sql/pool.js';
import { assume, SERVICE } from '../identity.js';

export interface DatabaseMessage {
  id: string;
  topic: string;
  event: string;
  /** Payload as JSON text. */
  payload: string;
  isPrivate: boolean;
}

export const NOTIFICATIONS = 'realtime';
/** Maximum bytes of the messages in one query; further messages are dropped. */
const MAX_READ_BYTES = 32 * 1024 * 1024;
/** Milliseconds between queries without a notification, which a broken connection may lose. */
const LOOK_MS = 10_000;

const NEW_MESSAGES = `
with now as materialized (select pg_current_snapshot() as snapshot),
fresh as (
  select id, topic, event, payload::text, private, inserted_at from realtime.messages
  where txid >= pg_snapshot_xmin($1::pg_snapshot) and not pg_visible_in_snapshot(txid, $1::pg_snapshot)
    and extension = 'broadcast' and event is not null and payload is not null
),
fitting as (
  select *, sum(octet_length(payload)) over (order by inserted_at, id) as bytes from fresh
  where octet_length(payload) <= $2
)
select (select snapshot::text from now), id::text, topic, event, payload, coalesce(private, true)::text,
  (select count(*) from fresh)::text
from (select) as one left join fitting on bytes <= $3
order by inserted_at, id`;

export class MessageFeed {
  #snapshot: string | undefined;
  #running: Promise<void> | undefined;
  #again = false;
  #closed = false;
  readonly #timer = setInterval(() => void this.look(), LOOK_MS).unref();

  constructor(
    private readonly pool: Pool,
    /** Maximum bytes of a message, as for clients; a larger message is dropped. */
    private readonly payloadBytes: number,
    private readonly deliver: (message: DatabaseMessage) => void,
    private readonly onFailure: (error: Error) => void,
  ) {}

  /** Resolves once messages that are committed from now on will be delivered. */
  async start(): Promise<void> {
    if (this.#snapshot !== undefined) return;
    const [, answer] = await this.pool.batch([assume(SERVICE), { text: 'select pg_current_snapshot()::text' }]);
    this.#snapshot ??= answer?.rows[0]?.[0]?.toString();
  }

  /** Queries for new messages. */
  look(): Promise<void> {
    this.#again = true;
    this.#running ??= this.#read().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
  }

  async #read(): Promise<void> {
    while (this.#again && !this.#closed && this.#snapshot !== undefined) {
      this.#again = false;
      try {
        await this.#readOnce(this.#snapshot);
      } catch (error) {
        // The snapshot is unchanged after an error, so the next query reads the same rows.
        this.onFailure(error as Error);
        return;
      }
    }
  }

  async #readOnce(since: string): Promise<void> {
    const values = [since, this.payloadBytes, MAX_READ_BYTES];
    const statement = { name: 'realtime-messages', text: NEW_MESSAGES, values };
    const [, answer] = await this.pool.batch([assume(SERVICE), statement], { repeatable: true });
    const all = (answer?.rows ?? []).map((row) => row.map((value) => value?.toString() ?? ''));
    if (this.#closed) return;
    this.#snapshot = all[0]?.[0] ?? since;
    const dropped = Number(all[0]?.[6]) - all.filter(([, id]) => id !== '').length;
    if (dropped > 0) this.onFailure(new Error(`${dropped} were too large, or too many at once, and were dropped`));
    for (const [, id = '', topic = '', event = '', payload = '', isPrivate] of all) {
      if (id !== '') this.deliver({ id, topic, event, payload, isPrivate: isPrivate === 'true' });
    }
  }
}

const REPLAY = `
select id::text, event, payload::text from (
  select id, event, payload, inserted_at from realtime.messages
  where topic = $1 and private and extension = 'broadcast' and event is not null and payload is not null
    and octet_length(payload::text) <= $4
    and inserted_at >= (to_timestamp($2::float8 / 1000) at time zone 'utc')
  order by inserted_at desc limit $3
) latest order by inserted_at`;

export interface Replay {
  /** Time from which messages are returned, in milliseconds since the epoch. */
  since: number;
  /** Maximum number of messages. */
  limit: number;
  /** Maximum bytes of a message. */
  payloadBytes: number;
}

/** Returns the last messages of a private topic, for a caller that may read it. */
export async function replayed(
  pool: Pool,
  topic: string,
  { since, limit, payloadBytes }: Replay,
): Promise<DatabaseMessage[]> {
  const statement = { name: 'realtime-replay', text: REPLAY, values: [topic, since, limit, payloadBytes] };
  const [, answer] = await pool.batch([assume(SERVICE), statement], { repeatable: true });
  return (answer?.rows ?? []).map(([id, event, payload]) => ({
    id: String(id),
    topic,
    event: String(event),
    payload: String(payload),
    isPrivate: true,
  }));
}
