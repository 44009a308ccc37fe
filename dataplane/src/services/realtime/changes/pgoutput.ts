/**
 * Parses Postgres' logical replication messages, protocol version 1. In: the payload of XLogData. Out: the message.
 * https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
 */
export interface Relation {
  oid: number;
  schema: string;
  table: string;
  columns: readonly { name: string; type: number; isKey: boolean }[];
}

/** Text as Postgres writes it; undefined: not sent, because the value is unchanged and stored out of line. */
export type Tuple = readonly (string | null | undefined)[];

export type WalMessage =
  | { kind: 'begin'; finalLsn: bigint; committedAt: Date; xid: number }
  | { kind: 'commit'; commitLsn: bigint; endLsn: bigint }
  | { kind: 'relation'; relation: Relation }
  | { kind: 'insert'; oid: number; record: Tuple }
  | { kind: 'update'; oid: number; record: Tuple; old: OldTuple | undefined }
  | { kind: 'delete'; oid: number; old: OldTuple }
  /** A change that is too large to read, of which only the table is known. */
  | { kind: 'oversized'; type: 'INSERT' | 'UPDATE' | 'DELETE'; oid: number }
  | { kind: 'other' };

export interface OldTuple {
  /** Whether the old row has only the columns of the replica identity, or all. */
  isKey: boolean;
  values: Tuple;
}

const POSTGRES_EPOCH_MS = 946_684_800_000;

export function decodeWal(body: Buffer): WalMessage {
  const reader = new Reader(body, 1);
  switch (String.fromCharCode(body[0] as number)) {
    case 'B':
      return { kind: 'begin', finalLsn: reader.int64(), committedAt: reader.time(), xid: reader.int32() };
    case 'C':
      reader.skip(1);
      return { kind: 'commit', commitLsn: reader.int64(), endLsn: reader.int64() };
    case 'R':
      return { kind: 'relation', relation: reader.relation() };
    case 'I': {
      const oid = reader.int32();
      reader.skip(1);
      return { kind: 'insert', oid, record: reader.tuple() };
    }
    case 'U': {
      const oid = reader.int32();
      const old = reader.peek() === 'N' ? undefined : reader.old();
      reader.skip(1);
      return { kind: 'update', oid, record: reader.tuple(), old };
    }
    case 'D':
      return { kind: 'delete', oid: reader.int32(), old: reader.old() };
    default:
      return { kind: 'other' };
  }
}

/** Bytes before the row of a change: the message's letter and the table's oid. */
export const CHANGE_HEADER_BYTES = 5;
const CHANGES = { I: 'INSERT', U: 'UPDATE', D: 'DELETE' } as const;

/**
 * Parses the beginning of an oversized message. Throws if it is no change of a row, because no other message is so
 * large.
 */
export function decodeOversized(head: Buffer): WalMessage {
  const type = CHANGES[String.fromCharCode(head[0] as number) as keyof typeof CHANGES];
  if (type === undefined) throw new RangeError('a message of the log that is no change is too large');
  return { kind: 'oversized', type, oid: head.readUInt32BE(1) };
}

class Reader {
  constructor(
    private readonly bytes: Buffer,
    private at: number,
  ) {}

  skip(count: number): void {
    this.at += count;
  }
  peek(): string {
    return String.fromCharCode(this.bytes[this.at] as number);
  }
  int16(): number {
    this.at += 2;
    return this.bytes.readUInt16BE(this.at - 2);
  }
  int32(): number {
    this.at += 4;
    return this.bytes.readUInt32BE(this.at - 4);
  }
  int64(): bigint {
    this.at += 8;
    return this.bytes.readBigUInt64BE(this.at - 8);
  }
  time(): Date {
    return new Date(POSTGRES_EPOCH_MS + Number(this.int64() / 1000n));
  }
  text(): string {
    const end = this.bytes.indexOf(0, this.at);
    const text = this.bytes.toString('utf8', this.at, end);
    this.at = end + 1;
    return text;
  }

  relation(): Relation {
    const oid = this.int32();
    const [schema, table] = [this.text() || 'pg_catalog', this.text()];
    this.skip(1);
    const columns = Array.from({ length: this.int16() }, () => {
      const isKey = (this.bytes[this.at] as number) === 1;
      this.skip(1);
      const column = { name: this.text(), type: this.int32(), isKey };
      this.skip(4);
      return column;
    });
    return { oid, schema, table, columns };
  }

  old(): OldTuple {
    const isKey = this.peek() === 'K';
    this.skip(1);
    return { isKey, values: this.tuple() };
  }

  tuple(): Tuple {
    return Array.from({ length: this.int16() }, () => {
      const kind = this.peek();
      this.skip(1);
      if (kind === 'n') return null;
      if (kind === 'u') return undefined;
      const length = this.int32();
      this.at += length;
      return this.bytes.toString('utf8', this.at - length, this.at);
    });
  }
}
