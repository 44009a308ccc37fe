/**
 * Serves sites whose files are in separate pods, each a data plane with its folder. In: requests at a site's own
 * origin, and the URLs of the pods. Out: the response of the project's pod. The gateway uses it in place of local
 * hosting.
 */
import { podOf } from '@slipway/installation';
import type { Logger } from 'pino';
import { handedOn } from '../http/proxy-headers.js';
import { FORMS_NOT_OFFERED, refuse, serviceBusy, serviceDown, serviceTooSlow } from '../http/refusals.js';
import type { FormRequest, Hosting, SiteRequest } from '../services/service.js';
import { ServiceBusy, ServiceTooSlow, UpstreamClient } from './upstream-client.js';

const NAME = 'hosting';

export function createRemoteSites(urls: readonly string[], log: Logger): Hosting {
  return new RemoteSites(urls, log);
}

class RemoteSites implements Hosting {
  readonly #client = new UpstreamClient();

  constructor(
    private readonly urls: readonly string[],
    private readonly log: Logger,
  ) {}

  serve(request: SiteRequest): void {
    const { ref, target, incoming, outgoing, address, requestId } = request;
    const { hostname: host, port } = new URL(podOf(ref, this.urls));
    this.#client
      .forward({
        to: `${ref}/${NAME}`,
        address: { host, port: Number(port || 80) },
        path: target,
        headers: { ...handedOn(incoming), 'x-forwarded-for': address },
        saysWhoMayRead: true,
        request: { incoming, outgoing },
        onAnswer: (answered) => {
          answered['x-request-id'] = requestId;
        },
      })
      .catch((error: unknown) => {
        if (!(error instanceof ServiceBusy)) this.log.warn({ err: error, ref, requestId }, 'site pod unreachable');
        if (!outgoing.headersSent) outgoing.setHeader('X-Request-Id', requestId);
        refuse(outgoing, refusalOf(error));
      });
  }

  /** The pods of sites reach no program that stores entries. */
  receive({ outgoing, requestId }: FormRequest): void {
    outgoing.setHeader('X-Request-Id', requestId);
    refuse(outgoing, FORMS_NOT_OFFERED);
  }

  close(): void {
    this.#client.close();
  }
}

function refusalOf(error: unknown) {
  if (error instanceof ServiceBusy) return serviceBusy(NAME);
  return error instanceof ServiceTooSlow ? serviceTooSlow(NAME) : serviceDown(NAME);
}
