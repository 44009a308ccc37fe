/**
 * The presences of one topic: what each channel tracks, under its key. Out: states and differences in Phoenix's form,
 * as JSON text. They are stored as text too: parsed, a payload may take ten times its size, and each client that joins
 * receives all of it.
 */
import { randomBytes } from 'node:crypto';

interface Tracked {
  key: string;
  ref: string;
  meta: string;
}

export class Presence<Member extends object> {
  readonly #tracked = new Map<Member, Tracked>();
  #length = 0;

  /** `most`: of keys and what is tracked under them together, in characters. */
  constructor(private readonly most: number) {}

  state(): string {
    return presences(this.#tracked.values());
  }

  /**
   * Undefined: it would be more than the topic keeps. What was tracked before leaves first, in a difference of its own:
   * realtime-js forgets the references of those that are there while it tells of a join, and would keep the old one
   * beside the new.
   */
  track(member: Member, key: string, payload: object): string[] | undefined {
    const before = this.#tracked.get(member);
    const ref = randomBytes(9).toString('base64url');
    const previous = before ? { phx_ref_prev: before.ref } : {};
    const tracked: Tracked = { key, ref, meta: JSON.stringify({ ...payload, phx_ref: ref, ...previous }) };
    const length = this.#length + lengthOf(tracked) - lengthOf(before);
    if (length > this.most) return undefined;
    this.#length = length;
    this.#tracked.set(member, tracked);
    return before ? [difference([], [before]), difference([tracked], [])] : [difference([tracked], [])];
  }

  /** Undefined: it was not there. */
  untrack(member: Member): string | undefined {
    const before = this.#tracked.get(member);
    if (before === undefined) return undefined;
    this.#length -= lengthOf(before);
    this.#tracked.delete(member);
    return difference([], [before]);
  }
}

const lengthOf = (tracked: Tracked | undefined) => (tracked ? tracked.key.length + tracked.meta.length : 0);

const difference = (joins: Tracked[], leaves: Tracked[]) =>
  `{"joins":${presences(joins)},"leaves":${presences(leaves)}}`;

function presences(all: Iterable<Tracked>): string {
  const metas = new Map<string, string[]>();
  for (const { key, meta } of all) {
    const ofKey = metas.get(key);
    if (ofKey) ofKey.push(meta);
    else metas.set(key, [meta]);
  }
  return `{${[...metas].map(([key, texts]) => `${JSON.stringify(key)}:{"metas":[${texts}]}`).join(',')}}`;
}
