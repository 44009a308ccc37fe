/**
 * Every request that the load makes: to what, when, and what came of it. In: the fetch that clients are given, and work
 * that is no HTTP. Out: a list to judge and to count. Filled by the load; read by the outages and the report.
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

/** An HTTP status from 400, or why there is none. A hang is `no answer`. */
export type Failure = number | 'no connection' | 'no answer';

export interface Request {
  kind: Kind;
  /** The project's ref, where it is one's. */
  ref: string | undefined;
  what: string;
  begun: number;
  ended: number;
  /** Undefined: answered, with a status below 400. */
  failure: Failure | undefined;
}

/** Longer than any wait in the platform for a database or a program that is away. */
const HANG_MS = 30_000;

/**
 * The result of an MCP tool while the database or the Kubernetes API is unavailable: an error in MCP's terms, without
 * an HTTP status.
 */
const AWAY = /(does not accept connections now|does not answer|was lost)\. Try again\.".*"isError":true/;

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

  /** A network whose requests are written down here. */
  watching(network: Network): Network {
    return { ...network, fetch: (input, init) => this.#fetch(network.fetch, input as string | URL, init) };
  }

  /** `work` throws `Failed`, or whatever is to be taken as `no connection`. */
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
        // Read here, so that a body that breaks off is a failure of this request.
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
