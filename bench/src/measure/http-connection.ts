/**
 * One keep-alive connection that sends a request, waits for the response, and sends the next one. It parses only as
 * much HTTP as a measurement needs: the generator runs on the same cores as the servers that it measures.
 */
import { connect, type Socket } from 'node:net';

export interface Answer {
  status: number;
  body: Buffer;
}

export class HttpConnection {
  readonly #socket: Socket;
  #received: Buffer | undefined;
  #take: ((answer: Answer) => void) | undefined;
  #fail: ((error: Error) => void) | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.setNoDelay(true);
    socket.on('data', (chunk: Buffer) => this.#onData(chunk));
    socket.on('error', (error) => this.#fail?.(error));
    socket.on('close', () => this.#fail?.(new Error('the server closed the connection')));
  }

  static async open(host: string, port: number): Promise<HttpConnection> {
    const socket = connect({ host, port });
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return new HttpConnection(socket);
  }

  ask(request: string): Promise<Answer> {
    return new Promise((resolve, reject) => {
      this.#take = resolve;
      this.#fail = reject;
      this.#socket.write(request);
    });
  }

  close(): void {
    this.#fail = undefined;
    this.#socket.destroy();
  }

  #onData(chunk: Buffer): void {
    this.#received = this.#received ? Buffer.concat([this.#received, chunk]) : chunk;
    const answer = parseAnswer(this.#received);
    if (!answer) return;
    this.#received = undefined;
    this.#take?.(answer);
  }
}

/** Returns the response at the start of `received`; undefined: it is not complete yet. */
export function parseAnswer(received: Buffer): Answer | undefined {
  const headEnd = received.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const head = received.toString('latin1', 0, headEnd);
  const status = Number(head.slice(9, 12));
  const bodyStart = headEnd + 4;
  if (status === 204 || status === 304) return { status, body: Buffer.alloc(0) };
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length === undefined) {
    const body = parseChunks(received, bodyStart);
    return body && { status, body };
  }
  const bodyEnd = bodyStart + Number(length);
  return received.length < bodyEnd ? undefined : { status, body: received.subarray(bodyStart, bodyEnd) };
}

function parseChunks(received: Buffer, start: number): Buffer | undefined {
  const chunks: Buffer[] = [];
  for (let at = start; ; ) {
    const lineEnd = received.indexOf('\r\n', at);
    if (lineEnd < 0) return undefined;
    const size = Number.parseInt(received.toString('latin1', at, lineEnd), 16);
    const next = lineEnd + 2 + size + 2;
    if (received.length < next) return undefined;
    if (size === 0) return Buffer.concat(chunks);
    chunks.push(received.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = next;
  }
}
