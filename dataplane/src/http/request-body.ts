/**
 * Reads a request's body into memory, at most `limit` bytes, for services that need all of it. Bodies and decoded JSON
 * in memory share budgets of their project, its account, the caller's network and the process.
 */
import type { IncomingMessage } from 'node:http';
import { isLoopback, type JsonBound, networkOf, ONE_TURN, parseJson } from '@slipway/program';
import { type Budget, ReservedBytes } from '../bounds/reserved-bytes.js';

const MIB = 1024 * 1024;

/** Maximum bytes of the body of a request to a project. A larger body gets 413. */
export const MAX_BODY_BYTES = 10 * MIB;

export const BODY_LIMITS = {
  /**
   * Bytes of one network for all projects: less than for a project, so that one network can't fill a project's budget.
   */
  networkBytes: 32 * MIB,
  projectBytes: 48 * MIB,
  accountBytes: 64 * MIB,
  allBytes: 160 * MIB,
};

/**
 * Bytes from which a body counts against the budgets. Smaller bodies are not counted, so frequent requests reserve
 * nothing and a small body is never rejected.
 */
const COUNTED_FROM = 64 * 1024;

export class BodyTooLargeError extends Error {
  readonly status = 413;
  constructor(limit: number) {
    super(`the request body is larger than ${limit} bytes`);
  }
}

/** Thrown if a budget has no room for the body or its JSON. */
export class BodiesTooLargeError extends Error {
  constructor(
    /** 429 if the caller or the project exceeds its budget, 503 if the process does. */
    readonly status: 429 | 503,
    holder: string,
  ) {
    super(`Requests in progress ${holder} use too much memory to serve this one. Try again in a moment.`);
  }
}

interface Received {
  tenant: { ref: string; authenticator: { account?: string | undefined } };
  address: string;
  incoming: IncomingMessage;
}

interface BodyBudget extends Budget {
  status: 429 | 503;
  /** Name of the budget in an error. */
  name: string;
}

const [byNetwork, byProject, byAccount, byProcess] = [
  new Map<string, number>(),
  new Map<string, number>(),
  new Map<string, number>(),
  new Map<string, number>(),
];

function budgetsOf({ tenant: { ref, authenticator }, address }: Received): BodyBudget[] {
  const { networkBytes, projectBytes, accountBytes, allBytes } = BODY_LIMITS;
  const account = authenticator.account ?? ref;
  const network = networkOf(address);
  const status = 429;
  return [
    // Programs and proxies on the platform's machine call for many clients.
    ...(isLoopback(address)
      ? []
      : [{ reserved: byNetwork, holder: network, most: networkBytes, status, name: 'of this address' } as const]),
    { reserved: byProject, holder: ref, most: projectBytes, status, name: 'of this project' },
    { reserved: byAccount, holder: account, most: accountBytes, status, name: 'of the project’s account' },
    { reserved: byProcess, holder: '', most: allBytes, status: 503, name: 'of all projects' },
  ];
}

const reservations = new WeakMap<IncomingMessage, ReservedBytes>();

function reservedFor(request: Received): ReservedBytes {
  let reserved = reservations.get(request.incoming);
  if (!reserved) {
    reserved = new ReservedBytes(budgetsOf(request));
    reservations.set(request.incoming, reserved);
  }
  return reserved;
}

/** Reserves further bytes for a request, until `releaseBody`. Throws BodiesTooLargeError. */
export function reserveBody(request: Received, bytes: number): void {
  const reserved = reservedFor(request);
  const budget = reserved.withoutRoom(bytes) as BodyBudget | undefined;
  if (budget) throw new BodiesTooLargeError(budget.status, budget.name);
  reserved.keep(bytes);
}

/** Counts bytes that are never rejected, because a change was already made. They leave less room for others. */
export function reserveBytes(request: Received, bytes: number): void {
  reservedFor(request).keep(bytes);
}

/** Releases a request's bytes, once it was answered or failed. */
export function releaseBody(incoming: IncomingMessage): void {
  reservations.get(incoming)?.end();
}

const EMPTY = Buffer.alloc(0);

export function readBody(request: Received, limit = MAX_BODY_BYTES): Promise<Buffer> {
  let counted = 0;
  return receiveBody(request.incoming, limit, (size) => {
    if (size <= COUNTED_FROM) return;
    reserveBody(request, size - counted);
    counted = size;
  });
}

/**
 * Decodes JSON for a request, and reserves its heap, which for `{}` repeated is twenty times its bytes.
 * @throws JsonRefusal, BodiesTooLargeError
 */
export function decodeFor(request: Received, bytes: Buffer, bound: JsonBound = ONE_TURN): unknown {
  const reserve = heapOf(request);
  return parseJson(bytes, bound, (_values, heapBytes) => reserve(heapBytes));
}

/** Returns a function that reserves heap for a request, if it is large. */
export function heapOf(request: Received): (heapBytes: number) => void {
  let uncounted = 0;
  return (heapBytes) => {
    uncounted += heapBytes;
    if (uncounted <= COUNTED_FROM) return;
    reserveBody(request, uncounted);
    uncounted = 0;
  };
}

/** Reads a body without a budget. `onSize` gets the size so far, and throws to reject the body. */
export function receiveBody(
  incoming: IncomingMessage,
  limit: number,
  onSize: (size: number) => void = () => undefined,
): Promise<Buffer> {
  if (incoming.headers['content-length'] === undefined && incoming.headers['transfer-encoding'] === undefined) {
    return Promise.resolve(EMPTY);
  }
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    incoming.on('data', (chunk: Buffer) => {
      size += chunk.length;
      try {
        if (size > limit) throw new BodyTooLargeError(limit);
        onSize(size);
        chunks.push(chunk);
      } catch (error) {
        incoming.removeAllListeners('data');
        incoming.resume();
        chunks.length = 0;
        reject(error);
      }
    });
    incoming.once('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    incoming.once('error', reject);
    incoming.once('close', () => {
      if (!incoming.complete) reject(new Error('the client went away before its request was complete'));
    });
  });
}
