/**
 * One replication connection to a database: creates, drops and reads a slot. `pg` logs in and runs the commands; after
 * START_REPLICATION the stream is read here. In: a login with the right to replicate. Out: WAL messages with their log
 * position.
 */
import type { Socket } from 'node:net';
import { scramOnly } from '@slipway/installation';
import { underWay } from '@slipway/program';
import { Client } from 'pg';
import { ANSWER_LIMITS } from '../../../sql/answer-memory.js';
import { boundedSocket } from '../../../sql/bounded-socket.js';
import { decodeError, MessageReader } from '../../../sql/decoder.js';
import { ConnectionError, DatabaseError } from '../../../sql/errors.js';
import type { Login } from '../../../sql/login.js';
import { CHANGE_HEADER_BYTES, decodeOversized, decodeWal, type WalMessage } from './pgoutput.js';

export interface ReplicationEvents {
  onMessage(message: WalMessage): void;
  /** Everything before this position has been sent. */
  onCaughtUp(lsn: bigint, wantsReply: boolean): void;
}

const CONNECT_TIMEOUT_MS = 5_000;
/**
 * Milliseconds without a message after which the connection counts as broken: Postgres sends a message at least every
 * 30 s.
 */
const SILENCE_MS = 60_000;
/** Settings of the texts of values in changes. A tenant may have set others for the database. */
export const VALUE_FORMATS = {
  datestyle: 'ISO',
  intervalstyle: 'postgres',
  extra_float_digits: '1',
  bytea_output: 'hex',
  timezone: 'UTC',
  search_path: '',
} as const;
/** Settings of the session, which override the tenant's. */
const OPTIONS = Object.entries({
  ...VALUE_FORMATS,
  logical_decoding_work_mem: '16MB',
  wal_sender_timeout: '60s',
  statement_timeout: '0',
})
  .map(([name, value]) => `-c ${name}=${value}`)
  .join(' ');

/** Maximum bytes of a message. A row's change has the row twice if the table's replica identity is full. */
export const MAX_WAL_BYTES = 8 * 1024 * 1024;
/** Bytes of the header before a message: the letter, two log positions and a time. */
const XLOG_HEADER_BYTES = 25;

const QUERY = 0x51;
const COPY_DATA = 0x64;
const XLOG_DATA = 0x77;
const KEEPALIVE = 0x6b;
const STATUS = 0x72;
const POSTGRES_EPOCH_MS = 946_684_800_000;

export class ReplicationSession {
  private constructor(
    private readonly client: Client,
    private readonly socket: Socket,
    private readonly project: string | undefined,
  ) {}

  static async open(login: Login): Promise<ReplicationSession> {
    const socket = boundedSocket(ANSWER_LIMITS.loginBytes);
    const client = scramOnly(
      new Client({
        ...login,
        application_name: 'slipway-realtime',
        // `pg` supports both, but its types do not.
        ...({ replication: 'database', options: OPTIONS } as object),
        stream: () => socket,
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
      }),
    );
    client.on('error', () => undefined);
    try {
      await client.connect();
    } catch (error) {
      socket.destroy();
      const { message, code } = error as Error & { code?: string };
      if (code && /^[0-9A-Z]{5}$/.test(code)) throw new DatabaseError(message, code);
      throw new ConnectionError(`the database can't be reached: ${message}`, false, { cause: error });
    }
    return new ReplicationSession(client, socket, login.project);
  }

  /** Creates a slot at the present position. An inactive one of that name is dropped first. */
  async createSlot(name: string): Promise<void> {
    await this.dropSlot(name);
    await this.#command(`CREATE_REPLICATION_SLOT "${name}" LOGICAL pgoutput (SNAPSHOT 'nothing')`);
  }

  async dropSlot(name: string): Promise<void> {
    await this.#command(`DROP_REPLICATION_SLOT "${name}" WAIT`).catch((error: DatabaseError) => {
      if (error.code !== UNDEFINED_OBJECT) throw error;
    });
  }

  async #command(text: string): Promise<void> {
    try {
      await this.client.query(text);
    } catch (error) {
      const { message, code } = error as Error & { code?: string };
      throw code ? new DatabaseError(message, code) : new ConnectionError(message, true, { cause: error });
    }
  }

  /** Never resolves; rejects when the stream ends for any reason. */
  read(slot: string, publication: string, events: ReplicationEvents): Promise<never> {
    const { socket, project } = this;
    socket.removeAllListeners('data');
    const ended = Promise.withResolvers<never>();
    const fail = (error: Error) => {
      socket.destroy();
      ended.reject(error);
    };
    let isOversized = false;
    // Keeps only the beginning of an oversized change, which names its table; the stream continues after it.
    const onHeader = (type: number, length: number) => {
      isOversized = length > MAX_WAL_BYTES;
      if (!isOversized) return undefined;
      if (type !== COPY_DATA) throw new ConnectionError('the database sent a message that is too large', true);
      return XLOG_HEADER_BYTES + CHANGE_HEADER_BYTES;
    };
    const onMessage = (type: number, body: Buffer) => {
      if (isOversized) events.onMessage(decodeOversized(body.subarray(XLOG_HEADER_BYTES)));
      else if (type === 0x45) fail(decodeError(body));
      else if (type === 0x63) fail(new ConnectionError('the database ended the stream', true));
      else if (type === COPY_DATA && body[0] === XLOG_DATA)
        events.onMessage(decodeWal(body.subarray(XLOG_HEADER_BYTES)));
      else if (type === COPY_DATA && body[0] === KEEPALIVE) events.onCaughtUp(body.readBigUInt64BE(1), body[17] === 1);
    };
    const reader = new MessageReader(onMessage, onHeader);
    socket.on('data', (chunk) => {
      if (project !== undefined) underWay(project, 'change of rows');
      try {
        reader.push(chunk);
      } catch (error) {
        fail(error as Error);
      }
    });
    socket.on('close', () => fail(new ConnectionError('the replication connection was lost', true)));
    socket.setTimeout(SILENCE_MS, () => fail(new ConnectionError('the replication connection is silent', true)));
    const options = `proto_version '1', publication_names '"${publication}"'`;
    socket.write(message(QUERY, Buffer.from(`START_REPLICATION SLOT "${slot}" LOGICAL 0/0 (${options})\0`)));
    return ended.promise;
  }

  /** Confirms a position: Postgres may discard the log before `lsn`. */
  confirm(lsn: bigint): void {
    if (this.socket.destroyed) return;
    const body = Buffer.alloc(34);
    body[0] = STATUS;
    for (const at of [1, 9, 17]) body.writeBigUInt64BE(lsn, at);
    body.writeBigUInt64BE(BigInt(Date.now() - POSTGRES_EPOCH_MS) * 1000n, 25);
    this.socket.write(message(COPY_DATA, body));
  }

  pause(): void {
    this.socket.pause();
  }
  resume(): void {
    this.socket.resume();
  }

  close(): void {
    this.socket.destroy();
  }
}

const UNDEFINED_OBJECT = '42704';

function message(type: number, body: Buffer): Buffer {
  const header = Buffer.alloc(5);
  header[0] = type;
  header.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([header, body]);
}
