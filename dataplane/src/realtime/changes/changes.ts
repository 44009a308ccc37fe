/**
 * Postgres changes of one project: who asked for which, and each change to those of them who may read its row. The
 * database's log is read only while somebody asks. In: channels' wishes, and the stream's changes. Out: frames to
 * channels, and how subscribing went.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Pool } from '../../sql/pool.js';
import type { Tenant } from '../../tenant.js';
import type { Channel } from '../channel.js';
import type { Frame } from '../protocol/frame.js';
import type { ChangeWish } from '../protocol/join.js';
import { pushFrame } from '../protocol/messages.js';
import { type Asked, type Condition, checkedAgainst, meets, readFilter } from './filter.js';
import { changeData, failedData, valuesOf } from './payload.js';
import type { ReaderShares } from './reader-shares.js';
import { MAX_WAL_BYTES } from './replication-session.js';
import { type Change, ChangeStream, type ReplicationLogin } from './stream.js';
import { type Table, Tables } from './tables.js';
import { areVisible, type Question, type Seen, seenBy } from './visibility.js';

export interface ChangesOptions {
  tenant: Tenant;
  pool: Pool;
  replication: ReplicationLogin;
  shares: ReaderShares;
  recordBytes: number;
  log: Logger;
}

interface Subscription {
  channel: Channel;
  wish: ChangeWish;
  conditions: readonly Condition[];
}

/** The last subscriber may be back in a moment; making a slot costs more than reading on. */
const LINGER_MS = 60_000;
const RETRY_MS = 500;
/** Descriptions of tables whose changes were seen. An evicted one is read again. */
const MOST_DESCRIPTIONS = 10_000;
/** From a commit in the log until others see it. */
const VISIBLE_MS = 1;
const NO_KEY = 'Error 400: Bad Request, no primary key';
const UNAUTHORIZED = 'Error 401: Unauthorized';
const POLICY_FAILED = 'Error 500: Internal Server Error, RLS policy evaluation failed';
const TOO_MANY =
  'Unable to subscribe to changes: as many projects of this account are subscribed to as may be at once. Leave channels of another project';
const LOST = 'Changes were lost: the database gave up its replication slot. Subscribe again';

export class Changes {
  readonly #options: ChangesOptions;
  readonly #tables: Tables;
  readonly #subscriptions = new Map<Channel, readonly Subscription[]>();
  #stream: ChangeStream | undefined;
  #stopping: Promise<void> = Promise.resolve();
  #linger: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: ChangesOptions) {
    this.#options = options;
    this.#tables = new Tables(options.pool);
  }

  subscribe(channel: Channel, wishes: readonly ChangeWish[]): void {
    if (this.#closed) return;
    clearTimeout(this.#linger);
    // From now on it counts, so that the stream is not stopped while its wishes are looked at.
    this.#subscriptions.set(channel, []);
    this.#enter(channel, wishes).catch((error: Error) => {
      this.#options.log.warn({ why: error.message, ref: this.#options.tenant.ref }, 'subscription failed');
      this.#tell(channel, 'error', 'Unable to subscribe to changes: the database can not be read now');
      if (this.#subscriptions.has(channel)) channel.end('phx_error');
    });
  }

  unsubscribe(channel: Channel): void {
    if (!this.#subscriptions.delete(channel) || this.#subscriptions.size > 0 || this.#closed) return;
    clearTimeout(this.#linger);
    this.#linger = setTimeout(() => void this.#stop(), LINGER_MS).unref();
  }

  /** The schema changed. */
  forgetTables(): void {
    this.#tables.forget();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#linger);
    this.#subscriptions.clear();
    await this.#stop();
  }

  async #enter(channel: Channel, wishes: readonly ChangeWish[]): Promise<void> {
    const subscriptions: Subscription[] = [];
    for (const wish of wishes) {
      const read = await this.#read(channel, wish);
      if (typeof read === 'string') return this.#tell(channel, 'error', describe(wish, read));
      subscriptions.push({ channel, wish, conditions: read });
    }
    if (!(await this.#start())) return this.#tell(channel, 'error', TOO_MANY);
    if (!this.#subscriptions.has(channel)) return;
    this.#subscriptions.set(channel, subscriptions);
    this.#tell(channel, 'ok', 'Subscribed to PostgreSQL');
  }

  #tell(channel: Channel, status: 'ok' | 'error', message: string): void {
    if (this.#subscriptions.has(channel)) channel.system('postgres_changes', status, message);
  }

  async #read(channel: Channel, { schema, table, filter }: ChangeWish): Promise<readonly Condition[] | string> {
    this.#tables.forget();
    const published = await this.#tables.published(schema, table);
    if (published.length === 0) return 'no such table is in the publication supabase_realtime';
    if (filter === undefined) return [];
    const conditions = readFilter(filter);
    if (typeof conditions === 'string') return conditions;
    const [only] = published;
    if (published.length > 1 || only === undefined) return 'a filter is of one table';
    const identity = channel.identity;
    return identity ? checkedAgainst(this.#options.pool, identity, only, conditions) : 'the channel is gone';
  }

  /** False if the account reads the changes of as many projects as it may. */
  async #start(): Promise<boolean> {
    await this.#stopping;
    // Whoever asked has left meanwhile, and with the last of them goes whoever would stop it.
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

  /** Never silently: whoever listens is told and joins again. */
  #lost(): void {
    for (const channel of [...this.#subscriptions.keys()]) channel.shutDown(LOST, 'phx_error');
  }

  /** Until it has worked: changes that can't be checked now wait, and the log with them. */
  async #deliver(changes: readonly Change[]): Promise<void> {
    while (!this.#closed) {
      try {
        for (const send of await this.#prepare(changes)) send();
        return;
      } catch (error) {
        this.#options.log.warn({ why: (error as Error).message }, 'changes not checked yet');
        await pause(RETRY_MS);
      }
    }
  }

  /** Returns the sends, in order. Nothing is sent before everything is known, so that a retry sends nothing twice. */
  async #prepare(changes: readonly Change[]): Promise<(() => void)[]> {
    const asked: Asked = new Map();
    const deliveries: Delivery[] = [];
    const sends: (() => void)[] = [];
    for (const change of changes) {
      const table = await this.#tableOf(change);
      if (table === undefined) continue;
      if (change.isOversized) {
        sends.push(() => this.#tellOversized(change, table));
        continue;
      }
      const wanting = await this.#wanting(change, table, asked);
      if (wanting.length === 0) continue;
      const delivery = new Delivery(change, table, wanting);
      deliveries.push(delivery);
      sends.push(() => delivery.send(this.#options.recordBytes));
    }
    await this.#untilVisible(deliveries);
    await this.#ask(deliveries);
    return sends;
  }

  /**
   * Its values were not read, so neither filters nor policies were asked: subscribers learn of it, and nothing about
   * its row.
   */
  #tellOversized(change: Change, table: Table): void {
    const text = `A change of ${table.schema}.${table.name} was larger than ${MAX_WAL_BYTES} bytes and was not sent`;
    for (const [channel, subscriptions] of this.#subscriptions) {
      if (subscriptions.some(({ wish }) => isOf(wish, change, table))) this.#tell(channel, 'error', text);
    }
  }

  async #untilVisible(deliveries: readonly Delivery[]): Promise<void> {
    const xids = new Set(deliveries.flatMap(({ mustAsk, change }) => (mustAsk ? change.xid : [])));
    if (xids.size === 0) return;
    while (!this.#closed && !(await areVisible(this.#options.pool, xids))) await pause(VISIBLE_MS);
  }

  /** Postgres sends a table's description anew when it changed: what was known of it before is not used for it. */
  async #tableOf({ relation }: Change): Promise<Table | undefined> {
    if (this.#lastDescription.get(relation.oid) !== relation) {
      if (this.#lastDescription.size >= MOST_DESCRIPTIONS) this.#lastDescription.clear();
      this.#lastDescription.set(relation.oid, relation);
      this.#tables.forget();
    }
    return this.#tables.get(relation.oid);
  }
  readonly #lastDescription = new Map<number, object>();

  async #wanting(change: Change, table: Table, asked: Asked): Promise<Subscription[]> {
    const values = valuesOf(change, change.type === 'DELETE' ? 'old' : 'record');
    // What a filter sees of a row that is gone must be no more than what its subscriber is shown.
    const shown =
      change.type === 'DELETE' && table.isRlsEnabled
        ? new Map(table.primaryKey.map((column) => [column.name, column]))
        : table.columns;
    const wanting: Subscription[] = [];
    for (const subscriptions of this.#subscriptions.values()) {
      for (const subscription of subscriptions) {
        const { wish, conditions, channel } = subscription;
        if (!isOf(wish, change, table) || channel.identity === undefined) continue;
        const role = channel.identity.role;
        if (conditions.some(({ column }) => !table.columns.get(column)?.readers.has(role))) continue;
        if (conditions.length > 0 && !(await meets(this.#options.pool, asked, conditions, values, shown))) continue;
        wanting.push(subscription);
      }
    }
    return wanting;
  }

  /** One question for each table and identity, of all the rows that concern it. */
  async #ask(deliveries: readonly Delivery[]): Promise<void> {
    const questions = new Map<string, Question & { keys: (string | null)[][]; take: ((seen: Seen) => void)[] }>();
    for (const delivery of deliveries) {
      if (!delivery.mustAsk) continue;
      for (const [key, identity] of delivery.identities) {
        const name = `${delivery.change.relation.oid} ${key}`;
        const question = questions.get(name) ?? { identity, table: delivery.table, keys: [], take: [] };
        questions.set(name, question);
        const place = question.keys.push(delivery.primaryKey) - 1;
        question.take.push((seen) => delivery.answer(key, seen === 'failed' ? seen : seen.has(place)));
      }
    }
    const all = [...questions.values()];
    const answers = await seenBy(this.#options.pool, all);
    all.forEach(({ take }, at) => {
      for (const each of take) each(answers[at] as Seen);
    });
  }
}

const isOf = ({ event, schema, table }: ChangeWish, change: Change, of: Table) =>
  (event === '*' || event === change.type) &&
  (schema === '*' || schema === of.schema) &&
  (table === '*' || table === of.name);

const describe = ({ event, schema, table, filter = '' }: ChangeWish, why: string) =>
  'Unable to subscribe to changes with given parameters. Please check Realtime is enabled for the given connect ' +
  `parameters: [event: ${event}, schema: ${schema}, table: ${table}, filters: [${filter}]] (${why})`;

/** One change on its way to those who asked for it. */
class Delivery {
  readonly #seen = new Map<string, boolean | 'failed'>();
  readonly identities: ReadonlyMap<string, NonNullable<Channel['identity']>>;
  /**
   * Current subscriptions with the identity of their channel: a token may change during a query, whose answer is then
   * discarded.
   */
  readonly #wanting: readonly (Subscription & { key: string; role: NonNullable<Channel['identity']>['role'] })[];

  constructor(
    readonly change: Change,
    readonly table: Table,
    wanting: readonly Subscription[],
  ) {
    const identities = new Map<string, NonNullable<Channel['identity']>>();
    this.#wanting = wanting.flatMap((subscription) => {
      const { identity } = subscription.channel;
      if (identity === undefined) return [];
      const { key } = identity;
      identities.set(key, identity);
      return { ...subscription, key, role: identity.role };
    });
    this.identities = identities;
  }

  get mustAsk(): boolean {
    return this.table.isRlsEnabled && this.change.type !== 'DELETE' && this.table.primaryKey.length > 0;
  }

  get primaryKey(): (string | null)[] {
    const values = valuesOf(this.change, 'record');
    return this.table.primaryKey.map(({ name }) => values.get(name) ?? null);
  }

  answer(key: string, seen: boolean | 'failed'): void {
    this.#seen.set(key, seen);
  }

  send(recordBytes: number): void {
    const ids = new Map<Channel, Map<string, number[]>>();
    for (const { channel, wish, key, role } of this.#wanting) {
      if (channel.identity?.key !== key) continue;
      const data = this.#dataFor(key, role, wish, recordBytes);
      if (data === undefined) continue;
      const ofChannel = ids.get(channel) ?? new Map<string, number[]>();
      ids.set(channel, ofChannel);
      ofChannel.set(data, [...(ofChannel.get(data) ?? []), wish.id]);
    }
    for (const [channel, datas] of ids) for (const [data, of] of datas) channel.send(this.#frame(channel, of, data));
  }

  readonly #datas = new Map<string, string>();

  /** Undefined: it is not for that identity. */
  #dataFor(key: string, role: 'anon' | 'authenticated' | 'service_role', wish: ChangeWish, recordBytes: number) {
    const { change, table } = this;
    const seen = this.mustAsk ? this.#seen.get(key) : true;
    if (seen === false || seen === undefined) return undefined;
    const name = seen === 'failed' ? 'failed' : `${role} ${wish.select?.join('\0') ?? '*'}`;
    const known = this.#datas.get(name);
    if (known !== undefined) return known;
    const error = seen === 'failed' ? POLICY_FAILED : this.#errorFor(role);
    const { select } = wish;
    const data = error ? failedData(change, table, error) : changeData(change, table, { role, select }, recordBytes);
    this.#datas.set(name, data);
    return data;
  }

  #errorFor(role: 'anon' | 'authenticated' | 'service_role'): string | undefined {
    if (this.change.type === 'DELETE') return undefined;
    if (this.table.primaryKey.length === 0) return NO_KEY;
    return this.table.primaryKey.every(({ readers }) => readers.has(role)) ? undefined : UNAUTHORIZED;
  }

  readonly #frames = new Map<string, Map<string, Frame>>();

  #frame({ version, topic }: Channel, ids: number[], data: string): Frame {
    const ofData = this.#frames.get(data) ?? new Map<string, Frame>();
    this.#frames.set(data, ofData);
    const name = `${version} ${ids.join()} ${topic}`;
    let frame = ofData.get(name);
    if (frame === undefined) {
      frame = pushFrame(version, topic, 'postgres_changes', `{"ids":[${ids.join()}],"data":${data}}`, null);
      ofData.set(name, frame);
    }
    return frame;
  }
}
