/**
 * Passes entries of forms to the API, which stores them. In: an entry. Out: the outcome, once the entry is stored or
 * rejected. Nothing is retried: the visitor learns of a failure, and sends the form again.
 */
import { request } from 'node:http';
import { ConcurrencyLimit } from '@slipway/program';
import type { Field } from './form-fields.js';

export interface NewEntry {
  ref: string;
  form: string;
  fields: readonly Field[];
  /** Why the entry is probably not a person's; null: nothing is known against it. */
  flagged: 'honeypot' | 'rate_limit' | null;
}

/** `full`: the project, or its account, has no room for another entry. `unknown`: there is no such form. */
export type Outcome = 'stored' | 'full' | 'unknown';

const DEADLINE_MS = 10_000;
const AT_ONCE = { most: 16, ofOne: 4, waiting: 256, waitingOfOne: 32 };
const OUTCOMES: Readonly<Record<number, Outcome>> = { 201: 'stored', 404: 'unknown', 507: 'full' };

export class EntryStore {
  readonly #limit = new ConcurrencyLimit(AT_ONCE);

  constructor(private readonly socketPath: string) {}

  /** Throws if the API is unreachable, or too many entries wait. */
  add(entry: NewEntry): Promise<Outcome> {
    return this.#limit.run(entry.ref, () => this.#send(entry));
  }

  async #send(entry: NewEntry): Promise<Outcome> {
    const status = await post(this.socketPath, JSON.stringify(entry));
    const outcome = OUTCOMES[status];
    if (outcome === undefined) throw new Error(`the API answered ${status} to an entry of a form`);
    return outcome;
  }
}

function post(socketPath: string, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const outgoing = request({ socketPath, path: '/entries', method: 'POST', headers, signal, agent: false });
    outgoing.once('response', (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}
