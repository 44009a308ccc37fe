/**
 * Describes a JSON body without decoding it: whether it is valid, its form, and the names of its rows' members. In: the
 * bytes, of any size. Out: the facts on which a statement depends. Values are left to Postgres.
 */
import { parseJson } from '@slipway/program';
import { STEP_BYTES, type Steps } from '../../../bounds/turns.js';
import { invalidBody } from '../errors.js';
import { MOST_NAMES, NAME_COST } from './bounds.js';

export interface JsonDescription {
  form: 'object' | 'array' | 'other';
  /** Names of the object, or of the array's first object. */
  keys: string[];
  /** True for an object, or an array of objects that all have these names. */
  isUniform: boolean;
}

/**
 * Maximum levels of nesting, as for messages of realtime. Postgres parses some thousand levels, up to its stack limit.
 */
const MAX_DEPTH = 512;

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];

/** @throws RestError if it is not JSON, or too deep */
export function* describeJson(bytes: Buffer): Steps<JsonDescription> {
  const structure = new Structure(bytes);
  let pause = STEP_BYTES;
  for (let at = 0; at < bytes.length; ) {
    if (at >= pause) {
      yield;
      pause = at + STEP_BYTES;
    }
    const byte = bytes[at] as number;
    if (byte === QUOTE) {
      let end = endOfString(bytes, at + 1, pause);
      while (end < INVALID) {
        yield;
        const from = pausedAt(end);
        pause = from + STEP_BYTES;
        end = endOfString(bytes, from, pause);
      }
      if (end === INVALID) throw invalidBody();
      pause -= structure.string(at + 1, end);
      at = end + 1;
    } else if (isPunctuation(byte)) {
      structure.punctuation(byte);
      at++;
    } else if (isSpace(byte)) {
      at++;
    } else {
      const end = endOfScalar(bytes, at);
      if (end === INVALID) throw invalidBody();
      structure.scalar();
      at = end;
    }
  }
  return structure.description();
}

const isSpace = (byte: number) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;

const isPunctuation = (byte: number) =>
  byte === COMMA ||
  byte === COLON ||
  byte === OPEN_OBJECT ||
  byte === CLOSE_OBJECT ||
  byte === OPEN_ARRAY ||
  byte === CLOSE_ARRAY;

/** States of the parser: the tokens that may come next. */
const [VALUE, FIRST_VALUE, KEY, FIRST_KEY, AFTER_KEY, AFTER_VALUE, END] = [0, 1, 2, 3, 4, 5, 6];

/** The grammar of JSON, token by token. */
class Structure {
  #next = VALUE;
  #depth = 0;
  readonly #isObject: boolean[] = [];
  #form: JsonDescription['form'] = 'other';
  /** Depth of the objects whose names count: the body itself, or the rows of an array. */
  #rowDepth = 0;
  readonly #names: Names;

  constructor(bytes: Buffer) {
    this.#names = new Names(bytes);
  }

  description(): JsonDescription {
    if (this.#next !== END) throw invalidBody();
    const form = this.#form;
    const { keys, isUniform } = this.#names;
    return { form, keys, isUniform: form !== 'other' && isUniform };
  }

  /** Returns the cost of the string, in bytes of a step. */
  string(start: number, end: number): number {
    if (this.#next !== KEY && this.#next !== FIRST_KEY) {
      this.scalar();
      return 0;
    }
    this.#next = AFTER_KEY;
    return this.#depth === this.#rowDepth ? this.#names.add(start, end) : 0;
  }

  /** Any value other than an array or object. */
  scalar(): void {
    this.#begin(false);
    this.#finish();
  }

  punctuation(byte: number): void {
    switch (byte) {
      case COMMA:
        if (this.#next !== AFTER_VALUE) throw invalidBody();
        this.#next = this.#isObject[this.#depth] ? KEY : VALUE;
        return;
      case COLON:
        if (this.#next !== AFTER_KEY) throw invalidBody();
        this.#next = VALUE;
        return;
      case OPEN_OBJECT:
      case OPEN_ARRAY:
        return this.#open(byte === OPEN_OBJECT);
      default:
        return this.#close(byte === CLOSE_OBJECT);
    }
  }

  #open(isObject: boolean): void {
    this.#begin(isObject);
    if (this.#depth === MAX_DEPTH)
      throw invalidBody(`The body has arrays or objects more than ${MAX_DEPTH} levels deep`);
    if (this.#depth === 0) {
      this.#form = isObject ? 'object' : 'array';
      this.#rowDepth = isObject ? 1 : 2;
    }
    this.#isObject[++this.#depth] = isObject;
    this.#next = isObject ? FIRST_KEY : FIRST_VALUE;
    if (isObject && this.#depth === this.#rowDepth) this.#names.beginRow();
  }

  #close(isObject: boolean): void {
    const isEmpty = this.#next === (isObject ? FIRST_KEY : FIRST_VALUE);
    if (!isEmpty && (this.#next !== AFTER_VALUE || this.#isObject[this.#depth] !== isObject)) throw invalidBody();
    if (isObject && this.#depth === this.#rowDepth) this.#names.endRow();
    this.#depth--;
    this.#finish();
  }

  #begin(isObject: boolean): void {
    if (this.#next !== VALUE && this.#next !== FIRST_VALUE) throw invalidBody();
    if (!isObject && this.#depth === 1 && this.#rowDepth === 2) this.#names.noRow();
  }

  #finish(): void {
    this.#next = this.#depth === 0 ? END : AFTER_VALUE;
  }
}

/** Maximum bytes of a name: Postgres' 63 bytes, each escaped. A longer name is truncated. */
const ESCAPED_NAME_BYTES = 512;

/** Names of the first row, and whether all other rows have the same names. */
class Names {
  readonly keys: string[] = [];
  isUniform = true;
  readonly #known = new Set<string>();
  /** Positions of the first row's names: most rows repeat them in the same order. */
  readonly #places: number[] = [];
  #rows = 0;
  #position = 0;
  /** Distinct names of the row, if their order differs from the first row's. */
  #seen: Set<string> | undefined;
  #areTooMany = false;

  constructor(private readonly bytes: Buffer) {}

  /** True for an array with elements other than objects. */
  noRow(): void {
    this.isUniform = false;
  }

  beginRow(): void {
    this.#rows++;
    this.#position = 0;
    this.#seen = undefined;
  }

  add(start: number, end: number): number {
    // Names beyond the limit are dropped: the statement fails anyway, because no table has as many columns.
    if (!this.isUniform || this.#areTooMany) return 0;
    if (this.#rows === 1) this.#learn(start, end);
    else if (this.#seen === undefined && this.#isNext(start, end)) {
      this.#position++;
      return 0;
    } else {
      this.#seen ??= new Set(this.keys.slice(0, this.#position));
      const name = this.#nameOf(start, end);
      if (this.#known.has(name)) this.#seen.add(name);
      else this.isUniform = false;
    }
    return NAME_COST;
  }

  endRow(): void {
    if (this.#rows === 1 || this.#areTooMany) return;
    if ((this.#seen?.size ?? this.#position) !== this.keys.length) this.isUniform = false;
  }

  #learn(start: number, end: number): void {
    const name = this.#nameOf(start, end);
    if (this.#known.has(name)) return;
    this.#areTooMany = this.keys.length === MOST_NAMES;
    if (this.#areTooMany) return;
    this.#known.add(name);
    this.keys.push(name);
    this.#places.push(start, end);
  }

  /** True if the name has the same bytes as the first row's at this position. */
  #isNext(start: number, end: number): boolean {
    const from = this.#places[2 * this.#position];
    if (from === undefined || (this.#places[2 * this.#position + 1] as number) - from !== end - start) return false;
    for (let i = 0; i < end - start; i++) if (this.bytes[from + i] !== this.bytes[start + i]) return false;
    return true;
  }

  #nameOf(start: number, end: number): string {
    const cut = Math.min(end, start + ESCAPED_NAME_BYTES);
    const text = this.bytes.toString('utf8', start, cut);
    return cut < end || !text.includes('\\') ? text : (parseJson(`"${text}"`) as string);
  }
}

const INVALID = -1;
/** Negative results other than INVALID are the position from which the next step continues in the string. */
const paused = (at: number) => -2 - at;
const pausedAt = (end: number) => -2 - end;

const [PLAIN, ENDS, ESCAPES, FORBIDDEN] = [0, 1, 2, 3];
const STRING_BYTES = Uint8Array.from({ length: 256 }, (_, byte) =>
  byte === QUOTE ? ENDS : byte === BACKSLASH ? ESCAPES : byte < 0x20 ? FORBIDDEN : PLAIN,
);

/** Returns the position of the string's closing quote, INVALID, or `paused`. */
function endOfString(bytes: Buffer, from: number, pause: number): number {
  const until = Math.min(pause, bytes.length);
  for (let at = from; ; ) {
    if (at >= until) return at >= bytes.length ? INVALID : paused(at);
    const kind = STRING_BYTES[bytes[at] as number];
    if (kind === PLAIN) at++;
    else if (kind === ENDS) return at;
    else {
      const length = kind === ESCAPES ? escapeLength(bytes, at) : 0;
      if (length === 0) return INVALID;
      at += length;
    }
  }
}

const ESCAPED = new Set(Buffer.from('"\\/bfnrt'));
const [U, HEX_DIGITS] = [0x75, 4];

/** Zero for an invalid escape. */
function escapeLength(bytes: Buffer, at: number): number {
  const kind = bytes[at + 1] ?? 0;
  if (kind !== U) return ESCAPED.has(kind) ? 2 : 0;
  const end = at + 2 + HEX_DIGITS;
  if (end > bytes.length) return 0;
  for (let i = at + 2; i < end; i++) if (!isHexDigit(bytes[i] as number)) return 0;
  return end - at;
}

const isDigit = (byte: number | undefined) => byte !== undefined && byte >= 0x30 && byte <= 0x39;
const isHexDigit = (byte: number) => isDigit(byte) || (byte >= 0x41 && byte <= 0x46) || (byte >= 0x61 && byte <= 0x66);

const LITERALS = ['true', 'false', 'null'].map((text) => Buffer.from(text));

/** Returns the end of a number or literal. */
function endOfScalar(bytes: Buffer, at: number): number {
  if ((bytes[at] as number) <= NINE) return endOfNumber(bytes, at);
  const literal = LITERALS.find((each) => each[0] === bytes[at]);
  if (!literal) return INVALID;
  const end = at + literal.length;
  return end <= bytes.length && literal.equals(bytes.subarray(at, end)) ? end : INVALID;
}

const [MINUS, PLUS, DOT, ZERO, NINE, LOWER_E, UPPER_E] = [0x2d, 0x2b, 0x2e, 0x30, 0x39, 0x65, 0x45];
/** Maximum digits of a number: Postgres' numeric has at most 147,456. */
const MOST_DIGITS = 150_000;

function endOfNumber(bytes: Buffer, from: number): number {
  let at = bytes[from] === MINUS ? from + 1 : from;
  at = bytes[at] === ZERO ? at + 1 : endOfDigits(bytes, at);
  if (at !== INVALID && bytes[at] === DOT) at = endOfDigits(bytes, at + 1);
  if (at !== INVALID && (bytes[at] === LOWER_E || bytes[at] === UPPER_E)) {
    const isSigned = bytes[at + 1] === PLUS || bytes[at + 1] === MINUS;
    at = endOfDigits(bytes, isSigned ? at + 2 : at + 1);
  }
  return at;
}

/** Returns the end of at least one digit. */
function endOfDigits(bytes: Buffer, from: number): number {
  let at = from;
  while (isDigit(bytes[at]) && at - from <= MOST_DIGITS) at++;
  return at === from || at - from > MOST_DIGITS ? INVALID : at;
}
