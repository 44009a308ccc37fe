/**
 * Hands whole requests on to one other server, streaming both ways. What says where a request came from is written here, never passed
 * through; while the server is away callers get `unreachable`, and whoever has too much under way there is told to come again.
 */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Carrier, type CarrierLimits, type ServiceAddress, ServiceBusy, ServiceTooSlow } from './carrier.js';
import { handedOn } from './hop.js';
import { type Refusal, refuse, serviceBusy, serviceTooSlow } from './refusals.js';

export interface HandOnOptions {
  /** What refusals call it. */
  name: string;
  to: { socketPath: string } | ServiceAddress;
  /** On every request. */
  headers: OutgoingHttpHeaders;
  unreachable: Refusal;
  limits: Partial<CarrierLimits>;
}

export function handOn({ name, to, headers: own, unreachable, limits }: HandOnOptions) {
  const carrier = new Carrier(limits);
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
      carrier
        .carry({ to: of, address: to, path, headers, saysWhoMayRead: true, request: { incoming, outgoing } })
        .catch((error: unknown) => refuse(outgoing, refusalOf(error)));
    },
    close: () => carrier.close(),
  };
}
