/** Parses and slices JSON from clients. */
import { type JsonBound, JsonRefusal, jsonSteps, parseJson as parseBounded } from '@slipway/program';
import type { Steps } from '../../../bounds/turns.js';

/** Limits of a message: levels as for REST bodies. The plan limits the bytes further. */
const MOST_OF_MESSAGE: JsonBound = { bytes: 4 * 1024 * 1024, depth: 512, values: 30_000 };

/**
 * Parses JSON. Returns undefined if it is invalid, or has too many levels or values to be forwarded. `onCount` gets an
 * upper bound of its heap.
 */
export function parseJson(bytes: Buffer, onCount?: (heapBytes: number) => void): unknown {
  try {
    return parseBounded(bytes, MOST_OF_MESSAGE, (_values, heapBytes) => onCount?.(heapBytes));
  } catch (error) {
    return undefinedFor(error);
  }
}

/** Parses JSON that is too large for one turn of the event loop. */
export function* parseJsonInSteps(bytes: Buffer, onCount?: (heapBytes: number) => void): Steps<unknown> {
  try {
    return yield* jsonSteps(bytes, MOST_OF_MESSAGE, (_values, heapBytes) => onCount?.(heapBytes));
  } catch (error) {
    return undefinedFor(error);
  }
}

function undefinedFor(error: unknown): undefined {
  if (!(error instanceof JsonRefusal)) throw error;
}

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = [0x5b, 0x5d, 0x7b, 0x7d];
/**
 * Table with 1 for each structural character of JSON. Bytes of numbers, literals and spaces have 0, and are skipped
 * with one look-up.
 */
const IS_PUNCTUATION = new Uint8Array(256);
for (const byte of Buffer.from('"[]{},:')) IS_PUNCTUATION[byte] = 1;

/**
 * Returns the text of a member of an object, or of an element by index, so that it can be forwarded without
 * serialization. Of several members of one name it is the last, as for JSON.parse. `json` must be valid.
 */
export function memberOf(json: Buffer, member: string | number): Buffer | undefined {
  let text: Buffer | undefined;
  eachMember(json, (index, name, begin, end) => {
    if (name ? isName(name, member) : index === member) text = json.subarray(begin, end);
  });
  return text;
}

/** Returns the texts of the elements of a non-empty array. */
export function elementsOf(json: Buffer): Buffer[] {
  const texts: Buffer[] = [];
  eachMember(json, (_index, _name, begin, end) => texts.push(json.subarray(begin, end)));
  return texts;
}

type OnMember = (index: number, name: Buffer | undefined, begin: number, end: number) => void;

/** Calls back for each member of an object or array; for an empty array once, with an empty text. */
function eachMember(json: Buffer, onMember: OnMember): void {
  let depth = 0;
  let index = 0;
  let begin = 0;
  let text: Buffer | undefined;
  let name: Buffer | undefined;
  for (let at = 0; at < json.length; at++) {
    const byte = json[at] as number;
    if (IS_PUNCTUATION[byte] === 0) continue;
    if (byte === QUOTE) {
      const end = endOfText(json, at + 1);
      if (depth === 1) text = json.subarray(at, end + 1);
      at = end;
    } else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      if (++depth === 1) begin = at + 1;
    } else if (byte === COMMA || byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) {
      if (depth === 1) {
        if (name || byte !== CLOSE_OBJECT) onMember(index++, name, begin, at);
        begin = at + 1;
        name = undefined;
      }
      if (byte !== COMMA) depth--;
    } else if (byte === COLON && depth === 1) {
      name = text;
      begin = at + 1;
    }
  }
}

function endOfText(json: Buffer, from: number): number {
  let at = from;
  while (json[at] !== QUOTE) at += json[at] === BACKSLASH ? 2 : 1;
  return at;
}

/** A character of a name has at most six bytes in JSON. */
const isName = (json: Buffer, name: string | number) =>
  typeof name === 'string' && json.length <= 6 * name.length + 2 && parseBounded(json) === name;
