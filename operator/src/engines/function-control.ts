/**
 * One data plane that runs functions, as its control socket or port answers. In: requests of a function engine. Out:
 * their outcomes.
 */
import { Agent } from 'undici';
import { TransientError } from '../runtime/transient-error.js';
import type { FunctionOutcome, FunctionRequest } from './function-engine.js';

/** Fetching what a function imports takes its time; the data plane gives up before this. */
const PATIENCE_MS = 180_000;
const CONNECT_MS = 5_000;
/** Timeout of a request that needs no work: a service without a response by then counts as unavailable. */
const LOOK_PATIENCE_MS = 5_000;

/** A Unix socket, or a port that asks for a token. */
export type ControlPlace = { socketPath: string } | { origin: string; token(): Promise<string> };

type Answer<Said> = { said: Said } | { why: string };
const REFUSED =
  'the pod that runs functions has another token than the Secret slipway-functions: one that was made again reaches it within minutes';

export class FunctionControl {
  readonly #place: ControlPlace;
  readonly #agent: Agent;
  #headers: Record<string, string> | undefined;

  constructor(place: ControlPlace) {
    this.#place = place;
    const connect = 'socketPath' in place ? { socketPath: place.socketPath } : { timeout: CONNECT_MS };
    this.#agent = new Agent({ connect, headersTimeout: PATIENCE_MS, allowH2: false });
  }

  async ensure({ ref, name, version, code, verifyJwt }: FunctionRequest): Promise<FunctionOutcome> {
    const body = JSON.stringify({ version, code, verifyJwt });
    const answer = await this.#ask<FunctionOutcome>('PUT', pathOf(ref, name), { body });
    return 'said' in answer ? answer.said : { state: 'busy', message: answer.why };
  }

  async remove(ref: string, name: string): Promise<void> {
    const answer = await this.#ask('DELETE', pathOf(ref, name));
    if ('why' in answer) throw new TransientError(answer.why);
  }

  /** The name of the disk that it keeps functions on; undefined: it does not answer. */
  async disk(): Promise<string | undefined> {
    const answer = await this.#ask<{ disk: string }>('GET', '/', { headersTimeout: LOOK_PATIENCE_MS });
    return 'said' in answer ? answer.said.disk : undefined;
  }

  /** Undefined: it does not answer. */
  async deployed(): Promise<{ ref: string; name: string }[] | undefined> {
    const answer = await this.#ask<{ ref: string; name: string }[]>('GET', '/functions', {
      headersTimeout: LOOK_PATIENCE_MS,
    });
    return 'said' in answer ? answer.said : undefined;
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #ask<Said>(
    method: 'GET' | 'PUT' | 'DELETE',
    path: string,
    more: { body?: string; headersTimeout?: number } = {},
  ): Promise<Answer<Said>> {
    try {
      const origin = 'origin' in this.#place ? this.#place.origin : 'http://functions';
      this.#headers ??= 'token' in this.#place ? { authorization: `Bearer ${await this.#place.token()}` } : {};
      const asked = { origin, path, method, headers: this.#headers, ...more };
      const answer = await this.#agent.request(asked);
      const said = await answer.body.json();
      // Somebody may have made another.
      if (answer.statusCode === 401) {
        this.#headers = undefined;
        return { why: REFUSED };
      }
      if (answer.statusCode === 200) return { said: said as Said };
      return { why: `the data plane answers ${answer.statusCode}: its log says why` };
    } catch {
      return { why: 'the data plane does not answer' };
    }
  }
}

const pathOf = (ref: string, name: string) => `/${encodeURIComponent(ref)}/${encodeURIComponent(name)}`;
