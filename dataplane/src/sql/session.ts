/**
 * One connection to a project's database. `pg` logs in; then batches of statements are written here, each with its own
 * Sync and thus an implicit transaction, several in flight and answered in order. Used only by the pool. Never sends a
 * cancel request, which could hit another batch.
 */
import type { Socket } from 'node:net';
import { scramOnly } from '@slipway/installation';
import { underWay } from '@slipway/program';
import { Client } from 'pg';
import { ANSWER_LIMITS, COUNTED_FROM, type HeldAnswer } from './answer-memory.js';
import { boundedSocket } from './bounded-socket.js';
import {
  decodeError,
  decodeFields,
  decodeNotification,
  decodeRow,
  decodeText,
  type Field,
  MessageReader,
  type Row,
} from './decoder.js';
import { encode, encoded, type Parameter } from './encoder.js';
import { AnswerTooLargeError, ConnectionError, DatabaseError } from './errors.js';
import type { Login } from './login.js';

export interface Statement {
  text: string;
  values?: readonly Parameter[];
  /**
   * Statements of one name have one text, which is parsed once for each connection. Without a name it is parsed each
   * time.
   */
  name?: string;
  /** Requests the columns' names and types. */
  describe?: boolean;
}

export interface Result {
  /** Command tag of Postgres: `SELECT 3`. */
  command: string;
  rows: Row[];
  /** Empty unless the statement has `describe`. */
  fields: Field[];
}

export interface SessionOptions {
  connectTimeoutMs: number;
  statementTimeoutMs: number;
  /** Most prepared statements; the least recently used is closed for a new one. */
  maxStatements: number;
  /** Reserves bytes of the budgets that the pool's sessions share. */
  holdAnswer(): HeldAnswer;
  onNotification(channel: string, payload: string): void;
  /** Called when a batch was answered, so that there is room for another. */
  onReady(): unknown;
  onClose(session: Session): void;
}

interface Batch {
  results: Result[];
  current: Result;
  /** Names whose Parse is in this batch, in order; those after `parsed` failed or were skipped. */
  parsing: string[];
  parsed: number;
  reused: string[];
  startedAt: number;
  error: DatabaseError | undefined;
  resolve(results: Result[]): void;
  reject(error: Error): void;
}

/** True for a failed batch whose cause may be a statement prepared before the schema changed. */
export class StaleStatementError extends Error {
  constructor(override readonly cause: DatabaseError) {
    super(cause.message);
  }
}

/** SQLSTATEs of a prepared statement whose names or types have changed, or whose Parse never ran. */
const STALE_CODES = new Set([
  '0A000',
  '26000',
  '42703',
  '42704',
  '42804',
  '42846',
  '42883',
  '42P01',
  '42P08',
  '42P10',
  '42P18',
]);

/**
 * SQLSTATE of a statement name that was evicted and used again while the response to its first Parse was outstanding.
 */
const DUPLICATE_STATEMENT = '42P05';

const UNKNOWN_PACE_MS = 5;
/**
 * Weight of the newest batch in the mean duration: after 22 further batches, a slow one has lost 90 % of its weight.
 */
const NEWEST_WEIGHT = 0.1;

const DATA_ROW = 0x44;
const ROW_DESCRIPTION = 0x54;
const NOTIFICATION_RESPONSE = 0x41;

const newResult = (): Result => ({ command: '', rows: [], fields: [] });

export class Session {
  private readonly socket: Socket;
  private readonly batches: Batch[] = [];
  /** Encoded in the present turn of the event loop, so that concurrent requests are sent in one system call. */
  private unsent: Buffer[] = [];
  /** Prepared statements, least recently used first. */
  private readonly statements = new Set<string>();
  private closed = false;
  /**
   * The result that is being received: its bytes so far, the bytes of its data, and its reservation once it is large.
   */
  private receivedBytes = 0;
  private keptBytes = 0;
  private reserved: HeldAnswer | undefined;
  /** Time of the last response. */
  idleSince = performance.now();
  /** Mean duration of a batch on this connection in ms, weighted towards the latest. */
  paceMs = UNKNOWN_PACE_MS;

  private constructor(
    socket: Socket,
    private readonly options: SessionOptions,
    project: string | undefined,
  ) {
    this.socket = socket;
    const reader = new MessageReader(
      (type, body) => this.onMessage(type, body),
      (type, length) => this.onHeader(type, length),
    );
    socket.on('data', (chunk) => {
      if (project !== undefined) underWay(project, 'database answer');
      try {
        reader.push(chunk);
      } catch (error) {
        if (error instanceof AnswerTooLargeError) return this.dropTooLarge(error);
        if (error instanceof ConnectionError) return this.drop(error);
        this.drop(
          new ConnectionError('the database sent what this client does not understand', true, { cause: error }),
        );
      }
    });
    socket.on('close', () => this.drop(new ConnectionError('the connection to the database was lost', true)));
  }

  static async open(login: Login, options: SessionOptions): Promise<Session> {
    const socket = boundedSocket(ANSWER_LIMITS.loginBytes);
    const client = scramOnly(
      new Client({
        ...login,
        application_name: 'slipway',
        stream: () => socket,
        connectionTimeoutMillis: options.connectTimeoutMs,
        statement_timeout: options.statementTimeoutMs,
      }),
    );
    // The socket's close handles a broken connection; an error without a listener would end the process.
    client.on('error', () => undefined);
    try {
      await client.connect();
    } catch (error) {
      socket.destroy();
      throw new ConnectionError(`the database can't be reached: ${(error as Error).message}`, false, { cause: error });
    }
    socket.removeAllListeners('data');
    return new Session(socket, options, login.project);
  }

  get underway(): number {
    return this.batches.length;
  }

  /** Time in ms for which the present batch is unanswered. */
  get waited(): number {
    const head = this.batches[0];
    return head ? performance.now() - head.startedAt : 0;
  }

  get usable(): boolean {
    return !this.closed;
  }

  run(statements: readonly Statement[]): Promise<Result[]> {
    if (this.closed) return Promise.reject(new ConnectionError('the connection to the database was lost', false));
    return new Promise((resolve, reject) => {
      const current = newResult();
      const batch: Batch = {
        results: [],
        current,
        parsing: [],
        parsed: 0,
        reused: [],
        startedAt: 0,
        error: undefined,
        resolve,
        reject,
      };
      const before = [...this.statements];
      let bytes: Buffer;
      try {
        bytes = encoded(() => this.encode(statements, batch));
      } catch (error) {
        // Nothing was sent, so nothing was prepared or closed.
        this.statements.clear();
        for (const name of before) this.statements.add(name);
        return reject(error);
      }
      batch.startedAt = performance.now();
      this.batches.push(batch);
      this.send(bytes);
    });
  }

  private send(bytes: Buffer): void {
    if (this.unsent.push(bytes) === 1) setImmediate(() => this.flush());
  }

  private flush(): void {
    const bytes = this.unsent.length === 1 ? (this.unsent[0] as Buffer) : Buffer.concat(this.unsent);
    this.unsent = [];
    if (bytes.length > 0 && !this.socket.destroyed) this.socket.write(bytes);
  }

  private encode(statements: readonly Statement[], batch: Batch): void {
    // Closed first, so that an error of this batch can't make Postgres skip it.
    const fresh = statements.filter(({ name }) => name && !this.statements.has(name)).length;
    for (const { name } of statements) if (name && this.statements.delete(name)) this.statements.add(name);
    for (const name of this.statements) {
      if (this.statements.size + fresh <= this.options.maxStatements) break;
      if (statements.some((statement) => statement.name === name)) break;
      this.statements.delete(name);
      encode.closeStatement(name);
    }
    for (const { name = '', text, values = [], describe } of statements) {
      if (!this.statements.has(name)) {
        encode.parse(name, text);
        batch.parsing.push(name);
        if (name) this.statements.add(name);
      } else if (!batch.parsing.includes(name)) batch.reused.push(name);
      encode.bind(name, values);
      if (describe) encode.describePortal();
      encode.execute();
    }
    encode.sync();
  }

  /** Called before the bytes of a message are buffered. */
  private onHeader(type: number, length: number): undefined {
    const { answerBytes, reportBytes } = ANSWER_LIMITS;
    const isData = type === DATA_ROW || type === ROW_DESCRIPTION;
    if (!isData && length > reportBytes) throw new AnswerTooLargeError(reportBytes);
    // Notifications belong to no result, and each is forwarded at once.
    if (type === NOTIFICATION_RESPONSE) return;
    if (this.batches.length === 0) {
      if (isData) throw new RangeError('data without a batch');
      return;
    }
    this.receivedBytes += length;
    if (this.receivedBytes > answerBytes) throw new AnswerTooLargeError(answerBytes);
    if (isData) this.keep(length);
  }

  /**
   * Reserves the result's data in the shared budgets. Notices and the like are dropped at once, so they are not
   * counted.
   */
  private keep(length: number): void {
    this.keptBytes += length;
    if (this.keptBytes < COUNTED_FROM) return;
    this.reserved ??= this.options.holdAnswer();
    const wanted = Math.ceil(this.keptBytes / COUNTED_FROM) * COUNTED_FROM - this.reserved.bytes;
    if (wanted > 0 && !this.reserved.grow(wanted)) {
      throw new ConnectionError('too many large answers are being received or sent', true);
    }
  }

  private forgetReceived(): void {
    this.reserved?.end();
    this.reserved = undefined;
    this.keptBytes = 0;
    this.receivedBytes = 0;
  }

  /** The result of the first batch was too large. The batches behind it have lost their connection. */
  private dropTooLarge(error: AnswerTooLargeError): void {
    this.batches.shift()?.reject(error);
    this.drop(new ConnectionError('the connection to the database was lost', true));
  }

  private onMessage(type: number, body: Buffer): void {
    const batch = this.batches[0];
    switch (type) {
      case DATA_ROW:
        batch?.current.rows.push(decodeRow(body));
        break;
      case 0x43: // CommandComplete
        if (batch) this.completeStatement(batch, decodeText(body));
        break;
      case 0x49: // EmptyQueryResponse
        if (batch) this.completeStatement(batch, '');
        break;
      case 0x31: // ParseComplete
        if (batch) batch.parsed++;
        break;
      case ROW_DESCRIPTION:
        if (batch) batch.current.fields = decodeFields(body);
        break;
      case 0x45: // ErrorResponse
        this.onError(decodeError(body));
        break;
      case 0x5a: // ReadyForQuery
        this.completeBatch();
        break;
      case NOTIFICATION_RESPONSE: {
        const { channel, payload } = decodeNotification(body);
        this.options.onNotification(channel, payload);
        break;
      }
      case 0x32: // BindComplete
      case 0x33: // CloseComplete
      case 0x6e: // NoData
      case 0x4e: // NoticeResponse
      case 0x53: // ParameterStatus
        break;
      default:
        throw new RangeError(`an unexpected message of type ${String.fromCharCode(type)}`);
    }
  }

  private completeStatement(batch: Batch, command: string): void {
    batch.current.command = command;
    batch.results.push(batch.current);
    batch.current = newResult();
  }

  private completeBatch(): void {
    const batch = this.batches.shift();
    if (!batch) throw new RangeError('an answer to nothing');
    this.forgetReceived();
    this.idleSince = performance.now();
    this.paceMs += (this.idleSince - batch.startedAt - this.paceMs) * NEWEST_WEIGHT;
    const next = this.batches[0];
    if (next) next.startedAt = this.idleSince;
    if (batch.error) this.fail(batch, batch.error);
    else batch.resolve(batch.results);
    this.options.onReady();
  }

  private fail(batch: Batch, error: DatabaseError): void {
    const unparsed = batch.parsing.slice(batch.parsed);
    const duplicate = error.code === DUPLICATE_STATEMENT;
    if (duplicate) this.forget(unparsed);
    else for (const name of unparsed) this.statements.delete(name);
    // An error raised inside a function (`where`) is its own: repeating it would only advance sequences twice.
    const stale = batch.reused.length > 0 && STALE_CODES.has(error.code) && !error.fields.where;
    if (stale) this.forget(batch.reused);
    batch.reject(stale || duplicate ? new StaleStatementError(error) : error);
  }

  private forget(names: string[]): void {
    const known = names.filter((name) => this.statements.delete(name));
    if (known.length === 0 || this.closed) return;
    const ignore = () => undefined;
    const batch: Batch = {
      results: [],
      current: newResult(),
      parsing: [],
      parsed: 0,
      reused: [],
      startedAt: performance.now(),
      error: undefined,
      resolve: ignore,
      reject: ignore,
    };
    this.batches.push(batch);
    this.send(
      encoded(() => {
        for (const name of known) encode.closeStatement(name);
        encode.sync();
      }),
    );
  }

  private onError(error: DatabaseError): void {
    const fatal = error.fields.severity === 'FATAL' || error.fields.severity === 'PANIC';
    if (fatal)
      return this.drop(
        new ConnectionError(`the database ended the connection: ${error.message}`, true, { cause: error }),
      );
    const batch = this.batches[0];
    if (!batch) throw new RangeError('an error of nothing');
    batch.error ??= error;
  }

  /** Sends Terminate; work in flight fails. */
  close(): void {
    if (this.closed) return;
    if (this.batches.length === 0) this.socket.end(encoded(() => encode.terminate()));
    this.drop(new ConnectionError('the connection to the database was closed', true));
  }

  /** Destroys the connection; work in flight fails. */
  drop(error: ConnectionError): void {
    if (this.closed) return;
    this.closed = true;
    this.forgetReceived();
    if (!this.socket.writableEnded) this.socket.destroy();
    for (const batch of this.batches.splice(0)) batch.reject(error);
    this.options.onClose(this);
  }
}
