/**
 * Decodes JSON that is too large for one turn of the event loop, with the result of JSON.parse. In: bytes, and a bound.
 * Out: the value. Whole members of a list or object are decoded together, as many as a step has time for. A larger
 * member is entered.
 */
import { runInTurns, type Steps } from './in-turns.js';
import { heapBytesOf, type JsonBound, JsonRefusal, parseJson } from './json.js';

/** Maximum bytes and values of one step, which takes a millisecond or two. */
const STEP = { bytes: 64 * 1024, values: 2_000 };

/** @throws JsonRefusal if the text exceeds the bound, or is no JSON */
export async function parseJsonInTurns(bytes: Buffer, bound: JsonBound): Promise<unknown> {
  if (bytes.length <= STEP.bytes / 4) return parseJson(bytes, bound);
  return runInTurns(jsonSteps(bytes, bound));
}

/** Yields after each step. `onCount` is as for `parseJson`, and called once the text is decoded. */
export function* jsonSteps(
  bytes: Buffer,
  bound: JsonBound,
  onCount?: (values: number, heapBytes: number) => void,
): Steps<unknown> {
  if (bytes.length > bound.bytes) throw new JsonRefusal('bytes', bound);
  const reader = new Reader(bytes, bound);
  yield* reader.skipSpaces();
  const value = yield* reader.value(1);
  yield* reader.skipSpaces();
  reader.expectEnd();
  onCount?.(reader.values, heapBytesOf(bytes, reader.values));
  return value;
}

const [QUOTE, BACKSLASH, COMMA, COLON, LOWER_U] = [0x22, 0x5c, 0x2c, 0x3a, 0x75];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

const isSpace = (byte: number | undefined) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
const isEndOfScalar = (byte: number | undefined) =>
  byte === undefined || byte === COMMA || byte === CLOSE_ARRAY || byte === CLOSE_OBJECT || isSpace(byte);

type Container = { open: '[' | '{'; close: ']' | '}'; closeByte: number; add(part: object): number };

class Reader {
  #at = 0;
  #values = 1;

  constructor(
    private readonly bytes: Buffer,
    private readonly bound: JsonBound,
  ) {}

  get values(): number {
    return this.#values;
  }

  expectEnd(): void {
    if (this.#at < this.bytes.length) throw this.#invalid();
  }

  *skipSpaces(): Steps<void> {
    for (let pause = this.#at + STEP.bytes; isSpace(this.bytes[this.#at]); this.#at++) {
      if (this.#at < pause) continue;
      yield;
      pause = this.#at + STEP.bytes;
    }
  }

  /** `depth` of the value itself, if it is a list or object. */
  *value(depth: number): Steps<unknown> {
    const first = this.bytes[this.#at];
    if (first === QUOTE) return yield* this.#text();
    if (first === OPEN_ARRAY) return yield* this.#array(depth);
    if (first === OPEN_OBJECT) return yield* this.#object(depth);
    return this.#scalar();
  }

  *#array(depth: number): Steps<unknown[]> {
    const items: unknown[] = [];
    const add = (part: object) => {
      for (const item of part as unknown[]) items.push(item);
      return (part as unknown[]).length;
    };
    const list: Container = { open: '[', close: ']', closeByte: CLOSE_ARRAY, add };
    const reader = this;
    yield* this.#members(depth, list, function* () {
      items.push(yield* reader.value(depth + 1));
    });
    return items;
  }

  *#object(depth: number): Steps<Record<string, unknown>> {
    const object: Record<string, unknown> = {};
    const add = (part: object) => {
      const members = Object.entries(part);
      for (const [name, value] of members) define(object, name, value);
      return members.length;
    };
    const reader = this;
    yield* this.#members(depth, { open: '{', close: '}', closeByte: CLOSE_OBJECT, add }, function* () {
      if (reader.bytes[reader.#at] !== QUOTE) throw reader.#invalid();
      const name = yield* reader.#text();
      yield* reader.skipSpaces();
      if (reader.bytes[reader.#at++] !== COLON) throw reader.#invalid();
      reader.#count(1);
      yield* reader.skipSpaces();
      define(object, name, yield* reader.value(depth + 1));
    });
    return object;
  }

  /** Reads all members up to the closing bracket. `large` reads one that is too large for a step. */
  *#members(depth: number, container: Container, large: () => Steps<void>): Steps<void> {
    this.#at++;
    this.#count(1);
    if (depth > this.bound.depth) throw new JsonRefusal('depth', this.bound);
    yield* this.skipSpaces();
    for (let isEmpty = true; ; isEmpty = false) {
      const run = this.#run(depth);
      if (run) {
        const added = container.add(this.#decoded(container, run.end));
        this.#at = run.end + 1;
        if (added === 0 && !(isEmpty && run.isLast)) throw this.#invalid();
        if (run.isLast && this.bytes[run.end] !== container.closeByte) throw this.#invalid();
        if (run.isLast) return;
      } else {
        yield;
        yield* large();
        yield* this.skipSpaces();
        const next = this.bytes[this.#at++];
        if (next === container.closeByte) return;
        if (next !== COMMA) throw this.#invalid();
        this.#count(1);
      }
      yield;
      yield* this.skipSpaces();
    }
  }

  /** Returns the end of the members of one step: a comma, or the closing bracket. */
  #run(depth: number): { end: number; isLast: boolean } | undefined {
    const { bytes } = this;
    const until = Math.min(this.#at + STEP.bytes, bytes.length);
    let nested = 0;
    let values = 0;
    let comma: { end: number; values: number } | undefined;
    for (let at = this.#at; at < until && values < STEP.values; at++) {
      const byte = bytes[at];
      if (byte === QUOTE) at = this.#endOfText(at + 1, until);
      else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
        values++;
        if (depth + ++nested > this.bound.depth) throw new JsonRefusal('depth', this.bound);
      } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) {
        if (nested-- === 0) {
          this.#count(values);
          return { end: at, isLast: true };
        }
      } else if (byte === COMMA || byte === COLON) {
        values++;
        if (byte === COMMA && nested === 0) comma = { end: at, values };
      }
    }
    if (!comma) return undefined;
    this.#count(comma.values);
    return { end: comma.end, isLast: false };
  }

  #decoded({ open, close }: Container, end: number): object {
    return this.#parsed(open + this.bytes.toString('utf8', this.#at, end) + close) as object;
  }

  *#text(): Steps<string> {
    const parts: string[] = [];
    for (let from = this.#at + 1; ; yield) {
      const end = this.#endOfText(from, from + STEP.bytes);
      if (end >= this.bytes.length) throw this.#invalid();
      const isLast = this.bytes[end] === QUOTE;
      const cut = isLast ? end : this.#beginOfCharacter(end);
      parts.push(this.#parsed(`"${this.bytes.toString('utf8', from, cut)}"`) as string);
      from = cut;
      if (!isLast) continue;
      this.#at = end + 1;
      return parts.join('');
    }
  }

  /** Returns the position of the text's closing quote, or of the first character or escape from `until` on. */
  #endOfText(from: number, until: number): number {
    const { bytes } = this;
    let at = from;
    while (at < until && at < bytes.length && bytes[at] !== QUOTE) {
      if (bytes[at] !== BACKSLASH) at++;
      else at += bytes[at + 1] === LOWER_U ? 6 : 2;
    }
    return at;
  }

  #beginOfCharacter(at: number): number {
    let begin = at;
    while (((this.bytes[begin] as number) & 0xc0) === 0x80) begin--;
    return begin;
  }

  /** Reads any other value. The digits of a very long number have no effect. */
  #scalar(): unknown {
    const begin = this.#at;
    while (!isEndOfScalar(this.bytes[this.#at])) {
      if (this.#at++ - begin > STEP.bytes) throw this.#invalid();
    }
    return this.#parsed(this.bytes.toString('latin1', begin, this.#at));
  }

  #parsed(text: string): unknown {
    try {
      return JSON.parse(text);
    } catch {
      throw this.#invalid();
    }
  }

  #count(values: number): void {
    this.#values += values;
    if (this.#values > this.bound.values) throw new JsonRefusal('values', this.bound);
  }

  #invalid(): JsonRefusal {
    return new JsonRefusal('syntax', this.bound);
  }
}

/** A member named __proto__ is an ordinary member. */
function define(object: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== '__proto__') object[name] = value;
  else Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
}
