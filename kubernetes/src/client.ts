/**
 * A client of the Kubernetes API over kept-alive connections. In: a KubeConfig with the server, its TLS settings and
 * the caller's credentials. Out: JSON, or a stream of lines. client-node's own calls open a connection each, which
 * costs a TLS handshake per request.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { type JsonBound, JsonRefusal, parseJson, parseJsonInTurns, readBounded } from '@slipway/program';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import { AnswerTooLarge, KubeError, Unanswered } from './errors.js';
import type { KubeConfig } from './kubeconfig.js';

export interface KubeRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  query?: Record<string, string>;
  body?: unknown;
  /** Content type of the body. Default: JSON, and for a PATCH a merge patch. */
  contentType?: string;
  /** Content type of the response. Default: JSON. */
  accept?: string;
  signal?: AbortSignal;
}

export interface ListRequest {
  path: string;
  /** Label and field selectors. */
  query?: Record<string, string>;
  /** Objects in one page. Default: 100. */
  limit?: number;
  signal?: AbortSignal;
}

interface List<T> {
  metadata: { resourceVersion: string; continue?: string };
  items: T[];
}

/** Called for each response. A request without a response has no status. */
export type RequestObserver = (request: { method: string; resource: string; status: number | undefined }) => void;

/**
 * Milliseconds for which the authorization headers are cached. Then they are read again, because the kubelet renews
 * tokens in files.
 */
const AUTHORIZATION_MS = 30_000;
const REQUEST_TIMEOUT_MS = 30_000;
const CONNECTIONS = 32;
/** Number of objects in one page of a list. */
const PAGE = 100;
/** Limits of a page. API servers limit each object in it to 1.5 MiB. */
const MOST_OF_RESPONSE: JsonBound = { bytes: 64 * 1024 * 1024, depth: 510, values: 2_000_000 };
/**
 * Maximum characters of a line of a watch. A line has one object. API servers accept objects of 1.5 MiB, and JSON may
 * write one character as six.
 */
const LONGEST_LINE = 9 * 1024 * 1024;
/** Milliseconds after which an idle connection is closed, before any server closes it. */
const IDLE_MS = 30_000;
/** Maximum attempts in all, and maximum wait, for requests to a server that responds with Retry-After. */
const BUSY_TRIES = 5;
const BUSY_WAIT_MS = 10_000;
/**
 * Maximum milliseconds of jitter. Without it all clients would retry at the same moment. It also covers the resolution
 * of clocks, which may end a wait a little early.
 */
const BUSY_JITTER_MS = 100;
/** Maximum bytes of an error's body that are read. */
const ERROR_BODY_LIMIT = 64_000;

export interface KubeClientOptions {
  observe?: RequestObserver;
  /**
   * Deadline in milliseconds of a call of `request`, with all its attempts. Default: each attempt has a timeout of its
   * own.
   */
  deadlineMs?: number;
}

export class KubeClient {
  readonly #config: KubeConfig;
  readonly #server: URL;
  readonly #requests: Dispatcher;
  readonly #watches: Dispatcher;
  readonly #observe: RequestObserver;
  readonly #deadlineMs: number | undefined;
  readonly #closed = new AbortController();
  #authorization: { headers: Record<string, string>; until: number } | undefined;

  private constructor(
    config: KubeConfig,
    requests: Dispatcher,
    watches: Dispatcher,
    { observe = () => {}, deadlineMs }: KubeClientOptions,
  ) {
    this.#config = config;
    this.#observe = observe;
    this.#deadlineMs = deadlineMs;
    this.#server = new URL(config.server);
    this.#requests = requests;
    this.#watches = watches;
  }

  static async connect(config: KubeConfig, options: KubeClientOptions = {}): Promise<KubeClient> {
    const make = (connections: number | null): Dispatcher => {
      // HTTP/2 would use one connection for all requests, so a slow watch could hold up a write.
      const settings = {
        connections,
        allowH2: false,
        headersTimeout: REQUEST_TIMEOUT_MS,
        keepAliveMaxTimeout: IDLE_MS,
      };
      const tls = { keepAlive: true, keepAliveInitialDelay: IDLE_MS, ...config.tls } as Agent.Options['connect'] & {};
      if (config.proxy) return new ProxyAgent({ ...settings, uri: config.proxy, requestTls: tls as object });
      return new Agent({ ...settings, connect: tls });
    };
    return new KubeClient(config, make(CONNECTIONS), make(null), options);
  }

  get<T>(path: string, query?: Record<string, string>): Promise<T> {
    return this.request<T>({ method: 'GET', path, ...(query ? { query } : {}) });
  }

  create<T>(path: string, body: T): Promise<T> {
    return this.request<T>({ method: 'POST', path, body });
  }

  /** Changes only the members that `body` contains (RFC 7396). */
  patch<T>(path: string, body: unknown): Promise<T> {
    return this.request<T>({ method: 'PATCH', path, body });
  }

  /** Applies `body` by server-side apply. Fields that another manager owns become `fieldManager`'s again. */
  apply<T>(path: string, body: unknown, fieldManager: string): Promise<T> {
    const query = { fieldManager, force: 'true' };
    return this.request<T>({ method: 'PATCH', path, query, body, contentType: 'application/apply-patch+yaml' });
  }

  delete(path: string): Promise<unknown> {
    return this.request({ method: 'DELETE', path });
  }

  /**
   * Calls `each` for all objects of a list, in pages of `limit` objects. Only the text of one page is in memory at a
   * time. A server may end a page earlier, by its bytes. If a page is too large, it is requested again with fewer
   * objects. Returns the version of the list. Throws 410 if the list changed too much between two pages.
   */
  async eachOf<T>({ path, query, limit = PAGE, signal }: ListRequest, each: (object: T) => void): Promise<string> {
    let size = limit;
    for (let next = ''; ; ) {
      const page = { ...query, limit: String(size), ...(next && { continue: next }) };
      const request: KubeRequest = { method: 'GET', path, query: page, ...(signal && { signal }) };
      const answer = await this.request<List<T>>(request).catch((error) => {
        if (!(error instanceof AnswerTooLarge) || size === 1) throw error;
      });
      if (!answer) {
        size = Math.ceil(size / 4);
        continue;
      }
      const { items, metadata } = answer;
      for (const object of items) each(object);
      next = metadata.continue ?? '';
      if (next === '') return metadata.resourceVersion;
    }
  }

  async request<T>(request: KubeRequest): Promise<T> {
    const ends = this.#deadlineMs === undefined ? [] : [AbortSignal.timeout(this.#deadlineMs)];
    const signals = [...(request.signal ? [request.signal] : []), ...ends];
    const bounded = signals.length > 0 ? { ...request, signal: AbortSignal.any(signals) } : request;
    const response = await this.#send(bounded, this.#requests, REQUEST_TIMEOUT_MS);
    const tooLarge = () => new AnswerTooLarge();
    const bytes = await readBounded(response.body, MOST_OF_RESPONSE.bytes, tooLarge).catch(unread);
    return (await parseJsonInTurns(bytes, MOST_OF_RESPONSE).catch(unread)) as T;
  }

  /**
   * Yields each line of the response as it arrives. Throws when nothing arrived for `silenceMs`. `onAnswer` is called
   * when the response begins.
   */
  async *lines(request: KubeRequest, silenceMs: number, onAnswer?: () => void): AsyncGenerator<string> {
    const response = await this.#send(request, this.#watches, silenceMs);
    onAnswer?.();
    const decoder = new TextDecoder();
    let rest = '';
    for await (const chunk of response.body) {
      const lines = (rest + decoder.decode(chunk as Buffer, { stream: true })).split('\n');
      rest = lines.pop() as string;
      for (const line of lines) if (line !== '') yield line;
      if (rest.length > LONGEST_LINE) throw new Error(`an event of a watch has more than ${LONGEST_LINE} characters`);
    }
  }

  /** Yields the pieces of a response that is not JSON as they arrive. Throws when nothing arrived for `silenceMs`. */
  async *bytes(request: KubeRequest, silenceMs: number): AsyncGenerator<Buffer> {
    const response = await this.#send({ accept: '*/*', ...request }, this.#watches, silenceMs);
    for await (const piece of response.body) yield piece as Buffer;
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.all([this.#requests.destroy(), this.#watches.destroy()]);
  }

  async #send(request: KubeRequest, dispatcher: Dispatcher, bodyTimeout: number): Promise<Dispatcher.ResponseData> {
    for (let tries = 1; ; tries++) {
      const response = await this.#once(request, dispatcher, bodyTimeout).catch((error) => {
        if (!isSafeToRepeat(request) || !isBrokenConnection(error)) throw error;
        return this.#once(request, dispatcher, bodyTimeout);
      });
      if (response.statusCode < 300) return response;
      if (response.statusCode === 401) this.#authorization = undefined;
      const error = await kubeError(response, resourceOf(request.path));
      const waitMs = busyFor(response);
      if (waitMs === undefined) throw error;
      const signal = AbortSignal.any([this.#closed.signal, ...(request.signal ? [request.signal] : [])]);
      await sleep(waitMs + Math.random() * BUSY_JITTER_MS, undefined, { signal }).catch(() => {
        throw error;
      });
      // Thrown only after the wait, so that a caller that retries does not retry too soon.
      if (tries === BUSY_TRIES) throw error;
    }
  }

  async #once(
    { method, path, query, body, contentType, accept = 'application/json', signal }: KubeRequest,
    dispatcher: Dispatcher,
    bodyTimeout: number,
  ): Promise<Dispatcher.ResponseData> {
    const resource = resourceOf(path);
    const sent = dispatcher.request({
      origin: this.#server.origin,
      path: this.#server.pathname.replace(/\/$/, '') + path,
      method,
      headers: {
        accept,
        ...(body === undefined ? {} : { 'content-type': contentType ?? contentTypeOf(method) }),
        ...(await this.#headers()),
      },
      bodyTimeout,
      ...(query ? { query } : {}),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal ? { signal } : {}),
    });
    const response = await sent.catch((error) => {
      this.#observe({ method, resource, status: undefined });
      return unanswered(error);
    });
    this.#observe({ method, resource, status: response.statusCode });
    return response;
  }

  async #headers(): Promise<Record<string, string>> {
    if (this.#authorization && this.#authorization.until > performance.now()) return this.#authorization.headers;
    const headers = await this.#config.headers();
    this.#authorization = { headers, until: performance.now() + AUTHORIZATION_MS };
    return headers;
  }
}

function unanswered(error: Error): never {
  throw new Unanswered(error);
}

function unread(error: Error): never {
  if (error instanceof AnswerTooLarge) throw error;
  if (error instanceof JsonRefusal && error.reason !== 'syntax') throw new AnswerTooLarge();
  return unanswered(error);
}

const BROKEN = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/**
 * True if the connection broke. A server that closes an idle connection, as at its end, may do so just when a request
 * is sent.
 */
const isBrokenConnection = (error: unknown) =>
  error instanceof Unanswered && BROKEN.has((error.cause as { code?: string }).code ?? '');

/**
 * True for a request that can be repeated: a read, or a deletion with the object's uid. Any other request may already
 * have been executed.
 */
function isSafeToRepeat({ method, body }: KubeRequest): boolean {
  const { preconditions } = (body ?? {}) as { preconditions?: { uid?: string } };
  return method === 'GET' || (method === 'DELETE' && preconditions?.uid !== undefined);
}

/**
 * Returns the resource of a path, without names of objects: `/apis/slipway.dev/v1alpha1/projects/x/status` →
 * `projects`.
 */
function resourceOf(path: string): string {
  const [, resource, nested] = /^\/(?:api\/v1|apis\/[^/]+\/[^/]+)\/([a-z]+)(?:\/[^/]+\/([a-z]+))?/.exec(path) ?? [];
  return (resource === 'namespaces' && nested) || resource || 'other';
}

const contentTypeOf = (method: string) => (method === 'PATCH' ? 'application/merge-patch+json' : 'application/json');

/**
 * Returns the milliseconds of an overloaded server's Retry-After. Undefined if the response does not ask for a retry.
 */
function busyFor({ statusCode, headers }: Dispatcher.ResponseData): number | undefined {
  const seconds = Number(headers['retry-after'] ?? Number.NaN);
  const isBusy = statusCode === 429 || statusCode >= 500;
  return isBusy && seconds >= 0 ? Math.min(seconds * 1000, BUSY_WAIT_MS) : undefined;
}

const NO_BODY = Buffer.alloc(0);

async function kubeError(response: Dispatcher.ResponseData, resource: string): Promise<KubeError> {
  const text = (await readBounded(response.body, ERROR_BODY_LIMIT).catch(() => NO_BODY)).toString();
  try {
    const status = parseJson(text) as { reason?: string; message?: string };
    return new KubeError(response.statusCode, status.reason ?? 'Unknown', status.message ?? text, resource);
  } catch {
    return new KubeError(response.statusCode, 'Unknown', text.slice(0, 200), resource);
  }
}
