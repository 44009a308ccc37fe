/**
 * Forwards a request to an isolate and the response back, streaming both. Drops hop-by-hop headers, and sets those that
 * name the client.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { endToEnd, handedOn, hasBody, isAnswer } from '../../http/proxy-headers.js';
import { type Refusal, refuse } from '../../http/refusals.js';
import { endWith, ONE_WRITE_BYTES, takeSmall } from '../../http/small-body.js';
import { CANNOT_REACH, endedUnder, TOO_LATE } from './answers.js';
import type { Isolate } from './isolate.js';
import type { FunctionLimits } from './limits.js';

export interface ForwardRequest {
  /** Path and query for the function. */
  target: string;
  /** Host name that the function sees as its own. */
  host: string;
  /** The caller's IP address. */
  address: string;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  /** A small body that was read completely, so that it can be sent to another isolate if the first is unreachable. */
  body?: Buffer;
}

/**
 * `late`: the call timed out. `unreached`: nothing was sent or received, so the call may be sent to another isolate.
 */
export type Outcome = 'whole' | 'cut' | 'late' | 'unreached';

export function forward(isolate: Isolate, carried: ForwardRequest, limits: FunctionLimits): Promise<Outcome> {
  // The client disconnected while the isolate started.
  if (carried.outgoing.destroyed) return Promise.resolve('cut');
  return new Promise((resolve) => new Carriage(isolate, carried, limits, resolve).begin());
}

type Body = Buffer | Readable | null;
type Controller = Dispatcher.DispatchController;
type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

/** Sends the call to one isolate, as a handler of undici. */
class Carriage implements Dispatcher.DispatchHandler {
  readonly #clock: Clock;
  /** Controller of the request, once the request is being sent. */
  #controller: Controller | undefined;
  #answered = false;
  #ended = false;
  #settled = false;
  #repeated = false;
  /** Length of the response's body; NaN if unknown. */
  #length = Number.NaN;
  #passed = 0;

  constructor(
    private readonly isolate: Isolate,
    private readonly carried: ForwardRequest,
    limits: FunctionLimits,
    private readonly done: (outcome: Outcome) => void,
  ) {
    this.#clock = new Clock(limits, () => {
      if (this.#controller && !this.#ended) return this.#stop('it took too long');
      refuse(carried.outgoing, closing(TOO_LATE));
      this.#settle('cut');
    });
  }

  begin(): void {
    const { carried } = this;
    carried.outgoing.once('close', () => {
      this.#settle(carried.outgoing.writableFinished ? 'whole' : 'cut');
      // A client that sent too slowly was rejected by the gateway, not by the function.
      if (!carried.outgoing.writableFinished || !this.#answered) this.#stop('nobody waits for the answer');
    });
    withBody(carried, (body) => this.#send(body));
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#settled) this.#stop('nobody waits for the answer');
  }

  onResponseStart(controller: Controller, statusCode: number, headers: Headers): void {
    // Informational responses concern only this connection.
    if (statusCode >= 100 && statusCode < 200) return;
    const { outgoing } = this.carried;
    this.#answered = true;
    this.#clock.firstByte();
    if (!passHead(statusCode, headers, this.carried)) {
      this.#settle('cut');
      controller.abort(new Error('the answer is none'));
      refuse(outgoing, closing(CANNOT_REACH));
      return;
    }
    this.#length = Number(headers['content-length'] ?? Number.NaN);
    // Only the headers may arrive for a while. A body that arrives with them is sent in one write.
    queueMicrotask(() => {
      if (!outgoing.writableEnded) outgoing.flushHeaders();
    });
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    const { outgoing } = this.carried;
    this.#passed += chunk.length;
    if (chunk.length === this.#length) endWith(outgoing, chunk);
    else if (!outgoing.write(chunk) && outgoing.writableLength > MAX_WAITING_BYTES) {
      controller.pause();
      outgoing.once('drain', () => controller.resume());
    }
  }

  /** From here on the duration depends on the caller. A small rest of the response frees its place at once. */
  onResponseEnd(): void {
    const { outgoing } = this.carried;
    this.#ended = true;
    if (!outgoing.writableEnded) outgoing.end();
    if (outgoing.writableLength <= ONE_WRITE_BYTES) this.#settle('whole');
  }

  onResponseError(_: Controller | undefined, error: Error): void {
    if (this.#settled) return;
    const { code } = error as NodeJS.ErrnoException;
    if (this.#controller === undefined && NOBODY_LISTENS.has(code)) this.#settle('unreached');
    else if (this.#controller === undefined && !this.#repeated) this.#repeat();
    else if (this.#passed === this.#length) this.onResponseEnd();
    else if (this.#answered) this.#cut();
    else void this.#answerFailure().then(() => this.#settle('cut'));
  }

  /** Repeats a request whose idle connection broke before anything was sent on it. */
  #repeat(): void {
    this.#repeated = true;
    withBody(this.carried, (body) => this.#send(body));
  }

  #send(body: Body): void {
    const { isolate, carried } = this;
    // A client that sent too slowly may have its response already.
    if (this.#settled || carried.outgoing.headersSent) return;
    const { target, host, address, incoming } = carried;
    const headers = { ...handedOn(incoming), host, 'x-forwarded-for': address };
    // undici frames a body of unknown length itself.
    delete headers['transfer-encoding'];
    isolate.connections.dispatch({ method: incoming.method as string, path: target, headers, body }, this);
  }

  #cut(): void {
    this.carried.outgoing.destroy();
    this.#settle('cut');
  }

  #stop(why: string): void {
    this.#controller?.abort(new Error(why));
  }

  #settle(outcome: Outcome): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#clock.stop();
    this.done(this.#clock.isLate && !this.#ended ? 'late' : outcome);
  }

  /**
   * Waits a moment for the isolate's end, which follows the end of its connections. Its reason decides the response;
   * the next call gets another isolate.
   */
  async #answerFailure(): Promise<void> {
    const { isolate, carried } = this;
    const { isLate } = this.#clock;
    if (!isLate) await Promise.race([isolate.ended, pause(END_IS_KNOWN_MS, undefined, { ref: false })]);
    refuse(carried.outgoing, closing(isLate ? TOO_LATE : endedUnder(isolate.endReason)));
  }
}

/** Error codes of a Unix socket that was removed or replaced, or whose isolate has ended. */
const NOBODY_LISTENS = new Set<string | undefined>(['ENOENT', 'ECONNREFUSED', 'ENOTSOCK', 'UND_ERR_DESTROYED']);

/**
 * Unread bytes of a response beyond which reading pauses. With fewer bytes, reading continues, because a sender that
 * has sent everything may close the connection, and the rest would be lost.
 */
const MAX_WAITING_BYTES = 256 * 1024;

/**
 * Maximum milliseconds to wait for the news that an isolate has ended, because a running isolate may close a connection
 * too.
 */
const END_IS_KNOWN_MS = 1_000;

/**
 * Calls `send` with the body: a small one as a buffer, to send it in one write with the head; a larger one as a stream,
 * which is read only once it is sent.
 */
function withBody(carried: ForwardRequest, send: (body: Body) => void): void {
  const { incoming } = carried;
  if (carried.body !== undefined) return send(carried.body);
  if (!hasBody(incoming) || Number(incoming.headers['content-length']) === 0) return send(null);
  takeSmall(incoming, (body) => {
    if (body) carried.body = body;
    send(body ?? streamOf(incoming));
  });
}

const streamOf = (incoming: IncomingMessage) => Readable.from(pieces(incoming), { objectMode: false });

/**
 * Yields the body in chunks. At the end the rest is dropped but the connection stays open, because the response is sent
 * on it, and another request may follow.
 */
async function* pieces(incoming: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    yield* incoming.iterator({ destroyOnReturn: false });
  } finally {
    incoming.resume();
  }
}

/**
 * Writes the head. Returns false for one that Deno never sends, because another program at its socket may send
 * anything.
 */
function passHead(statusCode: number, headers: Headers, { outgoing }: ForwardRequest): boolean {
  if (!isAnswer({ statusCode })) return false;
  try {
    outgoing.writeHead(statusCode, endToEnd({ headers }));
    return true;
  } catch {
    return false;
  }
}

const closing = (refusal: Refusal): Refusal => ({ ...refusal, headers: { ...refusal.headers, Connection: 'close' } });

/** Timeouts of a call: to the first byte of its response, and to the last. */
class Clock {
  isLate = false;
  readonly #first: NodeJS.Timeout;
  readonly #all: NodeJS.Timeout;

  constructor({ firstByteMilliseconds, wallMilliseconds }: FunctionLimits, onLate: () => void) {
    const end = () => {
      this.isLate = true;
      onLate();
    };
    this.#first = setTimeout(end, firstByteMilliseconds);
    this.#all = setTimeout(end, wallMilliseconds);
  }

  firstByte(): void {
    clearTimeout(this.#first);
  }

  stop(): void {
    clearTimeout(this.#first);
    clearTimeout(this.#all);
  }
}
