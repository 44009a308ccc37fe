/** One of the two that are compared: sends it a case as it is, and takes down what it told. */
import { SignJWT } from 'jose';
import type { Caller, Case } from './case.js';
import { HEADERS, type Told } from './compare.js';
import { alike } from './normalise.js';
import { USER } from './schema.js';

export interface Query {
  query(sql: string): Promise<{ rows: unknown[] }>;
}

export interface Side {
  name: string;
  /** Below which `/rest/v1` and its like are. */
  url: string;
  database: Query;
  tokens: Tokens;
  /** Values taken from earlier responses of the service. */
  variables: Record<string, string>;
}

/** `nobody` sends none; the others are signed with the secret that both sides verify by. */
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

export async function ask(side: Side, asked: Case): Promise<Told> {
  const known: Record<string, string> = { ...side.tokens, ...side.variables };
  const filled = (text: string) =>
    text.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => {
      const value = known[name];
      if (value === undefined) throw new Error(`${side.name}: nothing is known as ${name}`);
      return value;
    });
  const headers: Record<string, string> = { apikey: side.tokens.anon };
  if (asked.as !== 'nobody') headers.authorization = `Bearer ${side.tokens[asked.as]}`;
  for (const [name, value] of Object.entries(asked.headers)) headers[name] = filled(value);
  const response = await fetch(`${side.url}/${asked.service}/v1${filled(asked.path)}`, {
    method: asked.method,
    headers,
    redirect: 'manual',
    signal: AbortSignal.timeout(10_000),
    ...(asked.body === undefined ? {} : { body: filled(asked.body) }),
  });
  const text = await response.text();
  const body = parsed(text);
  if (isObject(body)) take(side, asked, body);
  const told = HEADERS.map((name) => [name, response.headers.get(name)?.replaceAll(side.url, '') ?? undefined]);
  return { status: response.status, headers: Object.fromEntries(told), body: alike(asked.service, body) };
}

function take(side: Side, asked: Case, body: Record<string, unknown>): void {
  for (const [name, places] of Object.entries(asked.take)) {
    for (const place of places.split('|')) {
      const found = place.split('.').reduce<unknown>((at, member) => (isObject(at) ? at[member] : undefined), body);
      if (typeof found === 'string') side.variables[name] = found.replace(`/${asked.service}/v1`, '');
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
