/**
 * Records every request of the load: its kind, time and outcome. In: the fetch for the clients, and work without HTTP.
 * Out: a list to check and to count. The load writes the list, and the outages and the report read it.
 */
import type { Network } from '../network.js';

export const KINDS = [
  'REST',
  'auth',
  'storage',
  'functions',
  'realtime',
  'management API',
  'MCP',
  'Kubernetes API',
] as const;
export type Kind = (typeof KINDS)[number];

/** An HTTP status of 400 or above, or the reason why there is none. `no answer` is a timeout. */
export type Failure = number | 'no connection' | 'no answer';

export interface Request {
  kind: Kind;
  /** The project's ref, if the request is to a project. */
  ref: string | undefined;
  what: string;
  begun: number;
  ended: number;
  /** Undefined: the response has a status below 400. */
  failure: Failure | undefined;
}

/**
 * Milliseconds after which a request counts as hanging. They are more than any wait in the platform for a database or a
 * program that is unavailable.
 */
const HANG_MS = 30_000;

/**
 * Matches the result of an MCP tool while the database or the Kubernetes API is unavailable. It is an MCP error without
 * an HTTP status.
 */
const AWAY = /(does not accept connections now|does not (?:answer|respond)|was lost)\. Try again\.".*"isError":true/;

export class Failed extends Error {
  constructor(
    readonly failure: Failure,
    options?: ErrorOptions,
  ) {
    super(`failed: ${failure}`, options);
  }
}

export class Requests {
  readonly all: Request[] = [];

  /** Returns a network that records its requests. */
  watching(network: Network): Network {
    return { ...network, fetch: (input, init) => this.#fetch(network.fetch, input as string | URL, init) };
  }

  /** Records `work`, which throws `Failed`, or any other error for `no connection`. */
  async note<T>(kind: Kind, ref: string | undefined, what: string, work: () => Promise<T>): Promise<T> {
    const request: Request = { kind, ref, what, begun: performance.now(), ended: 0, failure: undefined };
    try {
      return await work();
    } catch (error) {
      request.failure = error instanceof Failed ? error.failure : 'no connection';
      throw error;
    } finally {
      request.ended = performance.now();
      this.all.push(request);
    }
  }

  async #fetch(fetch: Network['fetch'], input: string | URL, init: RequestInit = {}): Promise<Response> {
    const url = new URL(input);
    const { kind, ref } = addressed(url.pathname);
    const deadline = AbortSignal.timeout(HANG_MS);
    const signal = init.signal ? AbortSignal.any([init.signal, deadline]) : deadline;
    let answer: Response | undefined;
    const what = `${init.method ?? 'GET'} ${url.pathname}`;
    await this.note(kind, ref, what, async () => {
      try {
        const response = await fetch(url, { ...init, signal });
        // The body is read here, so that an interrupted body is a failure of this request.
        const body = await response.arrayBuffer();
        const { status, headers } = response;
        answer = new Response(body.byteLength > 0 ? body : null, { status, headers });
      } catch (error) {
        throw new Failed(deadline.aborted ? 'no answer' : 'no connection', { cause: error });
      }
      if (answer.status >= 400) throw new Failed(answer.status);
      if (kind === 'MCP' && (await answer.clone().text()).match(AWAY)) throw new Failed(503);
    }).catch((error: Failed) => {
      if (!answer) throw error.cause;
    });
    return answer as Response;
  }
}

const SERVICES: Record<string, Kind> = {
  rest: 'REST',
  auth: 'auth',
  storage: 'storage',
  functions: 'functions',
  realtime: 'realtime',
};

function addressed(path: string): { kind: Kind; ref: string | undefined } {
  const [, ref, service = ''] = /^\/p\/([^/]+)\/([^/]+)/.exec(path) ?? [];
  if (ref !== undefined) return { kind: SERVICES[service] ?? 'REST', ref };
  return { kind: /^\/projects\/\d+\/mcp$/.test(path) ? 'MCP' : 'management API', ref: undefined };
}
