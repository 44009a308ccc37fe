/** Finds the tokens that a request carries, and decides the caller from them. */
import type { IncomingMessage } from 'node:http';
import type { Caller, Tenant } from '../tenant.js';
import { TokenProblem, type Tokens } from './tokens.js';

export interface Credentials {
  /** From the header `apikey` or, for an upgrade alone, the query. */
  key: string | undefined;
  /** From `Authorization: Bearer`; it, when it is there, says who calls. */
  bearer: string | undefined;
}

export type Decision =
  | { caller: Caller }
  | { refused: 'no-key' | 'invalid-key' }
  /** `keyCaller`: whose key it was, when the key itself was good. */
  | { refused: 'invalid-token'; problem: TokenProblem; keyCaller: Caller | undefined };

export function credentialsOf({ headers: { apikey, authorization } }: IncomingMessage): Credentials {
  return { key: typeof apikey === 'string' && apikey !== '' ? apikey : undefined, bearer: bearerOf(authorization) };
}

/**
 * A browser's WebSocket can't set a header. A key in the query of any other request would make a link that opens a
 * page.
 */
export function credentialsOfUpgrade(incoming: IncomingMessage, query: string): Credentials {
  const found = credentialsOf(incoming);
  return typeof incoming.headers.apikey === 'string' ? found : { ...found, key: keyInQuery(query) };
}

/** The caller when every token of the request is known already: the path of nearly all requests, without a promise. */
export function knownCaller(tokens: Tokens, tenant: Tenant, { key, bearer }: Credentials): Caller | undefined {
  if (bearer === undefined) return key === undefined ? undefined : tokens.remembered(tenant, key);
  if (key !== undefined && key !== bearer && tokens.remembered(tenant, key) === undefined) return undefined;
  return tokens.remembered(tenant, bearer);
}

export async function decideCaller(tokens: Tokens, tenant: Tenant, { key, bearer }: Credentials): Promise<Decision> {
  let keyCaller: Caller | undefined;
  if (key !== undefined) {
    const verdict = await verdictOf(tokens, tenant, key);
    if (verdict instanceof TokenProblem) return { refused: 'invalid-key' };
    keyCaller = verdict;
  }
  if (bearer === undefined) return keyCaller === undefined ? { refused: 'no-key' } : { caller: keyCaller };
  const verdict = await verdictOf(tokens, tenant, bearer);
  if (verdict instanceof TokenProblem) return { refused: 'invalid-token', problem: verdict, keyCaller };
  return { caller: verdict };
}

const verdictOf = async (tokens: Tokens, tenant: Tenant, token: string) =>
  tokens.remembered(tenant, token) ?? (await tokens.verify(tenant, token));

function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined || authorization.length < 8) return undefined;
  if (authorization.startsWith('Bearer ')) return authorization.slice(7);
  return authorization.slice(0, 7).toLowerCase() === 'bearer ' ? authorization.slice(7).trim() : undefined;
}

function keyInQuery(query: string): string | undefined {
  return query.includes('apikey=') ? new URLSearchParams(query).get('apikey') || undefined : undefined;
}

/** The query as a service sees it: a key that was sent in it is not a parameter of the service. */
export function withoutKey(query: string): string {
  if (!query.includes('apikey=')) return query;
  return query
    .split('&')
    .filter((pair) => !pair.startsWith('apikey='))
    .join('&');
}
