/** The input of every auth route, and the caller. */
import type { OutgoingHttpHeaders } from 'node:http';
import type { Logger } from 'pino';
import { authTokenMessage } from '../gateway/refusals.js';
import type { ServiceRequest } from '../service.js';
import type { Pool } from '../sql/pool.js';
import { parametersOf } from './body.js';
import type { AuthConfig, ConfigProblem } from './config.js';
import { AuthError, forbidden } from './errors.js';
import type { Limits } from './limits.js';
import type { Outbox } from './mail/outbox.js';
import type { Outbound } from './outbound.js';
import type { Device } from './session.js';

export interface Context {
  request: ServiceRequest;
  pool: Pool;
  config: AuthConfig;
  /** Settings that could not be understood. */
  configProblems: readonly ConfigProblem[];
  limits: Limits;
  outbox: Outbox;
  outbound: Outbound;
  log: Logger;
}

export interface Answer {
  status: number;
  /** JSON text, or what becomes it; absent: no content. */
  body?: object | string;
  headers?: OutgoingHttpHeaders;
}

export type Route = (context: Context) => Promise<Answer>;
/** For a route whose path names something: `id` is that name. */
export type NamedRoute = (context: Context, id: string) => Promise<Answer>;

export const ok = (body: object | string = {}): Answer => ({ status: 200, body });
export const redirect = (address: string, status = 303): Answer => ({ status, headers: { Location: address } });

export function deviceOf({ incoming, address: from }: ServiceRequest): Device {
  const address = from.replace(/^::ffff:/, '').replace(/%.*$/, '') || null;
  return { address, userAgent: (incoming.headers['user-agent'] ?? '').slice(0, 1000) };
}

export const queryOf = ({ request }: Context) => parametersOf(request.query);

/** Where the caller wants to end up, as auth-js says it: in the query. */
export const wantedRedirect = (context: Context) => queryOf(context).get('redirect_to');

/** The verified claims of the Bearer token; there must be one. */
export function bearerClaims({ incoming, caller, tokenProblem }: ServiceRequest): Record<string, unknown> {
  if (tokenProblem) throw forbidden('bad_jwt', authTokenMessage(tokenProblem));
  if (!/^bearer \S/i.test(incoming.headers.authorization ?? '')) {
    throw new AuthError(401, 'no_authorization', 'This endpoint requires a valid Bearer token');
  }
  return JSON.parse(caller.claims) as Record<string, unknown>;
}

/** For routes of administrators: only the project's service_role may pass. */
export function requireAdmin(request: ServiceRequest): void {
  bearerClaims(request);
  if (request.caller.role !== 'service_role') throw forbidden('not_admin', 'User not allowed');
}
