/**
 * Serves sites whose files are in separate pods, each a data plane with its folder. In: requests at a site's own
 * origin, posted forms among them, and the URLs of the pods. Out: the response of the project's pod. The gateway uses
 * it in place of local hosting.
 */
import { podOf } from '@slipway/installation';
import type { Logger } from 'pino';
import { handedOn } from '../http/proxy-headers.js';
import { refuse, serviceBusy, serviceDown, serviceTooSlow } from '../http/refusals.js';
import { answerForm, unavailable } from '../services/form-answers.js';
import type { FormRequest, Hosting, SiteRequest } from '../services/service.js';
import { ServiceBusy, ServiceTooSlow, UpstreamClient } from './upstream-client.js';

const NAME = 'hosting';
/** Longer than the gateway waits for the body of a form. */
const FORM_STILL_MS = 150_000;

export function createRemoteSites(urls: readonly string[], log: Logger): Hosting {
  return new RemoteSites(urls, log);
}

class RemoteSites implements Hosting {
  readonly #client = new UpstreamClient();
  /** Separate, so that visitors who send forms slowly use none of the places of those who read pages. */
  readonly #formsClient = new UpstreamClient({ stillMilliseconds: FORM_STILL_MS });

  constructor(
    private readonly urls: readonly string[],
    private readonly log: Logger,
  ) {}

  serve(request: SiteRequest): void {
    this.#forward(this.#client, request, (error) => refuse(request.outgoing, refusalOf(error)));
  }

  /** The pod counts the visitor's address, decodes the form, and sends the entry to the API. */
  receive(request: FormRequest): void {
    const { incoming, outgoing } = request;
    this.#forward(this.#formsClient, request, (error) =>
      answerForm(incoming, outgoing, unavailable(error instanceof ServiceBusy ? 1 : 5)),
    );
  }

  close(): void {
    this.#client.close();
    this.#formsClient.close();
  }

  #forward(client: UpstreamClient, request: SiteRequest, onFailure: (error: unknown) => void): void {
    const { ref, target, incoming, outgoing, address, requestId } = request;
    const { hostname: host, port } = new URL(podOf(ref, this.urls));
    client
      .forward({
        to: `${ref}/${NAME}`,
        address: { host, port: Number(port || 80) },
        path: target,
        headers: { ...handedOn(incoming), 'x-forwarded-for': address },
        saysWhoMayRead: true,
        request: { incoming, outgoing },
        onAnswer: (answered) => {
          answered['x-request-id'] = requestId;
          // The rest of a body that the pod rejected is not read.
          if (!incoming.complete) answered.connection = 'close';
        },
      })
      .catch((error: unknown) => {
        if (!(error instanceof ServiceBusy)) this.log.warn({ err: error, ref, requestId }, 'site pod unreachable');
        if (!outgoing.headersSent) outgoing.setHeader('X-Request-Id', requestId);
        onFailure(error);
      });
  }
}

function refusalOf(error: unknown) {
  if (error instanceof ServiceBusy) return serviceBusy(NAME);
  return error instanceof ServiceTooSlow ? serviceTooSlow(NAME) : serviceDown(NAME);
}
