/**
 * Forwards requests for the platform itself to the API's Unix socket, if there is one. While the API is unavailable,
 * callers get 502. Limits on requests in flight by network keep places for others.
 */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { VERIFIED_HEADER } from '@slipway/installation';
import { networkOf } from '@slipway/program';
import { type Refusal, refuse } from '../http/refusals.js';
import { proxyRequest } from './proxy-request.js';
import type { UpstreamLimits } from './upstream-client.js';

export interface Management {
  /** `address` is the caller's. */
  forward(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string, address: string): void;
  close(): void;
}

/** Without a socket the API runs elsewhere, and the response has its address. */
export function createManagement(socketPath: string | undefined, publicUrl: string): Management {
  return socketPath === undefined ? elsewhere(publicUrl) : behindSocket(socketPath, publicUrl);
}

function elsewhere(publicUrl: string): Management {
  const body = {
    type: 'about:blank',
    title: 'Not Found',
    status: 404,
    detail: `No project has this address. The management API is at ${publicUrl}.`,
  };
  const headers = { 'Content-Type': 'application/problem+json' };
  return {
    forward: (incoming, outgoing) => {
      incoming.resume();
      refuse(outgoing, { status: 404, body, headers });
    },
    close: () => undefined,
  };
}

function behindSocket(socketPath: string, publicUrl: string): Management {
  const { host, protocol } = new URL(publicUrl);
  const headers = { 'x-forwarded-host': host, 'x-forwarded-proto': protocol.slice(0, -1) };
  const lane = (perFreePlace: number) =>
    proxyRequest({
      name: 'management',
      to: { socketPath },
      headers,
      unreachable: UNREACHABLE,
      limits: { ...LIMITS, perFreePlace },
    });
  const known = new KnownNetworks();
  const lanes = { known: lane(PER_FREE_PLACE.known), strangers: lane(PER_FREE_PLACE.strangers) };
  return {
    forward: (incoming, outgoing, requestId, address) => {
      const of = networkOf(address);
      const { forward } = known.has(of) ? lanes.known : lanes.strangers;
      const onAnswer = (answer: OutgoingHttpHeaders) => {
        if (answer[VERIFIED_HEADER] === undefined) return;
        delete answer[VERIFIED_HEADER];
        known.add(of);
      };
      forward(incoming, outgoing, { of, address, more: { 'x-request-id': requestId }, onAnswer });
    },
    close: () => {
      for (const { close } of Object.values(lanes)) close();
    },
  };
}

/** Networks with a valid token within the last hour. The least recently seen are dropped first. */
class KnownNetworks {
  /** End of each entry, by network, in milliseconds of `performance.now()`. */
  readonly #until = new Map<string, number>();

  has(network: string): boolean {
    return (this.#until.get(network) ?? 0) > performance.now();
  }

  add(network: string): void {
    this.#until.delete(network);
    this.#until.set(network, performance.now() + KNOWN_MS);
    const [oldest] = this.#until.keys();
    if (this.#until.size > MOST_KNOWN && oldest !== undefined) this.#until.delete(oldest);
  }
}

const KNOWN_MS = 60 * 60_000;
const MOST_KNOWN = 10_000;

/**
 * Share of the free places that one network may use. Unknown and known networks have separate places, so that unknown
 * ones can't use the places of regular users. At first, one network may use 57 of the 512 places for unknown networks,
 * or 102 of the 512 for known ones, which suffices for an office of 200 people.
 */
const PER_FREE_PLACE = { strangers: 1 / 8, known: 1 / 4 };

/**
 * Limits of forwarded requests. The API limits bodies and disconnects stalled clients itself, so these limits are only
 * wider.
 */
const LIMITS: Partial<UpstreamLimits> = {
  // Limits of one network, and of all unknown or all known networks.
  atOncePerService: 256,
  atOnce: 512,
  bodyBytes: Number.POSITIVE_INFINITY,
  stillMilliseconds: 120_000,
};

const UNREACHABLE: Refusal = {
  status: 502,
  body: {
    type: 'about:blank',
    title: 'Bad Gateway',
    status: 502,
    detail: 'The management API does not answer; it may be starting. Try again in a moment.',
  },
  headers: { 'Content-Type': 'application/problem+json', 'Retry-After': '1' },
};
