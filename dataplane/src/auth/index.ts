/**
 * Users and sessions of a project, on GoTrue's wire. In: requests whose API key was good. Out: JSON, errors included.
 * Called by the gateway. The table of routes is below; each route is a function from a context to an answer.
 */
import type { ServerResponse } from 'node:http';
import type { Logger } from 'pino';
import { BodyTooLargeError } from '../request-body.js';
import type { Service, ServiceRequest } from '../service.js';
import { ConnectionError, DatabaseError, PoolBusyError } from '../sql/errors.js';
import type { Answer, Context, Route } from './context.js';
import { AuthDatabases } from './database.js';
import { AuthError } from './errors.js';
import { type RateLimit, RateLimiter } from './rate-limit.js';
import { createUser, deleteUser, getUserById, listUsers, updateUserById } from './routes/admin.js';
import { logout } from './routes/logout.js';
import { health, settings } from './routes/settings.js';
import { signup } from './routes/signup.js';
import { takeAttempt, token } from './routes/token.js';
import { getUser, updateUser } from './routes/user.js';

const ROUTES: Readonly<Record<string, Route>> = {
  'GET /health': health,
  'GET /settings': settings,
  'POST /signup': (context) => {
    takeAttempt(context);
    return signup(context);
  },
  'POST /token': token,
  'GET /user': getUser,
  'PUT /user': updateUser,
  'POST /logout': logout,
  'GET /admin/users': listUsers,
  'POST /admin/users': createUser,
};

const USER_ROUTES: Readonly<Record<string, (context: Context, id: string) => Promise<Answer>>> = {
  GET: getUserById,
  PUT: updateUserById,
  DELETE: deleteUser,
};

const USER_PATH = '/admin/users/';

const ATTEMPTS: RateLimit = { burst: 300, perSecond: 5 };

export function createAuthService({ log, attempts: limit = ATTEMPTS }: { log: Logger; attempts?: RateLimit }): Service {
  const databases = new AuthDatabases();
  const attempts = new RateLimiter(limit);

  async function answer(request: ServiceRequest): Promise<Answer> {
    const route = routeOf(request);
    if (!route) throw new AuthError(404, 'not_found', 'There is no such route, or it is not available here');
    return route({ request, attempts, pool: await databases.pool(request.tenant) });
  }

  return {
    async handle(request) {
      try {
        send(request, await answer(request));
      } catch (error) {
        if (error instanceof BodyTooLargeError) throw error;
        sendError(request, asAuthError(error, request, log));
      }
    },
    forget: (ref) => databases.forget(ref),
    close: () => databases.close(),
  };
}

function routeOf({ incoming, path }: ServiceRequest): Route | undefined {
  const { method = '' } = incoming;
  if (path.startsWith(USER_PATH)) {
    const route = Object.hasOwn(USER_ROUTES, method) ? USER_ROUTES[method] : undefined;
    return route && ((context) => route(context, path.slice(USER_PATH.length)));
  }
  const name = `${method} ${path}`;
  return Object.hasOwn(ROUTES, name) ? ROUTES[name] : undefined;
}

function asAuthError(error: unknown, { requestId, tenant }: ServiceRequest, log: Logger): AuthError {
  if (error instanceof AuthError) return error;
  if (error instanceof PoolBusyError || error instanceof ConnectionError) {
    log.warn({ requestId, ref: tenant.ref, reason: error.message }, 'auth could not reach a database');
    return new AuthError(503, 'unexpected_failure', 'The database is not available; try again in a moment');
  }
  if (error instanceof DatabaseError) {
    // Mostly a trigger of the project's own. Its message may hold what callers who haven't signed in must not see.
    log.info({ requestId, ref: tenant.ref, code: error.code }, 'a database refused a statement of auth');
    return new AuthError(500, 'unexpected_failure', `Database error (SQLSTATE ${error.code})`);
  }
  log.error({ err: error, requestId, ref: tenant.ref }, 'auth failed');
  return new AuthError(500, 'unexpected_failure', 'Unexpected failure, please check server logs for more information');
}

const VERSION_HEADER = 'x-supabase-api-version';
const VERSION = '2024-01-01';

/** Clients that say they know the newer form of errors get it. */
function sendError(request: ServiceRequest, { status, code, message, details }: AuthError): void {
  const version = request.incoming.headers[VERSION_HEADER];
  const newer = typeof version === 'string' && /^\d{4}-\d\d-\d\d$/.test(version) && version >= VERSION;
  const body = newer ? { code, message, ...details } : { code: status, error_code: code, msg: message, ...details };
  send(request, { status, body, ...(newer ? { headers: { 'X-Supabase-Api-Version': VERSION } } : {}) });
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
