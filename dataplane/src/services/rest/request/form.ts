/**
 * Converts a form (application/x-www-form-urlencoded) to JSON: one object of texts. In: the bytes, of any size. Out:
 * the JSON, and its names.
 */
import { STEP_BYTES, type Steps } from '../../../bounds/turns.js';
import { invalidBody } from '../errors.js';
import { MOST_NAMES, NAME_BYTES, NAME_COST } from './bounds.js';
import { JsonWriter } from './json-writer.js';

const [AMPERSAND, EQUALS, PLUS, PERCENT, SPACE] = [0x26, 0x3d, 0x2b, 0x25, 0x20];

/** Positions of names and values within the decoded bytes. The last value of a repeated name counts. */
interface Fields {
  decoded: Buffer;
  values: Map<string, { name: [number, number]; value: [number, number] }>;
}

export function* formBody(bytes: Buffer): Steps<{ json: Buffer; keys: string[] }> {
  const { decoded, values } = yield* fieldsOf(bytes);
  const writer = new JsonWriter(bytes.length + NAME_COST);
  writer.raw('{');
  let isFirst = true;
  for (const { name, value } of values.values()) {
    writer.raw(isFirst ? '"' : ',"');
    isFirst = false;
    yield* write(writer, decoded, name);
    writer.raw('":"');
    yield* write(writer, decoded, value);
    writer.raw('"');
  }
  writer.raw('}');
  return { json: writer.written, keys: [...values.keys()] };
}

function* write(writer: JsonWriter, text: Buffer, [start, end]: [number, number]): Steps<void> {
  for (let at = writer.escaped(text, start, end); at < end; at = writer.escaped(text, at, end)) yield;
}

function* fieldsOf(bytes: Buffer): Steps<Fields> {
  const decoded = Buffer.allocUnsafe(bytes.length);
  const values: Fields['values'] = new Map();
  let [length, start, nameEnd, pause] = [0, 0, -1, STEP_BYTES];
  for (let at = 0; at <= bytes.length; at++) {
    if (at >= pause) {
      yield;
      pause = at + STEP_BYTES;
    }
    const byte = at < bytes.length ? (bytes[at] as number) : AMPERSAND;
    if (byte === AMPERSAND) {
      const hasEquals = nameEnd >= 0;
      if (hasEquals || length > start)
        addField(values, decoded.subarray(0, length), start, hasEquals ? nameEnd : length);
      start = length;
      nameEnd = -1;
      pause -= NAME_COST;
    } else if (byte === EQUALS && nameEnd < 0) {
      nameEnd = length;
    } else {
      const escaped = byte === PERCENT ? escapedByte(bytes, at) : -1;
      if (escaped >= 0) at += 2;
      decoded[length++] = escaped >= 0 ? escaped : byte === PLUS ? SPACE : byte;
    }
  }
  return { decoded, values };
}

/** `decoded` ends with the field. */
function addField(values: Fields['values'], decoded: Buffer, start: number, nameEnd: number): void {
  if (nameEnd - start > NAME_BYTES) throw invalidBody(`A field has a name of more than ${NAME_BYTES} bytes`);
  values.set(decoded.toString('utf8', start, nameEnd), { name: [start, nameEnd], value: [nameEnd, decoded.length] });
  if (values.size > MOST_NAMES) throw invalidBody(`The form has more than ${MOST_NAMES} fields`);
}

/** Returns the byte of `%e9`; negative if these are not two hexadecimal digits. */
function escapedByte(bytes: Buffer, at: number): number {
  const [high, low] = [hexDigit(bytes[at + 1]), hexDigit(bytes[at + 2])];
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

function hexDigit(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}
