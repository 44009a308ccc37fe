/**
 * One keep-alive connection that sends bodies and compares received ones chunk by chunk, in one buffer: the generator
 * runs on the same cores as the servers that it measures.
 */
import { connect, type Socket } from 'node:net';

const BUFFER_BYTES = 256 * 1024;
const HEAD_END = '\r\n\r\n';

export interface TransferAnswer {
  status: number;
  /** True if the body was as expected, or none was expected. */
  matches: boolean;
  /** The beginning of an unexpected response. */
  text: string;
}

/** The part of a response that has arrived. */
interface Coming {
  expected: Buffer | undefined;
  head: string;
  status: number;
  length: number;
  received: number;
  matches: boolean;
  text: string;
  take(answer: TransferAnswer): void;
  fail(error: Error): void;
}

export class TransferConnection {
  readonly #socket: Socket;
  #coming: Coming | undefined;

  private constructor(host: string, port: number) {
    const buffer = Buffer.allocUnsafe(BUFFER_BYTES);
    const callback = (bytes: number) => {
      this.#onBytes(buffer.subarray(0, bytes));
      return true;
    };
    this.#socket = connect({ host, port, noDelay: true, onread: { buffer, callback } });
    this.#socket.on('error', (error) => this.#coming?.fail(error));
    this.#socket.on('close', () => this.#coming?.fail(new Error('the server closed the connection')));
  }

  static async open(host: string, port: number): Promise<TransferConnection> {
    const connection = new TransferConnection(host, port);
    const socket = connection.#socket;
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return connection;
  }

  /** `head` is without its final empty line. */
  ask(head: string, body?: Buffer, expected?: Buffer): Promise<TransferAnswer> {
    return new Promise((take, fail) => {
      this.#coming = { expected, head: '', status: 0, length: -1, received: 0, matches: true, text: '', take, fail };
      this.#socket.cork();
      this.#socket.write(`${head}${body ? `content-length: ${body.length}\r\n` : ''}\r\n`);
      if (body) this.#socket.write(body);
      this.#socket.uncork();
    });
  }

  close(): void {
    this.#coming = undefined;
    this.#socket.destroy();
  }

  #onBytes(bytes: Buffer): void {
    const coming = this.#coming;
    if (!coming) return;
    const body = coming.length < 0 ? readHead(coming, bytes) : bytes;
    if (body) readBody(coming, body);
    if (coming.length < 0 || coming.received < coming.length) return;
    this.#coming = undefined;
    const { status, matches, expected, text } = coming;
    coming.take({ status, matches: matches && (expected === undefined || coming.received === expected.length), text });
  }
}

/** Returns the bytes after the head; undefined: the head is not complete. */
function readHead(coming: Coming, bytes: Buffer): Buffer | undefined {
  const before = coming.head.length;
  coming.head += bytes.toString('latin1');
  const end = coming.head.indexOf(HEAD_END);
  if (end < 0) return undefined;
  coming.status = Number(coming.head.slice(9, 12));
  const length = /\r\ncontent-length: *(\d+)/i.exec(coming.head.slice(0, end))?.[1];
  if (length === undefined) coming.fail(new Error('a response without a length'));
  coming.length = Number(length);
  return bytes.subarray(end + HEAD_END.length - before);
}

function readBody(coming: Coming, bytes: Buffer): void {
  const { expected, received } = coming;
  if (expected && coming.status === 200) {
    const end = received + bytes.length;
    coming.matches &&= end <= expected.length && bytes.compare(expected, received, end) === 0;
  } else if (coming.text.length < 300) coming.text += bytes.toString();
  coming.received += bytes.length;
}
