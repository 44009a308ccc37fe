/**
 * Splits the messages of a Postgres server. In: bytes of the socket. Out: complete messages, as (type, body). Values of
 * a row are views of those bytes, so that JSON built by Postgres reaches an HTTP response without being copied or
 * parsed.
 */
import { DatabaseError } from './errors.js';

const HEADER_BYTES = 5;
/**
 * Maximum bytes of a message. Postgres can't build a message of more than a gigabyte, so a larger length means that the
 * stream is corrupt.
 */
const MAX_MESSAGE_BYTES = 1 << 30;

/**
 * Minimum bytes of a message that gets a buffer of its own before all of it has arrived. To concatenate 60 MiB at the
 * end took about 50 ms of processor time.
 */
const LARGE_BYTES = 256 * 1024;

export class MessageReader {
  private chunks: Buffer[] = [];
  private buffered = 0;
  private needed = HEADER_BYTES;
  /** True if the header of the present message was passed to `onHeader`. */
  private isAnnounced = false;
  /** Bytes to keep of the present message, header included, if not all of it is kept. */
  private keptBytes: number | undefined;
  /** Remaining bytes of the present message, which are dropped. */
  private skipping = 0;
  /** The present message if it is large, and the number of its bytes that have arrived. */
  private large: Buffer | undefined;
  private arrived = 0;

  /**
   * `onHeader` is called once for each message with the length of its body, before its bytes are buffered. It throws to
   * end the stream. If it returns a number, only so many bytes of the body are kept and passed on, and the others are
   * dropped as they arrive.
   */
  constructor(
    private readonly onMessage: (type: number, body: Buffer) => void,
    private readonly onHeader: (type: number, length: number) => number | undefined,
  ) {}

  push(received: Buffer): void {
    const chunk = this.skipped(this.large ? this.filled(this.large, received) : received);
    if (chunk.length === 0) return;
    this.chunks.push(chunk);
    this.buffered += chunk.length;
    if (this.buffered < this.needed) return;
    let rest = this.chunks.length === 1 ? chunk : Buffer.concat(this.chunks, this.buffered);
    while (rest.length >= HEADER_BYTES) {
      const length = rest.readUInt32BE(1) + 1;
      if (length > MAX_MESSAGE_BYTES || length < HEADER_BYTES)
        throw new RangeError('a message of an impossible length');
      const kept = this.isAnnounced ? undefined : this.onHeader(rest[0] as number, length - HEADER_BYTES);
      this.isAnnounced = true;
      if (kept !== undefined) this.keptBytes = HEADER_BYTES + kept;
      const needed = this.keptBytes ?? length;
      if (rest.length < needed) break;
      this.deliver(rest.subarray(0, needed));
      this.skipping = Math.max(0, length - rest.length);
      rest = rest.subarray(length);
    }
    this.needed = rest.length >= HEADER_BYTES ? (this.keptBytes ?? rest.readUInt32BE(1) + 1) : HEADER_BYTES;
    const isLarge = this.needed >= LARGE_BYTES;
    if (isLarge) {
      this.large = Buffer.allocUnsafeSlow(this.needed);
      this.arrived = rest.copy(this.large);
    }
    this.chunks = rest.length > 0 && !isLarge ? [rest] : [];
    this.buffered = isLarge ? 0 : rest.length;
  }

  private deliver(message: Buffer): void {
    this.isAnnounced = false;
    this.keptBytes = undefined;
    this.onMessage(message[0] as number, message.subarray(HEADER_BYTES));
  }

  /** Returns the bytes after those that are dropped. */
  private skipped(chunk: Buffer): Buffer {
    const bytes = Math.min(this.skipping, chunk.length);
    this.skipping -= bytes;
    return chunk.subarray(bytes);
  }

  /** Copies bytes of the large message as they arrive, and returns those after it. */
  private filled(message: Buffer, chunk: Buffer): Buffer {
    const copied = chunk.copy(message, this.arrived);
    this.arrived += copied;
    if (this.arrived === message.length) {
      this.large = undefined;
      this.needed = HEADER_BYTES;
      this.skipping = message.readUInt32BE(1) + 1 - message.length;
      this.deliver(message);
    }
    return chunk.subarray(copied);
  }
}

export type Row = (Buffer | null)[];

export interface Field {
  name: string;
  type: number;
}

export function decodeRow(body: Buffer): Row {
  const count = body.readUInt16BE(0);
  const row: Row = new Array(count);
  let at = 2;
  for (let i = 0; i < count; i++) {
    const length = body.readInt32BE(at);
    at += 4;
    if (length < 0) row[i] = null;
    else {
      row[i] = body.subarray(at, at + length);
      at += length;
    }
  }
  return row;
}

export function decodeFields(body: Buffer): Field[] {
  const fields: Field[] = [];
  let at = 2;
  for (let left = body.readUInt16BE(0); left > 0; left--) {
    const end = body.indexOf(0, at);
    fields.push({ name: body.toString('utf8', at, end), type: body.readUInt32BE(end + 7) });
    at = end + 19;
  }
  return fields;
}

/** Returns the text of a message that contains one C string: a command tag. */
export const decodeText = (body: Buffer): string => body.toString('utf8', 0, body.length - 1);

export function decodeNotification(body: Buffer): { channel: string; payload: string } {
  const end = body.indexOf(0, 4);
  return { channel: body.toString('utf8', 4, end), payload: body.toString('utf8', end + 1, body.length - 1) };
}

const ERROR_FIELDS: Record<string, keyof DatabaseError['fields']> = {
  V: 'severity',
  D: 'detail',
  H: 'hint',
  P: 'position',
  W: 'where',
  s: 'schema',
  t: 'table',
  c: 'column',
  n: 'constraint',
  d: 'dataType',
};

export function decodeError(body: Buffer): DatabaseError {
  const fields: DatabaseError['fields'] = {};
  let message = '';
  let code = 'XX000';
  for (let at = 0; at < body.length && body[at] !== 0; ) {
    const key = String.fromCharCode(body[at] as number);
    const end = body.indexOf(0, at + 1);
    const value = body.toString('utf8', at + 1, end);
    if (key === 'M') message = value;
    else if (key === 'C') code = value;
    else if (ERROR_FIELDS[key]) fields[ERROR_FIELDS[key]] = value;
    at = end + 1;
  }
  return new DatabaseError(message, code, fields);
}
