/**
 * Passes entries of forms to the API, which stores them. In: an entry. Out: the outcome, once the entry is stored or
 * rejected. Nothing is retried: the visitor learns of a failure, and sends the form again.
 */
import { type RequestOptions, request } from 'node:http';
import { ConcurrencyLimit } from '@slipway/program';
import type { Field } from './form-fields.js';

/**
 * Where the API accepts entries: a Unix socket, or an `http:` origin with a bearer token. The token is read at each
 * request, because a Secret may be replaced.
 */
export type EntryPlace = { socket: string } | { origin: string; token(): string };

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

  constructor(private readonly place: EntryPlace) {}

  /** Throws if the API is unreachable or rejects the token, or too many entries wait. */
  add(entry: NewEntry): Promise<Outcome> {
    return this.#limit.run(entry.ref, () => this.#send(entry));
  }

  async #send(entry: NewEntry): Promise<Outcome> {
    const status = await post(connectionTo(this.place), JSON.stringify(entry));
    const outcome = OUTCOMES[status];
    if (outcome !== undefined) return outcome;
    if (status === 401) throw new Error('the API rejected the token of SLIPWAY_HOSTING_TOKEN');
    throw new Error(`the API answered ${status} to an entry of a form`);
  }
}

function connectionTo(place: EntryPlace): RequestOptions {
  if ('socket' in place) return { socketPath: place.socket };
  const { hostname, port } = new URL(place.origin);
  // The brackets of an IPv6 address belong to URLs alone.
  const host = hostname.replace(/^\[|\]$/g, '');
  return { host, port: port || 80, headers: { authorization: `Bearer ${place.token()}` } };
}

function post(connection: RequestOptions, body: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const headers = {
      ...connection.headers,
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
    };
    const outgoing = request({ ...connection, path: '/entries', method: 'POST', headers, signal, agent: false });
    outgoing.once('response', (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    outgoing.on('error', reject);
    outgoing.end(body);
  });
}
