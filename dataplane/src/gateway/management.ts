/**
 * Hands requests for the platform itself on to the API's Unix socket, where there is one; when the API is down callers
 * get 502 until it is back.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { networkOf } from '../network-address.js';
import { proxyRequest } from './proxy-request.js';
import { type Refusal, refuse } from './refusals.js';
import type { UpstreamLimits } from './upstream-client.js';

export interface Management {
  /** `address`: of the caller. */
  forward(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string, address: string): void;
  close(): void;
}

/** Without a socket the API is elsewhere, and whoever looks for it here is told where. */
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
  const to = { socketPath };
  const { forward, close } = proxyRequest({
    name: 'management',
    to,
    headers,
    unreachable: UNREACHABLE,
    limits: LIMITS,
  });
  return {
    forward: (incoming, outgoing, requestId, address) =>
      forward(incoming, outgoing, { of: networkOf(address), address }, { 'x-request-id': requestId }),
    close,
  };
}

/** The API sets the bounds of bodies, and cuts off who stands still: here they are only wider. */
const LIMITS: Partial<UpstreamLimits> = {
  // Of one caller's network, and of all.
  atOncePerService: 256,
  atOnce: 1024,
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
