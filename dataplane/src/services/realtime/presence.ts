/**
 * Presences of one topic: the payload that each channel tracks under its key. Out: states and differences in Phoenix's
 * format, as JSON text. Presences are stored as text too, because a parsed payload may take ten times its size, and
 * each client that joins receives all of them.
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

  /** `most` is the maximum number of characters of all keys and payloads. */
  constructor(private readonly most: number) {}

  state(): string {
    return presences(this.#tracked.values());
  }

  /**
   * Tracks a payload; `json` is an object. Returns undefined if the topic would exceed its limit. A former payload
   * leaves first, in a difference of its own: when a join is reported, realtime-js would keep the old payload beside
   * the new one.
   */
  track(member: Member, key: string, json: string): string[] | undefined {
    const before = this.#tracked.get(member);
    const ref = randomBytes(9).toString('base64url');
    const previous = before ? `,"phx_ref_prev":"${before.ref}"` : '';
    // Parsers use the last of several members of one name.
    const members = json.slice(json.indexOf('{') + 1, json.lastIndexOf('}')).trim();
    const meta = `{${members}${members === '' ? '' : ','}"phx_ref":"${ref}"${previous}}`;
    const tracked: Tracked = { key, ref, meta };
    const length = this.#length + lengthOf(tracked) - lengthOf(before);
    if (length > this.most) return undefined;
    this.#length = length;
    this.#tracked.set(member, tracked);
    return before ? [difference([], [before]), difference([tracked], [])] : [difference([tracked], [])];
  }

  /** Returns undefined if the channel tracked nothing. */
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
