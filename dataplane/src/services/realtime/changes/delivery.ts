/**
 * One change and its subscribers. In: the columns of the change's row that each identity may see. Out: WebSocket
 * frames.
 */
import type { Channel } from '../channel.js';
import type { Frame } from '../protocol/frame.js';
import type { ChangeSpec } from '../protocol/join.js';
import { pushFrame } from '../protocol/messages.js';
import type { Condition } from './filter.js';
import { changeData, failedData, valuesOf } from './payload.js';
import type { Change } from './stream.js';
import type { Table } from './tables.js';

const NO_KEY = 'Error 400: Bad Request, no primary key';
const UNAUTHORIZED = 'Error 401: Unauthorized';
const POLICY_FAILED = 'Error 500: Internal Server Error, RLS policy evaluation failed';

export interface Subscription {
  channel: Channel;
  spec: ChangeSpec;
  conditions: readonly Condition[];
}

export class Delivery {
  readonly #seen = new Map<string, boolean | 'failed'>();
  readonly identities: ReadonlyMap<string, NonNullable<Channel['identity']>>;
  /**
   * Returns subscriptions whose channel still has the identity of the query. A token may change during a query, whose
   * result is then discarded.
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
    for (const { channel, spec, key, role } of this.#wanting) {
      if (channel.identity?.key !== key) continue;
      const data = this.#dataFor(key, role, spec, recordBytes);
      if (data === undefined) continue;
      const ofChannel = ids.get(channel) ?? new Map<string, number[]>();
      ids.set(channel, ofChannel);
      ofChannel.set(data, [...(ofChannel.get(data) ?? []), spec.id]);
    }
    for (const [channel, datas] of ids) for (const [data, of] of datas) channel.send(this.#frame(channel, of, data));
  }

  readonly #datas = new Map<string, string>();

  /** Returns undefined if the identity must not see the change. */
  #dataFor(key: string, role: 'anon' | 'authenticated' | 'service_role', spec: ChangeSpec, recordBytes: number) {
    const { change, table } = this;
    const seen = this.mustAsk ? this.#seen.get(key) : true;
    if (seen === false || seen === undefined) return undefined;
    const name = seen === 'failed' ? 'failed' : `${role} ${spec.select?.join('\0') ?? '*'}`;
    const known = this.#datas.get(name);
    if (known !== undefined) return known;
    const error = seen === 'failed' ? POLICY_FAILED : this.#errorFor(role);
    const { select } = spec;
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
      frame = pushFrame(version, { topic, event: 'postgres_changes' }, `{"ids":[${ids.join()}],"data":${data}}`);
      ofData.set(name, frame);
    }
    return frame;
  }
}
