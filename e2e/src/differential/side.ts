/** One of the two compared servers. Sends a case to the server, and returns its response. */
import { SignJWT } from 'jose';
import type { Caller, Case } from './case.js';
import { HEADERS, type RecordedResponse } from './compare.js';
import { alike } from './normalise.js';
import { USER } from './schema.js';

export interface Query {
  query(sql: string): Promise<{ rows: unknown[] }>;
}

export interface Side {
  name: string;
  /** The URL above `/rest/v1` and the other services. */
  url: string;
  database: Query;
  tokens: Tokens;
  /** Values taken from earlier responses of the service. */
  variables: Record<string, string>;
}

/** `nobody` sends no token. The other tokens are signed with the secret that both sides use. */
export type Tokens = Record<Exclude<Caller, 'nobody'> | 'expired' | 'forged' | 'roleless', string>;

export async function tokensOf(jwtSecret: string): Promise<Tokens> {
  const now = Math.floor(Date.now() / 1000);
  const sign = (claims: Record<string, unknown>, secret = jwtSecret) =>
    new SignJWT({ iss: 'slipway', iat: now, exp: now + 3600, ...claims })
      .setProtectedHeader({ alg: 'HS256', typ: 'JWT' })
      .sign(new TextEncoder().encode(secret));
  return {
    anon: await sign({ role: 'anon' }),
    user: await sign({ role: 'authenticated', sub: USER, aud: 'authenticated' }),
    service_role: await sign({ role: 'service_role' }),
    expired: await sign({ role: 'service_role', exp: now - 3600 }),
    forged: await sign({ role: 'service_role' }, `${jwtSecret}, another`),
    roleless: await sign({ role: 'nobody-of-this-name' }),
  };
}

export async function ask(side: Side, request: Case): Promise<RecordedResponse> {
  const known: Record<string, string> = { ...side.tokens, ...side.variables };
  const filled = (text: string) =>
    text.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
      const value = known[name];
      if (value === undefined) throw new Error(`${side.name}: nothing is known as ${name}`);
      return value;
    });
  const headers: Record<string, string> = { apikey: side.tokens.anon };
  if (request.as !== 'nobody') headers.authorization = `Bearer ${side.tokens[request.as]}`;
  for (const [name, value] of Object.entries(request.headers)) headers[name] = filled(value);
  const response = await fetch(`${side.url}/${request.service}/v1${filled(request.path)}`, {
    method: request.method,
    headers,
    redirect: 'manual',
    signal: AbortSignal.timeout(10_000),
    ...(request.body === undefined ? {} : { body: filled(request.body) }),
  });
  const text = await response.text();
  const body = parsed(text);
  if (isObject(body)) take(side, request, body);
  const read = HEADERS.map((name) => [name, response.headers.get(name)?.replaceAll(side.url, '') ?? undefined]);
  return { status: response.status, headers: Object.fromEntries(read), body: alike(request.service, body) };
}

function take(side: Side, request: Case, body: Record<string, unknown>): void {
  for (const [name, places] of Object.entries(request.take)) {
    for (const place of places.split('|')) {
      const found = place.split('.').reduce<unknown>((at, member) => (isObject(at) ? at[member] : undefined), body);
      if (typeof found === 'string') side.variables[name] = found.replace(`/${request.service}/v1`, '');
    }
  }
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null;

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
