/**
 * Forwards requests to one other server, streaming both ways. It sets the headers with the client's address and host
 * itself, and never forwards those that the caller sent. While the server is unavailable, callers get `unreachable`; a
 * caller with too many requests in flight gets 503 with Retry-After.
 */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { handedOn } from '../http/proxy-headers.js';
import { type Refusal, refuse, serviceBusy, serviceTooSlow } from '../http/refusals.js';
import {
  type ForwardRequest,
  type ServiceAddress,
  ServiceBusy,
  ServiceTooSlow,
  UpstreamClient,
  type UpstreamLimits,
} from './upstream-client.js';

export interface HandOnOptions {
  /** Name of the service in errors. */
  name: string;
  to: { socketPath: string } | ServiceAddress;
  /** Headers of every request. */
  headers: OutgoingHttpHeaders;
  unreachable: Refusal;
  limits: Partial<UpstreamLimits>;
}

export interface ForwardedCall extends Pick<ForwardRequest, 'onAnswer'> {
  of: string;
  address: string;
  more?: OutgoingHttpHeaders;
}

export function proxyRequest({ name, to, headers: own, unreachable, limits }: HandOnOptions) {
  const upstreamClient = new UpstreamClient(limits);
  const refusalOf = (error: unknown): Refusal => {
    if (error instanceof ServiceBusy) return serviceBusy(name);
    return error instanceof ServiceTooSlow ? serviceTooSlow(name) : unreachable;
  };
  return {
    /** `of` is the key of the limit on requests in flight, `address` the caller's address, `more` further headers. */
    forward(incoming: IncomingMessage, outgoing: ServerResponse, { of, address, more, onAnswer }: ForwardedCall): void {
      const headers = Object.assign(handedOn(incoming), own, { 'x-forwarded-for': address }, more);
      const path = incoming.url as string;
      upstreamClient
        .forward({
          to: of,
          address: to,
          path,
          headers,
          saysWhoMayRead: true,
          request: { incoming, outgoing },
          onAnswer,
        })
        .catch((error: unknown) => refuse(outgoing, refusalOf(error)));
    },
    close: () => upstreamClient.close(),
  };
}
