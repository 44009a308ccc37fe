/**
 * Auth service: users and sessions of a project, with GoTrue's API. In: requests with a valid API key, from the
 * gateway. Out: JSON responses and errors. The table below maps each route to a function from a context to a response.
 */
import type { ServerResponse } from 'node:http';
import { type AuthConfig, type ConfigProblem, readAuthConfig } from '@slipway/installation/auth-settings.js';
import type { Rate } from '@slipway/program';
import type { Outbound } from '@slipway/program/outbound.js';
import type { Logger } from 'pino';
import { BodyTooLargeError } from '../../http/request-body.js';
import type { OwnerLog } from '../../logs/owner-log.js';
import type { BackendTenant } from '../../projects/tenant.js';
import { AnswerTooLargeError, ConnectionError, DatabaseError, isServerShort, PoolBusyError } from '../../sql/errors.js';
import type { Service, ServiceRequest } from '../service.js';
import { deleteFactor, listFactors } from './admin/factors.js';
import { generateLink, invite } from './admin/links.js';
import { testMail } from './admin/test-mail.js';
import { createUser, deleteUser, getUserById, listUsers, updateUserById } from './admin/users.js';
import type { Answer, NamedRoute, Route } from './context.js';
import { authDatabases } from './database.js';
import { AuthError, unavailable } from './errors.js';
import { Outbox } from './mail/outbox.js';
import { challengeFactor, enrollFactor, unenrollFactor } from './mfa/factors.js';
import { verifyFactor } from './mfa/verify.js';
import { authorize } from './oauth/authorize.js';
import { callback } from './oauth/callback.js';
import { Limits } from './policy/limits.js';
import { reportRefusal } from './refused-address.js';
import { absentRoute } from './routes/absent.js';
import { authorizeIdentity, deleteIdentity } from './routes/identities.js';
import { logout } from './routes/logout.js';
import { otp } from './routes/otp.js';
import { reauthenticate } from './routes/reauthenticate.js';
import { recover } from './routes/recover.js';
import { resend } from './routes/resend.js';
import { health, settings } from './routes/settings.js';
import { signup } from './routes/signup.js';
import { token } from './routes/token.js';
import { getUser, updateUser } from './routes/user.js';
import { verifyByApp, verifyByLink } from './routes/verify.js';
import { jwks, openidConfiguration } from './routes/well-known.js';
import { Cleanup } from './sessions/cleanup.js';

const ROUTES: Readonly<Record<string, Route>> = {
  'GET /health': health,
  'GET /settings': settings,
  'GET /.well-known/jwks.json': jwks,
  'GET /.well-known/openid-configuration': openidConfiguration,
  'POST /signup': signup,
  'POST /token': token,
  'POST /otp': otp,
  'POST /magiclink': otp,
  'POST /recover': recover,
  'POST /resend': resend,
  'GET /verify': verifyByLink,
  'POST /verify': verifyByApp,
  'GET /authorize': authorize,
  'GET /callback': callback,
  'POST /callback': callback,
  'GET /user': getUser,
  'PUT /user': updateUser,
  'GET /user/identities/authorize': authorizeIdentity,
  'GET /reauthenticate': reauthenticate,
  'POST /logout': logout,
  'POST /factors': enrollFactor,
  'POST /invite': invite,
  'GET /admin/users': listUsers,
  'POST /admin/users': createUser,
  'POST /admin/generate_link': generateLink,
  'POST /admin/test_mail': testMail,
};

/** Routes whose path has one variable part, `*`, or two. */
const NAMED_ROUTES: Readonly<Record<string, NamedRoute>> = {
  'DELETE /user/identities/*': deleteIdentity,
  'DELETE /factors/*': unenrollFactor,
  'POST /factors/*/challenge': challengeFactor,
  'POST /factors/*/verify': verifyFactor,
  'GET /admin/users/*': getUserById,
  'PUT /admin/users/*': updateUserById,
  'DELETE /admin/users/*': deleteUser,
  'GET /admin/users/*/factors': listFactors,
};
const FACTOR_OF_USER = /^\/admin\/users\/([^/]+)\/factors\/([^/]+)$/;

interface ProjectSettings {
  config: AuthConfig;
  problems: readonly ConfigProblem[];
}

export interface AuthOptions {
  log: Logger;
  attempts?: Rate;
  /** Connects to addresses in projects' settings; the service closes it. */
  outbound: Outbound;
  /** Undefined: owners have no logs. */
  ownerLog?: OwnerLog | undefined;
}

export function createAuthService({ log, attempts, outbound, ownerLog }: AuthOptions): Service {
  const databases = authDatabases();
  const limits = new Limits(attempts);
  const outbox = new Outbox(log, ownerLog);
  const cleanup = new Cleanup();
  /** Settings by tenant. A tenant whose settings change is a new object. */
  const settingsOf = new WeakMap<BackendTenant, ProjectSettings>();

  function projectSettings(tenant: BackendTenant): ProjectSettings {
    let config = settingsOf.get(tenant);
    if (config === undefined) {
      config = readAuthConfig(tenant.authConfig);
      for (const { key, message } of config.problems) {
        log.warn({ ref: tenant.ref, key, reason: message }, 'malformed setting of a project ignored');
        const facts = { key, reason: message };
        ownerLog?.write(tenant.ref, 'auth', { level: 'warn', message: 'setting ignored', facts });
      }
      settingsOf.set(tenant, config);
    }
    return config;
  }

  async function answer(request: ServiceRequest): Promise<Answer> {
    const route = routeOf(request);
    if (!route) throw absentRoute(request.path);
    const { config, problems } = projectSettings(request.tenant);
    const pool = await databases.pool(request.tenant);
    const context = { request, pool, config, configProblems: problems, limits, outbox, outbound, log, ownerLog };
    const answered = await route(context);
    if (route === token) cleanup.consider(context);
    return answered;
  }

  return {
    async handle(request) {
      try {
        send(request, await answer(request));
      } catch (error) {
        if (error instanceof BodyTooLargeError) throw error;
        reportRefusal({ request, log, ownerLog }, error);
        sendError(request, asAuthError(error, request, log));
      }
    },
    forget: (ref) => {
      cleanup.forget(ref);
      limits.forget(ref);
      return databases.forget(ref);
    },
    close: async () => {
      await outbox.close();
      await outbound.close();
      await databases.close();
    },
  };
}

function routeOf({ incoming, path }: ServiceRequest): Route | undefined {
  const { method = '' } = incoming;
  const name = `${method === 'HEAD' ? 'GET' : method} ${path}`;
  if (Object.hasOwn(ROUTES, name)) return ROUTES[name];
  const [, userId, factorId] = (method === 'DELETE' && FACTOR_OF_USER.exec(path)) || [];
  if (userId && factorId) return (context) => deleteFactor(context, userId, factorId);
  return namedRoute(method, path);
}

function namedRoute(method: string, path: string): Route | undefined {
  const parts = path.split('/');
  for (const at of [2, 3]) {
    const id = parts[at];
    if (id === undefined || id === '') continue;
    const name = `${method} ${parts.toSpliced(at, 1, '*').join('/')}`;
    const route = Object.hasOwn(NAMED_ROUTES, name) ? NAMED_ROUTES[name] : undefined;
    if (route) return (context) => route(context, id);
  }
  return undefined;
}

/** SQLSTATE of a write in a read-only transaction. */
const READ_ONLY = '25006';

function asAuthError(error: unknown, { requestId, tenant }: ServiceRequest, log: Logger): AuthError {
  if (error instanceof AuthError) return error;
  if (error instanceof AnswerTooLargeError) {
    log.info({ requestId, ref: tenant.ref, code: error.code }, 'database answer too large');
    return new AuthError(500, 'unexpected_failure', `Database error (SQLSTATE ${error.code})`);
  }
  if (error instanceof PoolBusyError || error instanceof ConnectionError) {
    log.warn({ requestId, ref: tenant.ref, reason: error.message }, 'auth database unreachable');
    return unavailable('The database is not available; try again in a moment');
  }
  if (isServerShort(error)) {
    log.warn({ requestId, ref: tenant.ref, code: error.code }, 'database server short of resources');
    return unavailable('The database server is short of resources; try again in a moment');
  }
  if (error instanceof DatabaseError && error.code === READ_ONLY) {
    return new AuthError(503, 'unexpected_failure', 'The database is read-only, as it is while it is full');
  }
  if (error instanceof DatabaseError) {
    // Mostly an error of the project's own trigger, whose message may contain data that an anonymous caller must not
    // see.
    log.info({ requestId, ref: tenant.ref, code: error.code }, 'auth statement rejected');
    return new AuthError(500, 'unexpected_failure', `Database error (SQLSTATE ${error.code})`);
  }
  log.error({ err: error, requestId, ref: tenant.ref }, 'auth request failed');
  return new AuthError(500, 'unexpected_failure', 'Unexpected failure, please check server logs for more information');
}

const VERSION_HEADER = 'x-supabase-api-version';
const VERSION = '2024-01-01';

/** True if the client requests the newer format of errors. */
function sendError(request: ServiceRequest, { status, code, message, details, headers }: AuthError): void {
  request.note?.(code);
  const version = request.incoming.headers[VERSION_HEADER];
  const newer = typeof version === 'string' && /^\d{4}-\d\d-\d\d$/.test(version) && version >= VERSION;
  const body = newer ? { code, message, ...details } : { code: status, error_code: code, msg: message, ...details };
  const versioned = newer ? { 'X-Supabase-Api-Version': VERSION } : {};
  send(request, { status, body, headers: { 'X-Sb-Error-Code': code, ...versioned, ...headers } });
}

function send({ outgoing }: ServiceRequest, { status, body, headers }: Answer): void {
  if (outgoing.destroyed || outgoing.headersSent) return;
  if (body === undefined) {
    outgoing.writeHead(status, headers);
    outgoing.end();
    return;
  }
  sendText(outgoing, status, typeof body === 'string' ? body : JSON.stringify(body), headers);
}

function sendText(outgoing: ServerResponse, status: number, text: string, headers: Answer['headers']): void {
  outgoing.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    ...headers,
  });
  outgoing.end(text);
}
