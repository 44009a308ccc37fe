/**
 * Decodes JSON of another party, limited to the time of one turn of the event loop. In: bytes or text, and a bound.
 * Used for all text of tenants, callers and other servers; checks/src/json-parse.test.ts rejects JSON.parse of such
 * text.
 */

export interface JsonBound {
  /** Size of the text in UTF-8. */
  bytes: number;
  /** Nested arrays and objects. */
  depth: number;
  /** Values and names: each uses memory, an object of a new shape the most, and about a microsecond. */
  values: number;
}

/**
 * Limits of JSON that is decoded in one turn of the event loop. The costliest text takes about 10 ms of processor time,
 * and 15 ms on a busy machine: 6,600 objects of different shapes with names of 140 bytes. Values of three bytes, each
 * with an escape, cost as much.
 */
export const ONE_TURN: JsonBound = { bytes: 1024 * 1024, depth: 100, values: 20_000 };

export class JsonRefusal extends Error {
  /** Part of the bound that the text exceeds, or 'syntax'. */
  readonly reason: keyof JsonBound | 'syntax';

  /** The message never quotes the text, which may be a secret. */
  constructor(reason: JsonRefusal['reason'], bound: JsonBound) {
    super(reason === 'syntax' ? 'the text is not valid JSON' : messageOf(reason, bound));
    this.reason = reason;
  }
}

const messageOf = (reason: keyof JsonBound, bound: JsonBound): string =>
  ({
    bytes: `the JSON is larger than ${bound.bytes} bytes`,
    depth: `the JSON has arrays or objects more than ${bound.depth} levels deep`,
    values: `the JSON has more than ${bound.values} values and names`,
  })[reason];

/**
 * Maximum bytes of the heap for a value or name, in addition to its text. Measured were 95 bytes, for names that are
 * indexes.
 */
const VALUE_BYTES = 100;
export const heapBytesOf = (text: Buffer, values: number) => text.length + values * VALUE_BYTES;

/**
 * Decodes the text. `onCount` gets the number of values and names, and an upper bound of their heap, before anything is
 * decoded. It may throw.
 * @throws JsonRefusal before anything is decoded, if the text exceeds the bound
 */
export function parseJson(
  text: Buffer | string,
  bound: JsonBound = ONE_TURN,
  onCount?: (values: number, heapBytes: number) => void,
): unknown {
  const bytes = typeof text === 'string' ? bytesOf(text, bound) : text;
  if (bytes.length > bound.bytes) throw new JsonRefusal('bytes', bound);
  const values = countValues(bytes, bound);
  onCount?.(values, heapBytesOf(bytes, values));
  try {
    return JSON.parse(typeof text === 'string' ? text : text.toString());
  } catch {
    throw new JsonRefusal('syntax', bound);
  }
}

/** Members of V8's JSON that TypeScript does not know yet. */
const exactJson = JSON as unknown as {
  /** Returns an object that JSON.stringify writes as this text. */
  rawJSON(text: string): object;
  parse(text: string, read: (name: string, value: unknown, context: { source?: string }) => unknown): unknown;
};
/** Number of digits and dots from which a double may not represent a number. */
const LONG_NUMBER = 16;

/**
 * Decodes the text for JSON.stringify, which writes each number as it was: one that a double would alter, such as
 * 9007199254740993, becomes an object of JSON.rawJSON.
 * @throws JsonRefusal before anything is decoded, if the text exceeds the bound
 */
export function parseExactJson(text: string, bound: JsonBound = ONE_TURN): unknown {
  const bytes = bytesOf(text, bound);
  countValues(bytes, bound);
  try {
    if (!hasLongNumber(bytes)) return JSON.parse(text);
    return exactJson.parse(text, (_, value, { source }) =>
      typeof value === 'number' && source !== undefined && String(value) !== source ? exactJson.rawJSON(source) : value,
    );
  } catch {
    throw new JsonRefusal('syntax', bound);
  }
}

/** True if a double may not represent a number of the text, or digits within a string look like such a number. */
function hasLongNumber(bytes: Buffer): boolean {
  let length = 0;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at] as number;
    if ((byte >= ZERO && byte <= NINE) || (byte === DOT && length > 0)) {
      if (++length >= LONG_NUMBER) return true;
    } else {
      if (length > 0 && (byte === UPPER_E || byte === LOWER_E)) return true;
      length = 0;
    }
  }
  return false;
}

function bytesOf(text: string, bound: JsonBound): Buffer {
  // A text that is too long is not even converted to bytes.
  if (text.length > bound.bytes) throw new JsonRefusal('bytes', bound);
  const bytes = Buffer.from(text);
  if (bytes.length > bound.bytes) throw new JsonRefusal('bytes', bound);
  return bytes;
}

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const [ZERO, NINE, DOT, UPPER_E, LOWER_E] = [0x30, 0x39, 0x2e, 0x45, 0x65];
const [PLAIN, TEXT, SEPARATOR, OPEN, CLOSE] = [0, 1, 2, 3, 4];
const KINDS = new Uint8Array(256);
for (const [kind, bytes] of Object.entries({ [TEXT]: '"', [SEPARATOR]: ',:', [OPEN]: '[{', [CLOSE]: ']}' })) {
  for (const byte of Buffer.from(bytes)) KINDS[byte] = Number(kind);
}

/**
 * Returns the number of values and names without decoding, for limits on the sum of several texts. For invalid JSON the
 * number is undefined, and JSON.parse rejects the text.
 * @throws JsonRefusal if the depth or the values exceed the bound
 */
export function countValues(bytes: Buffer, bound: JsonBound = ONE_TURN): number {
  let depth = 0;
  let values = 1;
  for (let at = 0; at < bytes.length; at++) {
    const kind = KINDS[bytes[at] as number];
    // The branch of most bytes. Outside of this function, V8 sometimes compiled the loop to code four times as slow.
    if (kind === PLAIN) continue;
    if (kind === TEXT) at = endOfString(bytes, at + 1);
    else if (kind === CLOSE) depth--;
    else {
      values++;
      if (kind === OPEN && ++depth > bound.depth) throw new JsonRefusal('depth', bound);
      if (values > bound.values) throw new JsonRefusal('values', bound);
    }
  }
  return values;
}

/** Returns the position of a string's closing quote, or the end of the text. */
function endOfString(bytes: Buffer, from: number): number {
  let at = from;
  while (at < bytes.length && bytes[at] !== QUOTE) at += bytes[at] === BACKSLASH ? 2 : 1;
  return at;
}
