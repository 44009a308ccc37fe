/**
 * Carries one request to an isolate and its answer back, streaming both ways. What belongs to one connection stays there; what
 * says where a request came from is written here.
 */
import {
  type ClientRequest,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
  type ServerResponse,
} from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { endToEnd, handedOn, hasBody } from '../gateway/hop.js';
import { type Refusal, refuse } from '../gateway/refusals.js';
import { CANNOT_REACH, endedUnder, TOO_LATE } from './answers.js';
import type { Isolate } from './isolate.js';
import type { FunctionLimits } from './limits.js';

export interface Carried {
  /** With the query: what the function sees. */
  target: string;
  /** Who the function takes itself to be. */
  host: string;
  /** Of the caller. */
  address: string;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
}

/** `unreached`: nothing of the request has left, nor of an answer, and another isolate may be asked. */
export type Outcome = 'whole' | 'cut' | 'unreached';

export function carry(isolate: Isolate, carried: Carried, limits: FunctionLimits): Promise<Outcome> {
  // Whoever left while the isolate started can be answered no more.
  if (carried.outgoing.destroyed) return Promise.resolve('cut');
  return new Promise((resolve) => attempt(isolate, carried, limits, resolve, true));
}

function attempt(
  isolate: Isolate,
  carried: Carried,
  limits: FunctionLimits,
  done: (outcome: Outcome) => void,
  again: boolean,
) {
  const { incoming, outgoing, target } = carried;
  const headers = requestHeaders(carried);
  const upstream = request({
    socketPath: isolate.socketPath,
    agent: isolate.agent,
    method: incoming.method,
    path: target,
    headers,
  });
  const clock = startClock(isolate, upstream, limits);
  let settled = false;
  const settle = (outcome: Outcome) => {
    if (settled) return;
    settled = true;
    clock.stop();
    done(outcome);
  };
  let answered = false;
  const refuseAnswer = () => {
    settle('cut');
    refuse(outgoing, closing(CANNOT_REACH));
  };
  upstream.once('response', (answer) => {
    answered = true;
    clock.firstByte();
    if (!passHead(answer, outgoing)) {
      answer.once('error', () => undefined);
      upstream.destroy();
      refuseAnswer();
      return;
    }
    // The headers may be all for a while; those that come with a body leave in one write with it.
    setImmediate(() => {
      if (!outgoing.writableEnded) outgoing.flushHeaders();
    });
    answer.once('error', () => outgoing.destroy());
    answer.pipe(outgoing);
  });
  // Another protocol, which nobody asked for: without this nobody would hear that the connection is gone.
  upstream.once('upgrade', (_, socket) => {
    socket.destroy();
    refuseAnswer();
  });
  upstream.once('error', (error: NodeJS.ErrnoException) => {
    if (NOBODY_LISTENS.has(error.code)) {
      settle('unreached');
      return;
    }
    // An idle connection may be closed by the isolate in the moment that it is taken from the agent.
    if (
      again &&
      upstream.reusedSocket &&
      !hasBody(incoming) &&
      !outgoing.headersSent &&
      !outgoing.destroyed &&
      isolate.pid
    ) {
      clock.stop();
      settled = true;
      attempt(isolate, carried, limits, done, false);
      return;
    }
    void answerFailure(isolate, clock.late, outgoing).then(() => settle('cut'));
  });
  outgoing.once('close', () => {
    // Whoever was too slow to send has been refused by others than the function.
    if (!outgoing.writableFinished || !answered) upstream.destroy();
    settle(outgoing.writableFinished ? 'whole' : 'cut');
  });
  send(incoming, upstream);
}

/** Of a Unix socket that is gone, whose process is, or in whose place is something else. */
const NOBODY_LISTENS = new Set<string | undefined>(['ENOENT', 'ECONNREFUSED', 'ENOTSOCK']);

/** A body is read only once there is somebody to take it, so that it is whole for another where there is nobody. */
function send(incoming: IncomingMessage, upstream: ClientRequest): void {
  if (!hasBody(incoming)) {
    upstream.end();
    return;
  }
  const begin = () => incoming.pipe(upstream);
  upstream.once('socket', (socket) => (socket.connecting ? socket.once('connect', begin) : begin()));
}

/** False: no function served by Deno answers so, but whoever listens at its socket may say anything. */
function passHead(answer: IncomingMessage, outgoing: ServerResponse): boolean {
  const status = answer.statusCode as number;
  if (status < 200 || status > 599) return false;
  try {
    outgoing.writeHead(status, endToEnd(answer));
    return true;
  } catch {
    return false;
  }
}

/** The isolate's end is known a moment after its connections'; why it ended decides the answer, and whoever calls next finds another. */
async function answerFailure(isolate: Isolate, late: boolean, outgoing: ServerResponse): Promise<void> {
  if (!late) await Promise.race([isolate.ended, pause(END_IS_KNOWN_MS, undefined, { ref: false })]);
  refuse(outgoing, closing(late ? TOO_LATE : endedUnder(isolate.endReason)));
}

/** One that lives may close a connection too: its caller waits no longer than this. */
const END_IS_KNOWN_MS = 1_000;

const closing = (refusal: Refusal): Refusal => ({ ...refusal, headers: { ...refusal.headers, Connection: 'close' } });

function startClock(isolate: Isolate, upstream: ClientRequest, limits: FunctionLimits) {
  const clock = { late: false, firstByte: () => clearTimeout(first), stop: () => {} };
  const giveUp = () => {
    clock.late = true;
    upstream.destroy(new Error('the function took too long'));
    // It may never come back: a new one answers whoever comes next.
    isolate.end('wall');
  };
  const first = setTimeout(giveUp, limits.firstByteMilliseconds);
  const all = setTimeout(giveUp, limits.wallMilliseconds);
  clock.stop = () => {
    clearTimeout(first);
    clearTimeout(all);
  };
  return clock;
}

const requestHeaders = ({ incoming, host, address }: Carried): OutgoingHttpHeaders => ({
  ...handedOn(incoming),
  host,
  'x-forwarded-for': address,
});
