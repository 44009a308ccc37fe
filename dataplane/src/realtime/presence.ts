/** Who is present on one topic: what each channel tracks, under its key. Out: states and differences as Phoenix words them. */
import { randomBytes } from 'node:crypto';

type Meta = Record<string, unknown> & { phx_ref: string };
export type Presences = Record<string, { metas: Meta[] }>;

export interface Difference {
  joins: Presences;
  leaves: Presences;
}

interface Tracked {
  key: string;
  meta: Meta;
}

export class Presence<Member extends object> {
  readonly #tracked = new Map<Member, Tracked>();

  get isEmpty(): boolean {
    return this.#tracked.size === 0;
  }

  state(): Presences {
    const state: Record<string, { metas: Meta[] }> = Object.create(null);
    for (const { key, meta } of this.#tracked.values()) {
      state[key] ??= { metas: [] };
      state[key].metas.push(meta);
    }
    return state;
  }

  /**
   * What was tracked before leaves first, in a difference of its own: realtime-js forgets the references of those that are there while
   * it tells of a join, and would keep the old one beside the new.
   */
  track(member: Member, key: string, payload: object): Difference[] {
    const before = this.#tracked.get(member);
    const phx_ref = randomBytes(9).toString('base64url');
    const previous = before ? { phx_ref_prev: before.meta.phx_ref } : {};
    const tracked: Tracked = { key, meta: { ...payload, phx_ref, ...previous } };
    this.#tracked.set(member, tracked);
    const join = { joins: one(tracked), leaves: {} };
    return before ? [{ joins: {}, leaves: one(before) }, join] : [join];
  }

  /** Undefined: it was not there. */
  untrack(member: Member): Difference | undefined {
    const before = this.#tracked.get(member);
    if (before === undefined) return undefined;
    this.#tracked.delete(member);
    return { joins: {}, leaves: one(before) };
  }
}

const one = ({ key, meta }: Tracked): Presences => Object.fromEntries([[key, { metas: [meta] }]]);
