/**
 * Delivers a transaction's changes: selects the subscriptions that get each change, by filters and policies. In:
 * changes from the stream. Out: functions that send the changes, to be called once all checks are done.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Pool } from '../../../sql/pool.js';
import type { Channel } from '../channel.js';
import type { ChangeSpec } from '../protocol/join.js';
import { Delivery, type Subscription } from './delivery.js';
import { type Asking, meets } from './filter.js';
import { valuesOf } from './payload.js';
import { MAX_WAL_BYTES } from './replication-session.js';
import type { Change } from './stream.js';
import type { Table, Tables } from './tables.js';
import { areVisible, type Question, type Seen, seenBy } from './visibility.js';

/** Maximum number of cached descriptions of tables with changes. An evicted description is read again. */
const MOST_DESCRIPTIONS = 10_000;
/** Milliseconds from a commit in the log until other sessions see it. */
const VISIBLE_MS = 1;

export interface DeliveriesOptions {
  pool: Pool;
  tables: Tables;
  recordBytes: number;
  subscriptions: ReadonlyMap<Channel, readonly Subscription[]>;
  /** True if there is no subscriber. */
  isClosed(): boolean;
}

export class Deliveries {
  readonly #options: DeliveriesOptions;
  readonly #lastDescription = new Map<number, object>();

  constructor(options: DeliveriesOptions) {
    this.#options = options;
  }

  /** Returns the sends, in order. Nothing is sent before all checks are done, so that a retry sends nothing twice. */
  async prepare(changes: readonly Change[]): Promise<(() => void)[]> {
    const asking: Asking = { pool: this.#options.pool, answers: new Map() };
    const deliveries: Delivery[] = [];
    const sends: (() => void)[] = [];
    for (const change of changes) {
      const table = await this.#tableOf(change);
      if (table === undefined) continue;
      if (change.isOversized) {
        sends.push(() => this.#tellOversized(change, table));
        continue;
      }
      const wanting = await this.#wanting(change, table, asking);
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
   * Notifies subscribers of a change whose values were not read. Neither filters nor policies were evaluated, so the
   * notice has no data of the row.
   */
  #tellOversized(change: Change, table: Table): void {
    const text = `A change of ${table.schema}.${table.name} was larger than ${MAX_WAL_BYTES} bytes and was not sent`;
    for (const [channel, subscriptions] of this.#options.subscriptions) {
      if (subscriptions.some(({ spec }) => isOf(spec, change, table)))
        channel.system('postgres_changes', 'error', text);
    }
  }

  async #untilVisible(deliveries: readonly Delivery[]): Promise<void> {
    const xids = new Set(deliveries.flatMap(({ mustAsk, change }) => (mustAsk ? change.xid : [])));
    if (xids.size === 0) return;
    while (!this.#options.isClosed() && !(await areVisible(this.#options.pool, xids))) await pause(VISIBLE_MS);
  }

  /** Postgres describes a table again after it changed, so an earlier description is not used. */
  async #tableOf({ relation }: Change): Promise<Table | undefined> {
    if (this.#lastDescription.get(relation.oid) !== relation) {
      if (this.#lastDescription.size >= MOST_DESCRIPTIONS) this.#lastDescription.clear();
      this.#lastDescription.set(relation.oid, relation);
      this.#options.tables.forget();
    }
    return this.#options.tables.get(relation.oid);
  }

  async #wanting(change: Change, table: Table, asking: Asking): Promise<Subscription[]> {
    const values = valuesOf(change, change.type === 'DELETE' ? 'old' : 'record');
    // A filter of a deleted row uses only the columns that its subscriber gets.
    const shown =
      change.type === 'DELETE' && table.isRlsEnabled
        ? new Map(table.primaryKey.map((column) => [column.name, column]))
        : table.columns;
    const wanting: Subscription[] = [];
    for (const subscriptions of this.#options.subscriptions.values()) {
      for (const subscription of subscriptions) {
        const { spec, conditions, channel } = subscription;
        if (!isOf(spec, change, table) || channel.identity === undefined) continue;
        const role = channel.identity.role;
        if (conditions.some(({ column }) => !table.columns.get(column)?.readers.has(role))) continue;
        if (conditions.length > 0 && !(await meets(asking, conditions, values, shown))) continue;
        wanting.push(subscription);
      }
    }
    return wanting;
  }

  /** Runs one query for each table and identity, about all rows that concern it. */
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

const isOf = ({ event, schema, table }: ChangeSpec, change: Change, of: Table) =>
  (event === '*' || event === change.type) &&
  (schema === '*' || schema === of.schema) &&
  (table === '*' || table === of.name);
