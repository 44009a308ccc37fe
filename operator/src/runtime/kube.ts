/**
 * The Kubernetes API over kept-alive connections. In: a KubeConfig, which knows the server, its TLS and who we are.
 * Out: JSON, or a stream of lines. client-node's own calls make a connection each, which costs a TLS handshake a
 * request.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeConfig } from '@kubernetes/client-node';
import { Agent, type Dispatcher, ProxyAgent } from 'undici';
import { TransientError } from './transient-error.js';

export interface KubeObject {
  apiVersion?: string;
  kind?: string;
  metadata: {
    name: string;
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    generation?: number;
    creationTimestamp?: string;
    deletionTimestamp?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    finalizers?: string[];
    ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string }[];
  };
}

/** An error response of the API server. */
export class KubeError extends Error {
  constructor(
    readonly status: number,
    readonly reason: string,
    message: string,
    /** The requested resource, in the plural: `secrets`. */
    readonly resource: string,
  ) {
    super(message);
    this.name = 'KubeError';
  }
}

export const isNotFound = (error: unknown) => error instanceof KubeError && error.status === 404;
export const isConflict = (error: unknown) => error instanceof KubeError && error.status === 409;
export const isInvalid = (error: unknown) => error instanceof KubeError && error.status === 422;
export const isGone = (error: unknown) => error instanceof KubeError && error.status === 410;

export interface KubeRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  path: string;
  query?: Record<string, string>;
  body?: unknown;
  /** Content type of the body. Default: JSON, and for a PATCH a merge patch. */
  contentType?: string;
  signal?: AbortSignal;
}

/** Told of each answer; a request that brings none has no status. */
export type RequestObserver = (request: { method: string; resource: string; status: number | undefined }) => void;

/** How long a token that the kubeconfig names is used before it is read again: kubelet renews those in files. */
const AUTHORIZATION_MS = 30_000;
const REQUEST_TIMEOUT_MS = 30_000;
const CONNECTIONS = 32;
/** An idle connection ends before any server closes it, also where the server allows longer. */
const IDLE_MS = 30_000;
/** A server that says how long to leave it alone is asked so often in all, and waited for so long at most. */
const BUSY_TRIES = 5;
const BUSY_WAIT_MS = 10_000;
/** All whom it told so would come back at the same moment, and by the grain of clocks a little early. */
const BUSY_JITTER_MS = 100;
/** The longest error body that is read. */
const ERROR_BODY_LIMIT = 64_000;

export class KubeClient {
  readonly #config: KubeConfig;
  readonly #server: URL;
  readonly #requests: Dispatcher;
  readonly #watches: Dispatcher;
  readonly #observe: RequestObserver;
  readonly #closed = new AbortController();
  #authorization: { headers: Record<string, string>; until: number } | undefined;

  private constructor(config: KubeConfig, requests: Dispatcher, watches: Dispatcher, observe: RequestObserver) {
    this.#config = config;
    this.#observe = observe;
    this.#server = new URL(serverOf(config));
    this.#requests = requests;
    this.#watches = watches;
  }

  static async connect(config: KubeConfig, observe: RequestObserver = () => {}): Promise<KubeClient> {
    const settings: Record<string, unknown> = {};
    await config.applyToHTTPSOptions(settings);
    const dispatcher = config.createDispatcherOptions(config.getCurrentCluster(), settings);
    const make = (connections: number | null): Dispatcher => {
      // One connection for all, as HTTP/2 has it, would let a slow watch hold up a write.
      const options = { connections, allowH2: false, headersTimeout: REQUEST_TIMEOUT_MS, keepAliveMaxTimeout: IDLE_MS };
      switch (dispatcher.type) {
        case 'agent':
          return new Agent({ ...options, connect: dispatcher.connect as NonNullable<Agent.Options['connect']> });
        case 'none':
          return new Agent(options);
        case 'proxy':
          return new ProxyAgent({
            ...options,
            uri: dispatcher.uri,
            requestTls: dispatcher.requestTls as NonNullable<ProxyAgent.Options['requestTls']>,
          });
        case 'socks':
          throw new Error('the kubeconfig names a SOCKS proxy, which is not supported: use an HTTP proxy');
      }
    };
    return new KubeClient(config, make(CONNECTIONS), make(null), observe);
  }

  get<T>(path: string, query?: Record<string, string>): Promise<T> {
    return this.request<T>({ method: 'GET', path, ...(query ? { query } : {}) });
  }

  create<T>(path: string, body: T): Promise<T> {
    return this.request<T>({ method: 'POST', path, body });
  }

  /** Changes what `body` names and nothing else (RFC 7396). */
  patch<T>(path: string, body: unknown): Promise<T> {
    return this.request<T>({ method: 'PATCH', path, body });
  }

  /**
   * Makes the object have what `body` says (server-side apply); fields that others had taken become `fieldManager`'s
   * again.
   */
  apply<T>(path: string, body: unknown, fieldManager: string): Promise<T> {
    const query = { fieldManager, force: 'true' };
    return this.request<T>({ method: 'PATCH', path, query, body, contentType: 'application/apply-patch+yaml' });
  }

  delete(path: string): Promise<unknown> {
    return this.request({ method: 'DELETE', path });
  }

  async request<T>(request: KubeRequest): Promise<T> {
    const response = await this.#send(request, this.#requests, REQUEST_TIMEOUT_MS);
    return (await response.body.json().catch(unanswered)) as T;
  }

  /** Yields each line of the answer as it comes; throws when nothing came for `silenceMs`. */
  async *lines(request: KubeRequest, silenceMs: number): AsyncGenerator<string> {
    const response = await this.#send(request, this.#watches, silenceMs);
    const decoder = new TextDecoder();
    let rest = '';
    for await (const chunk of response.body) {
      const lines = (rest + decoder.decode(chunk as Buffer, { stream: true })).split('\n');
      rest = lines.pop() as string;
      for (const line of lines) if (line !== '') yield line;
    }
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.all([this.#requests.destroy(), this.#watches.destroy()]);
  }

  async #send(request: KubeRequest, dispatcher: Dispatcher, bodyTimeout: number): Promise<Dispatcher.ResponseData> {
    for (let tries = 1; ; tries++) {
      const response = await this.#once(request, dispatcher, bodyTimeout);
      if (response.statusCode < 300) return response;
      if (response.statusCode === 401) this.#authorization = undefined;
      const error = await kubeError(response, resourceOf(request.path));
      const waitMs = busyFor(response);
      if (waitMs === undefined) throw error;
      const signal = AbortSignal.any([this.#closed.signal, ...(request.signal ? [request.signal] : [])]);
      await sleep(waitMs + Math.random() * BUSY_JITTER_MS, undefined, { signal }).catch(() => {
        throw error;
      });
      // Not before: whoever asks again would ask too soon.
      if (tries === BUSY_TRIES) throw error;
    }
  }

  async #once(
    { method, path, query, body, contentType, signal }: KubeRequest,
    dispatcher: Dispatcher,
    bodyTimeout: number,
  ): Promise<Dispatcher.ResponseData> {
    const resource = resourceOf(path);
    const sent = dispatcher.request({
      origin: this.#server.origin,
      path: this.#server.pathname.replace(/\/$/, '') + path,
      method,
      headers: {
        accept: 'application/json',
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
    const settings: { headers?: Record<string, string>; auth?: string } = {};
    await this.#config.applyToHTTPSOptions(settings);
    const basic = settings.auth ? { authorization: `Basic ${Buffer.from(settings.auth).toString('base64')}` } : {};
    const headers = { ...settings.headers, ...basic };
    this.#authorization = { headers, until: performance.now() + AUTHORIZATION_MS };
    return headers;
  }
}

/** A request without a response, or with half of one. */
function unanswered(error: Error): never {
  throw new TransientError(`the Kubernetes API does not answer: ${error.message}`, { cause: error });
}

function serverOf(config: KubeConfig): string {
  const server = config.getCurrentCluster()?.server;
  if (!server) throw new Error('KUBECONFIG names no cluster: set its current-context');
  return server;
}

/** `/apis/slipway.dev/v1alpha1/projects/x/status` → `projects`; names of objects are no part of it. */
function resourceOf(path: string): string {
  const [, resource, nested] = /^\/(?:api\/v1|apis\/[^/]+\/[^/]+)\/([a-z]+)(?:\/[^/]+\/([a-z]+))?/.exec(path) ?? [];
  return (resource === 'namespaces' && nested) || resource || 'other';
}

const contentTypeOf = (method: string) => (method === 'PATCH' ? 'application/merge-patch+json' : 'application/json');

/** How long a server that has too much to do asks to be left alone; undefined: it does not ask. */
function busyFor({ statusCode, headers }: Dispatcher.ResponseData): number | undefined {
  const seconds = Number(headers['retry-after'] ?? Number.NaN);
  const isBusy = statusCode === 429 || statusCode >= 500;
  return isBusy && seconds >= 0 ? Math.min(seconds * 1000, BUSY_WAIT_MS) : undefined;
}

async function kubeError(response: Dispatcher.ResponseData, resource: string): Promise<KubeError> {
  const text = (await response.body.text()).slice(0, ERROR_BODY_LIMIT);
  try {
    const status = JSON.parse(text) as { reason?: string; message?: string };
    return new KubeError(response.statusCode, status.reason ?? 'Unknown', status.message ?? text, resource);
  } catch {
    return new KubeError(response.statusCode, 'Unknown', text.slice(0, 200), resource);
  }
}
