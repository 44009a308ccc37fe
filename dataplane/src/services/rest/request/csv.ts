/**
 * Converts a CSV body to JSON: the first line names the columns, `NULL` is null, and other values are texts. In: the
 * bytes, of any size. Out: an array of objects, and the names.
 */
import { STEP_BYTES, type Steps } from '../../../bounds/turns.js';
import { invalidBody } from '../errors.js';
import { MOST_NAMES, NAME_BYTES, NAME_COST } from './bounds.js';
import { JsonWriter } from './json-writer.js';

/** Initial allocation, in bytes of JSON for each byte of CSV. */
const EXPECTED_GROWTH = 3;

const [QUOTE, COMMA, NEWLINE, RETURN] = [0x22, 0x2c, 0x0a, 0x0d];
const NULL = Buffer.from('NULL');

interface Field {
  start: number;
  end: number;
  isQuoted: boolean;
  /** True if the field ends its line. */
  isLast: boolean;
}

export function* csvBody(bytes: Buffer): Steps<{ json: Buffer; keys: string[] }> {
  const cursor: Cursor = { at: 0, pause: STEP_BYTES };
  const columns = yield* columnsOf(bytes, cursor);
  const writer = new JsonWriter(EXPECTED_GROWTH * bytes.length + NAME_COST);
  writer.raw('[');
  let rows = 0;
  for (; cursor.at < bytes.length; rows++) {
    writer.raw(rows > 0 ? ',' : '');
    for (let column = 0, isLast = false; !isLast; column++) {
      const field = yield* fieldAt(bytes, cursor);
      isLast = field.isLast;
      if (isLast !== (column === columns.length - 1)) throw invalidBody('All lines must have same number of fields');
      writer.raw(column > 0 ? ',' : '{');
      writer.raw((columns[column] as Column).member);
      yield* writeValue(writer, bytes, field);
    }
    writer.raw('}');
  }
  writer.raw(']');
  return { json: writer.written, keys: rows === 0 ? [] : [...new Set(columns.map(({ name }) => name))] };
}

interface Cursor {
  at: number;
  /** End of the present step. */
  pause: number;
}

interface Column {
  name: string;
  /** `"name":` before the value in each row. */
  member: Buffer;
}

function* columnsOf(bytes: Buffer, cursor: Cursor): Steps<Column[]> {
  const columns: Column[] = [];
  for (let isLast = bytes.length === 0; !isLast; ) {
    const field = yield* fieldAt(bytes, cursor);
    const { start, end, isQuoted } = field;
    isLast = field.isLast;
    if (end - start > NAME_BYTES) throw invalidBody(`A column has a name of more than ${NAME_BYTES} bytes`);
    if (columns.length === MOST_NAMES) throw invalidBody(`The CSV has more than ${MOST_NAMES} columns`);
    const text = bytes.toString('utf8', start, end);
    const name = isQuoted ? text.replaceAll('""', '"') : text;
    columns.push({ name, member: Buffer.from(`${JSON.stringify(name)}:`) });
  }
  return columns;
}

function* writeValue(writer: JsonWriter, bytes: Buffer, { start, end, isQuoted }: Field): Steps<void> {
  if (end - start === NULL.length && NULL.equals(bytes.subarray(start, end))) return writer.raw('null');
  writer.raw('"');
  for (let at = start; ; ) {
    at = writer.escaped(bytes, at, end, isQuoted);
    if (at >= end) return writer.raw('"');
    yield;
  }
}

function* fieldAt(bytes: Buffer, cursor: Cursor): Steps<Field> {
  const isQuoted = bytes[cursor.at] === QUOTE;
  const start = cursor.at + (isQuoted ? 1 : 0);
  let end = start;
  for (;;) {
    if (end >= cursor.pause) {
      yield;
      cursor.pause = end + STEP_BYTES;
    }
    const byte = bytes[end];
    if (isQuoted && byte === QUOTE && bytes[end + 1] === QUOTE) end += 2;
    else if (byte === undefined || (isQuoted ? byte === QUOTE : endsPlain(byte))) break;
    else end++;
  }
  const after = isQuoted ? end + 1 : end;
  const separator = bytes[after];
  const isWrong = separator !== undefined && (separator === QUOTE || !endsPlain(separator));
  if (isWrong || (isQuoted && end >= bytes.length))
    throw invalidBody(`Invalid CSV at byte ${Math.min(after, end) + 1}`);
  const isPair = separator === RETURN && bytes[after + 1] === NEWLINE;
  cursor.at = after + (separator === undefined ? 0 : isPair ? 2 : 1);
  cursor.pause -= NAME_COST;
  return { start, end, isQuoted, isLast: separator !== COMMA };
}

const endsPlain = (byte: number) => byte === QUOTE || byte === COMMA || byte === NEWLINE || byte === RETURN;
