/** Reads the tokens of a request, and decides the caller from them. */
import type { IncomingMessage } from 'node:http';
import type { BackendTenant, Caller } from '../projects/tenant.js';
import { TokenProblem, type Tokens } from './tokens.js';

export interface Credentials {
  /** API key from the header `apikey` or, for an upgrade only, from the query. */
  key: string | undefined;
  /** Token from `Authorization: Bearer`, which decides the caller if it is present. */
  bearer: string | undefined;
}

export type Decision =
  | { caller: Caller }
  | { refused: 'no-key' }
  | { refused: 'invalid-key'; problem: TokenProblem }
  /** `keyCaller` is the caller of the API key, if the key itself was valid. */
  | { refused: 'invalid-token'; problem: TokenProblem; keyCaller: Caller | undefined };

export function credentialsOf({ headers: { apikey, authorization } }: IncomingMessage): Credentials {
  return { key: typeof apikey === 'string' && apikey !== '' ? apikey : undefined, bearer: bearerOf(authorization) };
}

/**
 * Reads also a key in the query, because a browser's WebSocket can't set a header. For other requests, a key in the
 * query would make a link that opens a page.
 */
export function credentialsOfUpgrade(incoming: IncomingMessage, query: string): Credentials {
  const credentials = credentialsOf(incoming);
  return typeof incoming.headers.apikey === 'string' ? credentials : { ...credentials, key: keyInQuery(query) };
}

/** Returns the caller if every token is cached: the path of nearly all requests, without a promise. */
export function knownCaller(tokens: Tokens, tenant: BackendTenant, { key, bearer }: Credentials): Caller | undefined {
  if (bearer === undefined) return key === undefined ? undefined : tokens.remembered(tenant, key);
  if (key !== undefined && key !== bearer && tokens.remembered(tenant, key) === undefined) return undefined;
  return tokens.remembered(tenant, bearer);
}

export async function decideCaller(
  tokens: Tokens,
  tenant: BackendTenant,
  { key, bearer }: Credentials,
): Promise<Decision> {
  let keyCaller: Caller | undefined;
  if (key !== undefined) {
    const verdict = await verdictOf(tokens, tenant, key);
    if (verdict instanceof TokenProblem) return { refused: 'invalid-key', problem: verdict };
    keyCaller = verdict;
  }
  if (bearer === undefined) return keyCaller === undefined ? { refused: 'no-key' } : { caller: keyCaller };
  const verdict = await verdictOf(tokens, tenant, bearer);
  if (verdict instanceof TokenProblem) return { refused: 'invalid-token', problem: verdict, keyCaller };
  return { caller: verdict };
}

const verdictOf = async (tokens: Tokens, tenant: BackendTenant, token: string) =>
  tokens.remembered(tenant, token) ?? (await tokens.verify(tenant, token));

function bearerOf(authorization: string | undefined): string | undefined {
  if (authorization === undefined || authorization.length < 8) return undefined;
  if (authorization.startsWith('Bearer ')) return authorization.slice(7);
  return authorization.slice(0, 7).toLowerCase() === 'bearer ' ? authorization.slice(7).trim() : undefined;
}

function keyInQuery(query: string): string | undefined {
  return query.includes('apikey=') ? new URLSearchParams(query).get('apikey') || undefined : undefined;
}

/** Returns the query without the key, which the services do not read. */
export function withoutKey(query: string): string {
  if (!query.includes('apikey=')) return query;
  return query
    .split('&')
    .filter((pair) => !pair.startsWith('apikey='))
    .join('&');
}
