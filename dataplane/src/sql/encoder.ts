/**
 * Encodes frontend messages of the extended query protocol into one buffer, so that a batch is one write.
 * https://www.postgresql.org/docs/current/protocol-message-formats.html
 */

/**
 * Parameter in Postgres' text format. A Buffer contains the bytes of that text, a Date becomes ISO 8601, other objects
 * JSON.
 */
export type Parameter = string | number | boolean | null | undefined | Buffer | Date | object;

const INITIAL_BYTES = 16 * 1024;
/** Maximum bytes of a buffer that is reused. A buffer that grew for a large request is not. */
const KEPT_BYTES = 256 * 1024;
const MAX_PARAMETERS = 65_535;

let buffer = Buffer.allocUnsafe(INITIAL_BYTES);
let offset = 0;

function reserve(bytes: number): void {
  if (offset + bytes <= buffer.length) return;
  const grown = Buffer.allocUnsafe(Math.max(buffer.length * 2, offset + bytes));
  buffer.copy(grown, 0, 0, offset);
  buffer = grown;
}

/** Writes one message: `type`, its length (filled in afterwards), and the output of `body`. */
function message(type: string, body?: () => void): void {
  reserve(5);
  buffer[offset] = type.charCodeAt(0);
  const start = offset + 1;
  offset += 5;
  body?.();
  buffer.writeInt32BE(offset - start, start);
}

function cstring(text: string): void {
  if (text.includes('\0')) throw new RangeError('a statement must not contain the character NUL');
  reserve(text.length * 3 + 1);
  offset += buffer.write(text, offset);
  buffer[offset++] = 0;
}

function int16(value: number): void {
  reserve(2);
  offset = buffer.writeUInt16BE(value, offset);
}

function parameter(value: Parameter): void {
  if (value === null || value === undefined) {
    reserve(4);
    offset = buffer.writeInt32BE(-1, offset);
  } else if (Buffer.isBuffer(value)) {
    reserve(value.length + 4);
    offset = buffer.writeInt32BE(value.length, offset);
    offset += value.copy(buffer, offset);
  } else {
    const text = textOf(value);
    reserve(text.length * 3 + 4);
    const length = buffer.write(text, offset + 4);
    offset = buffer.writeInt32BE(length, offset) + length;
  }
}

function textOf(value: string | number | boolean | Date | object): string {
  if (typeof value === 'string') return value;
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

export const encode = {
  parse: (name: string, text: string) =>
    message('P', () => {
      cstring(name);
      cstring(text);
      int16(0);
    }),
  /** Binds the unnamed portal, with parameters and results in text format. */
  bind: (name: string, values: readonly Parameter[]) =>
    message('B', () => {
      if (values.length > MAX_PARAMETERS)
        throw new RangeError(`a statement takes at most ${MAX_PARAMETERS} parameters`);
      cstring('');
      cstring(name);
      int16(0);
      int16(values.length);
      for (const value of values) parameter(value);
      int16(0);
    }),
  describePortal: () =>
    message('D', () => {
      cstring('P');
    }),
  execute: () =>
    message('E', () => {
      cstring('');
      int16(0);
      int16(0);
    }),
  closeStatement: (name: string) => message('C', () => cstring(`S${name}`)),
  sync: () => message('S'),
  terminate: () => message('X'),
};

/** Runs `write`, and returns all that it encoded in a separate buffer. */
export function encoded(write: () => void): Buffer {
  offset = 0;
  write();
  const bytes = buffer.subarray(0, offset);
  if (buffer.length <= KEPT_BYTES) return Buffer.from(bytes);
  // Not copied: the copy of a large request would take as long as its encoding.
  buffer = Buffer.allocUnsafe(INITIAL_BYTES);
  return bytes;
}
