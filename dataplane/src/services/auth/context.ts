/** Input of every auth route, and checks of its caller. */
import type { OutgoingHttpHeaders } from 'node:http';
import type { AuthConfig, ConfigProblem } from '@slipway/installation/auth-settings.js';
import { parseJson } from '@slipway/program';
import type { Outbound } from '@slipway/program/outbound.js';
import type { Logger } from 'pino';
import { authTokenMessage } from '../../identity/token-refusals.js';
import type { OwnerLog } from '../../logs/owner-log.js';
import type { Pool } from '../../sql/pool.js';
import type { ServiceRequest } from '../service.js';
import { parametersOf } from './body.js';
import { AuthError, forbidden } from './errors.js';
import type { Outbox } from './mail/outbox.js';
import type { Limits } from './policy/limits.js';
import type { Device } from './sessions/session.js';

export interface Context {
  request: ServiceRequest;
  pool: Pool;
  config: AuthConfig;
  /** Settings that are invalid. */
  configProblems: readonly ConfigProblem[];
  limits: Limits;
  outbox: Outbox;
  outbound: Outbound;
  log: Logger;
  ownerLog: OwnerLog | undefined;
}

export interface Answer {
  status: number;
  /** JSON text, or a value that is serialized; absent: no content. */
  body?: object | string;
  headers?: OutgoingHttpHeaders;
}

export type Route = (context: Context) => Promise<Answer>;
/** Route whose path contains a name, `id`. */
export type NamedRoute = (context: Context, id: string) => Promise<Answer>;

export const ok = (body: object | string = {}): Answer => ({ status: 200, body });
export const redirect = (address: string, status = 303): Answer => ({ status, headers: { Location: address } });

export function deviceOf({ incoming, address: from }: ServiceRequest): Device {
  const address = from.replace(/^::ffff:/, '').replace(/%.*$/, '') || null;
  return { address, userAgent: (incoming.headers['user-agent'] ?? '').slice(0, 1000) };
}

export const queryOf = ({ request }: Context) => parametersOf(request.query);

/** Returns the redirect URL that the client requests in the query, as auth-js does. */
export const wantedRedirect = (context: Context) => queryOf(context).get('redirect_to');

/** Returns the verified claims of the Bearer token, which is required. */
export function bearerClaims({ incoming, caller, tokenProblem }: ServiceRequest): Record<string, unknown> {
  if (tokenProblem) throw forbidden('bad_jwt', authTokenMessage(tokenProblem));
  if (!/^bearer \S/i.test(incoming.headers.authorization ?? '')) {
    throw new AuthError(401, 'no_authorization', 'This endpoint requires a valid Bearer token');
  }
  return parseJson(caller.claims) as Record<string, unknown>;
}

/** Rejects callers other than the project's service_role, on admin routes. */
export function requireAdmin(request: ServiceRequest): void {
  bearerClaims(request);
  if (request.caller.role !== 'service_role') throw forbidden('not_admin', 'User not allowed');
}
