/**
 * Hands whole requests on to one other server, streaming both ways. What says where a request came from is written
 * here, never passed through; while the server is away callers get `unreachable`, and whoever has too much under way
 * there is told to come again.
 */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { handedOn } from './proxy-headers.js';
import { type Refusal, refuse, serviceBusy, serviceTooSlow } from './refusals.js';
import {
  type ServiceAddress,
  ServiceBusy,
  ServiceTooSlow,
  UpstreamClient,
  type UpstreamLimits,
} from './upstream-client.js';

export interface HandOnOptions {
  /** The service's name in refusals. */
  name: string;
  to: { socketPath: string } | ServiceAddress;
  /** On every request. */
  headers: OutgoingHttpHeaders;
  unreachable: Refusal;
  limits: Partial<UpstreamLimits>;
}

export function proxyRequest({ name, to, headers: own, unreachable, limits }: HandOnOptions) {
  const upstreamClient = new UpstreamClient(limits);
  const refusalOf = (error: unknown): Refusal => {
    if (error instanceof ServiceBusy) return serviceBusy(name);
    return error instanceof ServiceTooSlow ? serviceTooSlow(name) : unreachable;
  };
  return {
    /** `of`: whose requests at once are counted together; `address`: of the caller. */
    forward(
      incoming: IncomingMessage,
      outgoing: ServerResponse,
      { of, address }: { of: string; address: string },
      more: OutgoingHttpHeaders = {},
    ): void {
      const headers = Object.assign(handedOn(incoming), own, { 'x-forwarded-for': address }, more);
      const path = incoming.url as string;
      upstreamClient
        .forward({ to: of, address: to, path, headers, saysWhoMayRead: true, request: { incoming, outgoing } })
        .catch((error: unknown) => refuse(outgoing, refusalOf(error)));
    },
    close: () => upstreamClient.close(),
  };
}
