/**
 * Carries one request to an isolate and its answer back, streaming both ways. What belongs to one connection stays
 * there; what says where a request came from is written here.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { Dispatcher } from 'undici';
import { endToEnd, handedOn, hasBody, isAnswer } from '../gateway/proxy-headers.js';
import { type Refusal, refuse } from '../gateway/refusals.js';
import { endWith, ONE_WRITE_BYTES, takeSmall } from '../small-body.js';
import { CANNOT_REACH, endedUnder, TOO_LATE } from './answers.js';
import type { Isolate } from './isolate.js';
import type { FunctionLimits } from './limits.js';

export interface ForwardRequest {
  /** With the query: what the function sees. */
  target: string;
  /** The host that the function sees as its own. */
  host: string;
  /** The caller's IP address. */
  address: string;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  /** A small one, once it is there: it is whole for another isolate where the first is out of reach. */
  body?: Buffer;
}

/**
 * `late`: it was cut off. `unreached`: nothing of the request has left, nor of an answer, and another isolate may be
 * asked.
 */
export type Outcome = 'whole' | 'cut' | 'late' | 'unreached';

export function forward(isolate: Isolate, carried: ForwardRequest, limits: FunctionLimits): Promise<Outcome> {
  // Whoever left while the isolate started can be answered no more.
  if (carried.outgoing.destroyed) return Promise.resolve('cut');
  return new Promise((resolve) => new Carriage(isolate, carried, limits, resolve).begin());
}

type Body = Buffer | Readable | null;
type Controller = Dispatcher.DispatchController;
type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler['onResponseStart']>>[2];

/** One attempt, as undici tells of it. */
class Carriage implements Dispatcher.DispatchHandler {
  readonly #clock: Clock;
  /** From when the request is being sent. */
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
      // Whoever was too slow to send has been refused by others than the function.
      if (!carried.outgoing.writableFinished || !this.#answered) this.#stop('nobody waits for the answer');
    });
    withBody(carried, (body) => this.#send(body));
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.#settled) this.#stop('nobody waits for the answer');
  }

  onResponseStart(controller: Controller, statusCode: number, headers: Headers): void {
    // What comes before an answer is of this connection alone.
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
    // The headers may be all for a while; those that come with a body leave in one write with it.
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

  /**
   * From here on it is the caller who decides how long it takes: what he leaves to us of it takes a place as long as it
   * is much.
   */
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

  /** A kept connection broke before anything was sent on it. */
  #repeat(): void {
    this.#repeated = true;
    withBody(this.carried, (body) => this.#send(body));
  }

  #send(body: Body): void {
    const { isolate, carried } = this;
    // Who was late to send it may have been answered.
    if (this.#settled || carried.outgoing.headersSent) return;
    const { target, host, address, incoming } = carried;
    const headers = { ...handedOn(incoming), host, 'x-forwarded-for': address };
    // How a body of unknown length is framed is written by who sends it.
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
   * The isolate's end is known a moment after its connections'; why it ended decides the answer, and whoever calls next
   * finds another.
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
 * Bytes of a response that may wait unread. If more wait, reading stops: a sender that has sent everything may then
 * close the connection, and the rest be lost.
 */
const MAX_WAITING_BYTES = 256 * 1024;

/** One that lives may close a connection too: its caller waits no longer than this. */
const END_IS_KNOWN_MS = 1_000;

/**
 * A small one that is there at once leaves with its head in one write; another is read only once there is somebody to
 * take it.
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
 * Yields the body in pieces. The rest stays unread, as the response has yet to leave on its connection, and another
 * request may follow.
 */
async function* pieces(incoming: IncomingMessage): AsyncGenerator<Buffer> {
  try {
    yield* incoming.iterator({ destroyOnReturn: false });
  } finally {
    incoming.resume();
  }
}

/** False: no function served by Deno answers so, but whoever listens at its socket may say anything. */
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

/** How long a call may take to its answer's first byte, and to its last. */
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
