/**
 * Client of the control socket or port of a data plane that runs functions. In: requests of a function engine. Out:
 * their outcomes.
 */
import { type JsonBound, parseJsonInTurns, readBounded } from '@slipway/program';
import { Agent } from 'undici';
import type { FunctionOutcome, FunctionRequest } from '../capabilities/index.js';
import { TransientError } from '../runtime/transient-error.js';

/**
 * Timeout in milliseconds of a deploy, in which the data plane fetches the function's imports. The data plane's own
 * timeout is shorter.
 */
const PATIENCE_MS = 180_000;
const CONNECT_MS = 5_000;
/**
 * Timeout in milliseconds of a request that needs no work. A service without a response by then counts as unavailable.
 */
const LOOK_PATIENCE_MS = 5_000;

/**
 * Milliseconds for which a missing response is not reported. A data plane that has not responded since this program
 * started may still be starting, because both start with the platform.
 */
const STARTING_MS = 60_000;

/** A Unix socket, or a port that requires a token. */
export type ControlPlace = { socketPath: string } | { origin: string; token(): Promise<string> };

/** Limits of a response: the names of 100,000 functions. */
const MOST_OF_ANSWER: JsonBound = { bytes: 16 * 1024 * 1024, depth: 10, values: 1_000_000 };

type Answer<Value> = { value: Value } | { why: string };
const SILENT = 'the data plane does not answer';
const REFUSED =
  'the pod that runs functions has another token than the Secret slipway-functions: ' +
  'a token that was made again reaches the pod within minutes';

export class FunctionControl {
  readonly #place: ControlPlace;
  readonly #agent: Agent;
  #headers: Record<string, string> | undefined;
  /** The end of the start time, in milliseconds of `performance.now()`. 0: the data plane has responded once. */
  #startingUntil: number;

  constructor(place: ControlPlace, startingMs = STARTING_MS) {
    this.#place = place;
    this.#startingUntil = performance.now() + startingMs;
    const connect = 'socketPath' in place ? { socketPath: place.socketPath } : { timeout: CONNECT_MS };
    this.#agent = new Agent({ connect, headersTimeout: PATIENCE_MS, allowH2: false });
  }

  /** Deploys a function. Throws a transient error while the data plane may be starting. */
  async ensure({ ref, name, version, code, verifyJwt }: FunctionRequest): Promise<FunctionOutcome> {
    const body = JSON.stringify({ version, code, verifyJwt });
    const answer = await this.#ask<FunctionOutcome>('PUT', pathOf(ref, name), { body });
    if ('value' in answer) return answer.value;
    if (answer.why === SILENT && performance.now() < this.#startingUntil) throw new TransientError(SILENT);
    return { state: 'busy', message: answer.why };
  }

  async remove(ref: string, name: string): Promise<void> {
    const answer = await this.#ask('DELETE', pathOf(ref, name));
    if ('why' in answer) throw new TransientError(answer.why);
  }

  /** Returns the name of the disk with the functions. Undefined: no response. */
  async disk(): Promise<string | undefined> {
    const answer = await this.#ask<{ disk: string }>('GET', '/', { headersTimeout: LOOK_PATIENCE_MS });
    return 'value' in answer ? answer.value.disk : undefined;
  }

  /** Returns the deployed functions. Undefined: no response. */
  async deployed(): Promise<{ ref: string; name: string }[] | undefined> {
    const answer = await this.#ask<{ ref: string; name: string }[]>('GET', '/functions', {
      headersTimeout: LOOK_PATIENCE_MS,
    });
    return 'value' in answer ? answer.value : undefined;
  }

  close(): Promise<void> {
    return this.#agent.destroy();
  }

  async #ask<Value>(
    method: 'GET' | 'PUT' | 'DELETE',
    path: string,
    more: { body?: string; headersTimeout?: number } = {},
  ): Promise<Answer<Value>> {
    try {
      const origin = 'origin' in this.#place ? this.#place.origin : 'http://functions';
      this.#headers ??= 'token' in this.#place ? { authorization: `Bearer ${await this.#place.token()}` } : {};
      const request = { origin, path, method, headers: this.#headers, ...more };
      const answer = await this.#agent.request(request);
      const bytes = await readBounded(answer.body, MOST_OF_ANSWER.bytes);
      const value = await parseJsonInTurns(bytes, MOST_OF_ANSWER);
      this.#startingUntil = 0;
      // The token may have been made again, so it is read again.
      if (answer.statusCode === 401) {
        this.#headers = undefined;
        return { why: REFUSED };
      }
      if (answer.statusCode === 200) return { value: value as Value };
      return { why: `the data plane answers ${answer.statusCode}: its log says why` };
    } catch {
      return { why: SILENT };
    }
  }
}

const pathOf = (ref: string, name: string) => `/${encodeURIComponent(ref)}/${encodeURIComponent(name)}`;
