/**
 * Serves the live deployments of hosted projects. In: GET and HEAD requests at a site's own origin. Out: files
 * according to the deployment's manifest. One request uses one deployment.
 */
import type { FileHandle } from 'node:fs/promises';
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { LogThrottle, underWay } from '@slipway/program';
import { SiteReader } from '@slipway/sites';
import type { Logger } from 'pino';
import {
  FAILED,
  FORMS_NOT_OFFERED,
  NOTHING_DEPLOYED,
  READ_ONLY_SITE,
  type Refusal,
  refuse,
} from '../../http/refusals.js';
import type { FormRequest, Hosting, SiteRequest } from '../service.js';
import { hasHash } from './caching.js';
import { decodedPath } from './encoding.js';
import { type Content, FileContents } from './file-contents.js';
import type { EntryPlace } from './forms/entry-store.js';
import { FormReceiver } from './forms/form-receiver.js';
import { applyHeaderRules } from './header-rules.js';
import { type LiveDeployment, LiveDeployments } from './live-deployments.js';
import { type Found, findFile, hasFileAt } from './lookup.js';
import { MALFORMED_PATH, NO_FILE } from './refusals.js';
import { type Representation, represent } from './representation.js';

export interface HostingOptions {
  /** Folder of sites. */
  folder: string;
  /** Where the API stores entries of forms; undefined: nowhere. */
  forms?: EntryPlace | undefined;
  log: Logger;
}

export const createHosting = (options: HostingOptions): Hosting => new SiteServer(options);

/** Request that a deployment answers. */
interface Visit extends SiteRequest {
  deployment: LiveDeployment;
  /** True if the deployment was pruned during an earlier attempt of this request. */
  isRepeated: boolean;
}

const STREAMED_AT_ONCE = 256 * 1024;

class SiteServer implements Hosting {
  readonly #reader: SiteReader;
  readonly #deployments: LiveDeployments;
  readonly #contents = new FileContents();
  readonly #failures: LogThrottle;
  readonly #log: Logger;
  readonly #forms: FormReceiver | undefined;

  constructor({ folder, forms, log }: HostingOptions) {
    this.#reader = new SiteReader(folder);
    this.#deployments = new LiveDeployments(this.#reader);
    this.#log = log;
    this.#forms = forms && new FormReceiver(forms, log);
    this.#failures = new LogThrottle((leftOut, ref) => log.error({ ref, leftOut }, 'more failed requests of sites'));
  }

  serve(request: SiteRequest): void {
    underWay(request.ref, 'site request');
    const deployment = this.#deployments.current(siteOf(request));
    if (deployment) this.#answer({ ...request, deployment, isRepeated: false });
    else void this.#find(request, false);
  }

  receive(request: FormRequest): void {
    underWay(request.ref, 'site request');
    this.#receive(request).catch((error: unknown) => this.#fail(error, request));
  }

  close(): void {
    this.#failures.close();
    this.#forms?.close();
  }

  async #receive(request: FormRequest): Promise<void> {
    const deployment = await this.#deployments.find(siteOf(request));
    if (!deployment) return refuseVisit(request, NOTHING_DEPLOYED);
    const path = decodedPath(request.target.split('?', 1)[0] as string);
    if (path === undefined) return refuseVisit(request, MALFORMED_PATH);
    if (hasFileAt(deployment.files, path)) return refuseVisit(request, READ_ONLY_SITE);
    if (!this.#forms) return refuseVisit(request, FORMS_NOT_OFFERED);
    request.outgoing.setHeader('X-Request-Id', request.requestId);
    await this.#forms.receive(request);
  }

  async #find(request: SiteRequest, isRepeated: boolean): Promise<void> {
    try {
      const deployment = await this.#deployments.find(siteOf(request));
      if (deployment) this.#answer({ ...request, deployment, isRepeated });
      else refuseVisit(request, NOTHING_DEPLOYED);
    } catch (error) {
      this.#fail(error, request);
    }
  }

  #answer(visit: Visit): void {
    const { deployment, target, incoming } = visit;
    const mark = target.indexOf('?');
    const [place, query] = mark === -1 ? [target, ''] : [target.slice(0, mark), target.slice(mark)];
    const path = decodedPath(place);
    if (path === undefined) return refuseVisit(visit, MALFORMED_PATH);
    const match = findFile(deployment, path, query, incoming.headers['sec-fetch-mode'] as string | undefined);
    if (match.kind !== 'redirect' && !deployment.files.has(path) && hasHash(path)) {
      return void this.#answerByEarlier(visit, path, match);
    }
    this.#answerBy(visit, path, match);
  }

  /** Looks the file up in earlier deployments, for a page that was loaded before the last switch. */
  async #answerByEarlier(visit: Visit, path: string, match: Found): Promise<void> {
    try {
      const file = (await this.#deployments.earlierAssets(visit.deployment)).get(path);
      this.#answerBy(visit, path, file ? { kind: 'file', status: 200, file, isFallback: false } : match);
    } catch (error) {
      this.#fail(error, visit);
    }
  }

  #answerBy(visit: Visit, path: string, match: Found): void {
    const { deployment, incoming, requestId, preview } = visit;
    if (match.kind === 'redirect') return sendRedirect(visit, match.status, match.location);
    if (match.kind === 'missing') return refuseVisit(visit, NO_FILE);
    const representation = represent(match, incoming.method, incoming.headers);
    const { headers } = representation;
    if (deployment.headerRules.length > 0) applyHeaderRules(deployment.headerRules, path, headers);
    // The gateway has set noindex for previews, which owners' rules can't remove.
    if (preview !== undefined) dropHeader(headers, 'x-robots-tag');
    headers['X-Request-Id'] = requestId;
    this.#sendFile(visit, representation);
  }

  #sendFile(visit: Visit, representation: Representation): void {
    const { outgoing, deployment } = visit;
    const { file, encoding, bytes } = representation;
    if (representation.isHeadAlone || bytes === 0) {
      return void outgoing.writeHead(representation.status, representation.headers).end();
    }
    const key = `${deployment.ref} ${file.hash} ${encoding}`;
    const content = this.#contents.find(key);
    if (content) return this.#sendContent(outgoing, representation, content);
    const open = () => this.#reader.open(deployment.ref, file.deployment ?? deployment.id, file.path, encoding);
    const reading = this.#contents.read(key, bytes, open);
    const sending = reading
      ? reading.then((read) => read && this.#sendContent(outgoing, representation, read))
      : open().then((opened) => opened && stream(opened, representation, outgoing));
    // The promises have `undefined` where the deployment was pruned: nothing is sent then.
    sending.then(() => outgoing.headersSent || this.#retry(visit)).catch((error: unknown) => this.#fail(error, visit));
  }

  #sendContent(outgoing: ServerResponse, { status, headers, range }: Representation, content: Content): void {
    if (outgoing.destroyed) return;
    outgoing.writeHead(status, headers);
    this.#contents.send(content, range, outgoing);
  }

  #retry(visit: Visit): void {
    if (visit.outgoing.destroyed) return;
    if (visit.isRepeated) throw new Error('a file of the live deployment is missing');
    this.#deployments.doubt(visit.deployment);
    void this.#find(visit, true);
  }

  #fail(error: unknown, request: SiteRequest): void {
    const { ref, requestId, outgoing } = request;
    if (outgoing.destroyed) return;
    if (this.#failures.take(ref)) this.#log.error({ err: error, ref, requestId }, 'site request failed');
    refuseVisit(request, FAILED);
  }
}

const siteOf = ({ ref, preview }: SiteRequest) => preview ?? ref;

/** `name` is in lower case. */
function dropHeader(headers: OutgoingHttpHeaders, name: string): void {
  for (const own of Object.keys(headers)) if (own.toLowerCase() === name) delete headers[own];
}

/** Headers are passed with the head, because `setHeader` before a head makes each of them slower. */
function refuseVisit({ outgoing, requestId }: SiteRequest, refusal: Refusal): void {
  if (!outgoing.headersSent) outgoing.setHeader('X-Request-Id', requestId);
  refuse(outgoing, refusal);
}

/** A redirect is cached only for this deployment, as the next one may have a file there. */
function sendRedirect({ outgoing, requestId }: SiteRequest, status: number, location: string): void {
  outgoing
    .writeHead(status, {
      Location: location,
      'Content-Length': 0,
      'Cache-Control': 'public, max-age=0, must-revalidate',
      'X-Content-Type-Options': 'nosniff',
      'X-Request-Id': requestId,
    })
    .end();
}

/** Closes the file. */
async function stream(opened: FileHandle, representation: Representation, outgoing: ServerResponse): Promise<void> {
  const { status, headers, bytes } = representation;
  const { start, end } = representation.range ?? { start: 0, end: bytes - 1 };
  const source = opened.createReadStream({ start, end, highWaterMark: STREAMED_AT_ONCE });
  await pipeline(source, outgoing.writeHead(status, headers));
}
