/**
 * Subscriptions to the Postgres changes of one project. The replication stream runs only while there are subscribers.
 * In: the channels' requested changes. Out: the status of each subscription, and changes, which are sent to those who
 * may read the rows.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { BackendTenant } from '../../../projects/tenant.js';
import type { Pool } from '../../../sql/pool.js';
import type { Channel } from '../channel.js';
import type { ChangeSpec } from '../protocol/join.js';
import { Deliveries } from './deliveries.js';
import type { Subscription } from './delivery.js';
import { type Condition, checkedAgainst, readFilter } from './filter.js';
import type { ReaderShares } from './reader-shares.js';
import { type Change, ChangeStream, type ReplicationLogin } from './stream.js';
import { Tables } from './tables.js';

export interface ChangesOptions {
  tenant: BackendTenant;
  pool: Pool;
  replication: ReplicationLogin;
  shares: ReaderShares;
  recordBytes: number;
  log: Logger;
}

/**
 * Milliseconds until the stream stops after the last subscriber left. That subscriber may return, and a new slot costs
 * more than continued reading.
 */
const LINGER_MS = 60_000;
const RETRY_MS = 500;
/** Milliseconds until the status "starting" is sent: most slots are created sooner. */
const STARTING_MS = 2_000;
const TOO_MANY =
  'Unable to subscribe to changes: this account has reached its limit of projects with subscriptions. ' +
  'Leave the channels of another project';
const STARTING = 'Starting: Postgres waits for open transactions on the server';
const LOST = 'Changes were lost: the database invalidated its replication slot. Subscribe again';

export class Changes {
  readonly #options: ChangesOptions;
  readonly #tables: Tables;
  readonly #subscriptions = new Map<Channel, readonly Subscription[]>();
  readonly #deliveries: Deliveries;
  #stream: ChangeStream | undefined;
  #stopping: Promise<void> = Promise.resolve();
  #linger: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: ChangesOptions) {
    this.#options = options;
    const { pool, recordBytes } = options;
    this.#tables = new Tables(pool);
    this.#deliveries = new Deliveries({
      pool,
      tables: this.#tables,
      recordBytes,
      subscriptions: this.#subscriptions,
      isClosed: () => this.#closed,
    });
  }

  subscribe(channel: Channel, specs: readonly ChangeSpec[]): void {
    if (this.#closed) return;
    clearTimeout(this.#linger);
    // Counted from here on, so that the stream does not stop while the subscription is checked.
    this.#subscriptions.set(channel, []);
    this.#enter(channel, specs).catch((error: Error) => {
      this.#options.log.warn({ why: error.message, ref: this.#options.tenant.ref }, 'subscription failed');
      this.#tell(channel, 'error', 'Unable to subscribe to changes: the database is not readable now');
      if (this.#subscriptions.has(channel)) channel.end('phx_error');
    });
  }

  unsubscribe(channel: Channel): void {
    if (!this.#subscriptions.delete(channel) || this.#subscriptions.size > 0 || this.#closed) return;
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => void this.#stop(), LINGER_MS).unref();
  }

  /** Reads the tables again after a change of the schema. */
  forgetTables(): void {
    this.#tables.forget();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#linger);
    this.#subscriptions.clear();
    await this.#stop();
  }

  async #enter(channel: Channel, specs: readonly ChangeSpec[]): Promise<void> {
    const subscriptions: Subscription[] = [];
    for (const spec of specs) {
      const read = await this.#read(channel, spec);
      if (typeof read === 'string') return this.#tell(channel, 'error', describe(spec, read));
      subscriptions.push({ channel, spec, conditions: read });
    }
    const starting = setTimeout(() => this.#tell(channel, 'starting', STARTING), STARTING_MS);
    const isStarted = await this.#start().finally(() => clearTimeout(starting));
    if (!isStarted) return this.#tell(channel, 'error', TOO_MANY);
    if (!this.#subscriptions.has(channel)) return;
    this.#subscriptions.set(channel, subscriptions);
    this.#tell(channel, 'ok', 'Subscribed to PostgreSQL');
  }

  #tell(channel: Channel, status: 'ok' | 'starting' | 'error', message: string): void {
    if (this.#subscriptions.has(channel)) channel.system('postgres_changes', status, message);
  }

  async #read(channel: Channel, { schema, table, filter }: ChangeSpec): Promise<readonly Condition[] | string> {
    this.#tables.forget();
    const published = await this.#tables.published(schema, table);
    if (published.length === 0) return 'no such table is in the publication supabase_realtime';
    if (filter === undefined) return [];
    const conditions = readFilter(filter);
    if (typeof conditions === 'string') return conditions;
    const [only] = published;
    if (published.length > 1 || only === undefined) return 'a filter needs a single table';
    const identity = channel.identity;
    return identity ? checkedAgainst(this.#options.pool, identity, only, conditions) : 'the channel is gone';
  }

  /** Returns false if the account has reached its limit of projects with subscriptions. */
  async #start(): Promise<boolean> {
    await this.#stopping;
    // If the last subscriber left during the wait, nothing else would stop the stream.
    if (this.#subscriptions.size === 0) return true;
    const { tenant, replication, shares, log } = this.#options;
    if (!shares.take(tenant)) return false;
    this.#stream ??= new ChangeStream(
      tenant,
      replication,
      {
        deliver: (changes) => this.#deliver(changes),
        onLost: () => this.#lost(),
        onTrouble: () => undefined,
      },
      log,
    );
    await this.#stream.start();
    return true;
  }

  #stop(): Promise<void> {
    const stream = this.#stream;
    this.#stream = undefined;
    const { tenant, shares } = this.#options;
    if (stream) this.#stopping = stream.stop().finally(() => shares.release(tenant));
    return this.#stopping;
  }

  /** Closes each channel with a message, so that its client joins again. */
  #lost(): void {
    for (const channel of [...this.#subscriptions.keys()]) channel.shutDown(LOST, 'phx_error');
  }

  /** Repeats the work until it succeeds. Changes that can't be checked wait, and so does reading the log. */
  async #deliver(changes: readonly Change[]): Promise<void> {
    while (!this.#closed) {
      try {
        for (const send of await this.#deliveries.prepare(changes)) send();
        return;
      } catch (error) {
        this.#options.log.warn({ why: (error as Error).message }, 'changes not checked yet');
        await pause(RETRY_MS);
      }
    }
  }
}

const describe = ({ event, schema, table, filter = '' }: ChangeSpec, why: string) =>
  'Unable to subscribe to changes with given parameters. Please check Realtime is enabled for the given connect ' +
  `parameters: [event: ${event}, schema: ${schema}, table: ${table}, filters: [${filter}]] (${why})`;
