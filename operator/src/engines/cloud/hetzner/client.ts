/**
 * Client of the provider's HTTP API. In: a request, and the schema of its response. Out: the validated response, or a
 * ProviderError. Retries what may succeed in a moment, waits for the rate limit, reads all pages of a list, and waits
 * for actions. The token is in no error: messages of the provider are searched for it.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { type Backoff, delayOf, type JsonBound, ONE_TURN, parseJson, readBounded } from '@slipway/program';
import { Agent } from 'undici';
import { isKind, ProviderError } from '../provider-error.js';
import { ActionFailed, ApiError, connectionError, responseError, unusableResponse } from './api-error.js';
import { type Headers, RequestPace, retryAfterOf } from './request-pace.js';
import { type Action, failureBody, type Listed, responses } from './schemas.js';
import { readToken } from './token-file.js';

/** Resolves after `ms`, or rejects with the signal's reason. */
export type Pause = (ms: number, signal: AbortSignal) => Promise<void>;

export interface ClientOptions {
  /** The address of the API, with its version: `https://api.hetzner.cloud/v1`. */
  url: string;
  tokenFile: string;
  /** A request without a complete response fails after this time. Default: 30 s. */
  requestMs?: number;
  /** For tests. */
  pause?: Pause;
}

export interface Call<T> {
  method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** The path after the API's address. Parts of it are encoded. */
  path: string;
  query?: Readonly<Record<string, string>>;
  body?: object;
  response: { Check(value: unknown): value is T };
  /**
   * False for a request that must not be executed twice. It is retried only if the provider did not execute it. The
   * caller finds out what happened.
   */
  repeatable: boolean;
}

const REQUEST_MS = 30_000;
const CONNECTIONS = 4;
/** A list of 25 objects is within the bound: an object has about 300 values. */
const BOUND: JsonBound = { ...ONE_TURN, depth: 20 };
const PAGE_SIZE = 25;
const MOST_PAGES = 400;

const TRIES = 6;
const RETRY: Backoff = { firstMs: 500, maxMs: 10_000 };
/** Maximum sum of the waits within one call. Beyond it, the caller retries later. */
const PATIENCE_MS = 60_000;

const POLL: Backoff = { firstMs: 250, maxMs: 5_000, jitter: 0.2 };
const ACTION_MS = 5 * 60_000;

const MOST_OF_MESSAGE = 300;

export class HetznerClient {
  readonly pause: Pause;
  readonly #agent: Agent;
  readonly #base: URL;
  readonly #pace = new RequestPace();

  constructor(private readonly options: ClientOptions) {
    const timeout = options.requestMs ?? REQUEST_MS;
    this.pause = options.pause ?? ((ms, signal) => sleep(ms, undefined, { signal }));
    this.#base = new URL(options.url);
    this.#agent = new Agent({
      connections: CONNECTIONS,
      allowH2: false,
      headersTimeout: timeout,
      bodyTimeout: timeout,
    });
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async request<T>(call: Call<T>, signal: AbortSignal): Promise<T> {
    let waitedMs = 0;
    let failed: ApiError | undefined;
    for (let attempt = 1; ; attempt += 1) {
      const backoffMs = failed ? delayOf(RETRY, attempt - 1) : 0;
      const waitMs = Math.max(backoffMs, failed?.retryAfterMs ?? 0, this.#pace.delayMs());
      if (waitedMs + waitMs > PATIENCE_MS) throw failed ?? rateLimited(waitMs);
      if (waitMs > 0) await this.#wait(waitMs, signal);
      waitedMs += waitMs;
      try {
        return await this.#send(call, signal);
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof ApiError) || attempt === TRIES || !isRepeated(error, call)) throw error;
        failed = error;
      }
    }
  }

  /** Returns the objects of all pages. */
  async list<K extends keyof Listed>(
    kind: K,
    query: Readonly<Record<string, string>>,
    signal: AbortSignal,
  ): Promise<Listed[K][]> {
    const response = responses[kind] as unknown as Call<ListPage<K>>['response'];
    const found: Listed[K][] = [];
    for (let page: number | null = 1, read = 0; page !== null; read += 1) {
      if (read === MOST_PAGES) throw unusableResponse(200, `the list of ${kind} has more than ${MOST_PAGES} pages`);
      const paged: Readonly<Record<string, string>> = { ...query, page: String(page), per_page: String(PAGE_SIZE) };
      const body: ListPage<K> = await this.request(
        { method: 'GET', path: `/${kind}`, query: paged, response, repeatable: true },
        signal,
      );
      found.push(...body[kind]);
      page = body.meta.pagination.next_page;
    }
    return found;
  }

  /** Deletes an object whose deletion has no action. Resolves too if it does not exist. */
  async deleteObject(path: string, signal: AbortSignal): Promise<void> {
    try {
      await this.request({ method: 'DELETE', path, response: responses.none, repeatable: true }, signal);
    } catch (error) {
      if (!isKind(error, 'not-found')) throw error;
    }
  }

  /** Waits for an action, with growing pauses. */
  async finish(action: Action, signal: AbortSignal, limitMs = ACTION_MS): Promise<void> {
    let current = action;
    let waitedMs = 0;
    for (let poll = 1; current.status === 'running'; poll += 1) {
      if (waitedMs > limitMs) {
        throw new ProviderError('unavailable', `The cloud provider's action ${current.command} is not finished yet.`);
      }
      const ms = delayOf(POLL, poll);
      await this.#wait(ms, signal);
      waitedMs += ms;
      const path = `/actions/${current.id}`;
      const call = { method: 'GET', path, response: responses.action, repeatable: true } as const;
      current = (await this.request(call, signal)).action;
    }
    if (current.status === 'error') {
      const error = current.error ?? { code: 'unknown_error', message: 'no reason was given' };
      throw new ActionFailed(current.command, { code: error.code, message: shown(error.message) });
    }
  }

  async #wait(ms: number, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await this.pause(ms, signal).catch((error) => {
      signal.throwIfAborted();
      throw error;
    });
  }

  async #send<T>(call: Call<T>, signal: AbortSignal): Promise<T> {
    const token = await readToken(this.options.tokenFile);
    const { status, headers, bytes } = await this.#exchange(call, token, signal);
    this.#pace.note(status, headers);
    const body = decoded(bytes);
    if (status >= 400) throw refusalOf(status, body, { token, retryAfterMs: retryAfterOf(headers) });
    if (status < 200 || status >= 300) throw unusableResponse(status, `its status is ${status}`);
    if (call.response.Check(body)) return body;
    throw unusableResponse(status, `${call.method} ${call.path} returned another form of object, or no JSON`);
  }

  /** Sends one request and reads its response. Redirects are not followed: they would carry the token elsewhere. */
  async #exchange<T>(
    { method, path, query, body }: Call<T>,
    token: string,
    signal: AbortSignal,
  ): Promise<{ status: number; headers: Headers; bytes: Buffer }> {
    const limit = AbortSignal.timeout(this.options.requestMs ?? REQUEST_MS);
    const search = new URLSearchParams(query).toString();
    try {
      const answer = await this.#agent.request({
        origin: this.#base.origin,
        path: this.#base.pathname.replace(/\/$/, '') + path + (search && `?${search}`),
        method,
        headers: {
          authorization: `Bearer ${token}`,
          'user-agent': 'slipway',
          ...(body && { 'content-type': 'application/json' }),
        },
        ...(body && { body: JSON.stringify(body) }),
        signal: AbortSignal.any([signal, limit]),
      });
      const tooLarge = () => unusableResponse(answer.statusCode, `it is larger than ${BOUND.bytes} bytes`);
      const bytes = await readBounded(answer.body, BOUND.bytes, tooLarge);
      return { status: answer.statusCode, headers: answer.headers, bytes };
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ApiError) throw error;
      throw connectionError(limit.aborted ? 'timeout' : ((error as NodeJS.ErrnoException).code ?? 'no response'));
    }
  }
}

type ListPage<K extends keyof Listed> = Record<K, Listed[K][]> & { meta: { pagination: { next_page: number | null } } };

/** Returns the path of one object. */
export const pathOf = (kind: string, id: string) => `/${kind}/${encodeURIComponent(id)}`;

const isRepeated = ({ failure }: ApiError, { repeatable }: { repeatable: boolean }) =>
  failure.transient && (repeatable || !failure.mayHaveRun);

const rateLimited = (retryAfterMs: number) =>
  new ProviderError('unavailable', "The cloud provider's rate limit is exhausted.", { retryAfterMs });

function decoded(bytes: Buffer): unknown {
  if (bytes.length === 0) return {};
  try {
    return parseJson(bytes, BOUND);
  } catch {
    return undefined;
  }
}

function refusalOf(
  status: number,
  body: unknown,
  { token, retryAfterMs }: { token: string; retryAfterMs: number | undefined },
) {
  if (!failureBody.Check(body)) {
    return responseError(status, { code: 'no_code', message: 'the response has no reason' }, retryAfterMs);
  }
  const clean = (text: string) => shown(text.replaceAll(token, '[token]'));
  const { code, message, details } = body.error;
  const fields = (details?.fields ?? []).map(({ name }) => clean(name));
  return responseError(status, { code: clean(code), message: clean(message), fields }, retryAfterMs);
}

/** Returns text of the provider for a message: one line, of a limited length, without a dot at its end. */
const shown = (text: string) =>
  text
    .replaceAll(/[\x00-\x1f\x7f]+/g, ' ')
    .slice(0, MOST_OF_MESSAGE)
    .replace(/\.$/, '');
