/** Serves one call of a function: finds the function, checks the caller, and forwards the call to an isolate. */
import { refuse } from '../../http/refusals.js';
import type { ServiceRequest } from '../service.js';
import { CANNOT_REACH, NO_TOKEN, NOT_FOUND, UNREADABLE, unavailable } from './answers.js';
import { type EdgeFunction, keyOf } from './function.js';
import { type Isolate, Unavailable } from './isolate.js';
import type { FunctionLimits } from './limits.js';
import { type ForwardRequest, forward, type Outcome } from './proxy.js';
import type { UnreadableFunctions } from './unreadable.js';

export interface CallOptions {
  functions: ReadonlyMap<string, EdgeFunction>;
  unreadable: UnreadableFunctions;
  limits: FunctionLimits;
}

/** Upstream's path of the health check. */
const HEALTH = '/_internal/health';

export const answering =
  ({ functions, unreadable, limits }: CallOptions) =>
  async (request: ServiceRequest): Promise<void> => {
    const { tenant, path, outgoing } = request;
    if (path === HEALTH) {
      refuse(outgoing, { status: 200, body: { ok: true } });
      return;
    }
    const name = nameOf(path);
    const edgeFunction = name === undefined ? undefined : functions.get(keyOf(tenant.ref, name));
    if (edgeFunction === undefined) {
      refuse(outgoing, name !== undefined && unreadable.has(tenant.ref, name) ? UNREADABLE : NOT_FOUND);
      return;
    }
    const refusal = tokenRefusal(edgeFunction, request);
    if (refusal !== undefined) {
      refuse(outgoing, refusal);
      return;
    }
    await answer(edgeFunction, carriedOf(request), limits, true);
  };

function carriedOf({ tenant, address, path, query, incoming, outgoing }: ServiceRequest): ForwardRequest {
  const { host } = new URL(tenant.url);
  const target = query === '' ? path : `${path}?${query}`;
  return { target, host, address, incoming, outgoing };
}

async function answer(edgeFunction: EdgeFunction, carried: ForwardRequest, limits: FunctionLimits, again: boolean) {
  const isolate = await enter(edgeFunction, carried.outgoing);
  if (isolate === undefined) return;
  let outcome: Outcome;
  try {
    outcome = await forward(isolate, carried, limits);
  } finally {
    isolate.finish();
  }
  if (outcome === 'whole') edgeFunction.succeeded();
  if (outcome === 'late') edgeFunction.tookTooLong(isolate);
  if (outcome !== 'unreached') return;
  // The isolate is ending, or can't be reached any longer.
  isolate.end('crash');
  await isolate.ended;
  if (again) await answer(edgeFunction, carried, limits, false);
  else refuse(carried.outgoing, CANNOT_REACH);
}

/** Returns an isolate with a reserved place; undefined if the caller has an error response already. */
async function enter(edgeFunction: EdgeFunction, outgoing: ServiceRequest['outgoing']): Promise<Isolate | undefined> {
  try {
    const acquired = edgeFunction.acquire();
    return acquired instanceof Promise ? await acquired : acquired;
  } catch (error) {
    if (!(error instanceof Unavailable)) throw error;
    refuse(outgoing, unavailable(error.code, error.message, error.retryAfterSeconds));
    return undefined;
  }
}

/** A call needs a token of the project, unless the function's setting allows others, or it is a preflight. */
function tokenRefusal({ deployment }: EdgeFunction, { refusal, incoming }: ServiceRequest) {
  if (refusal === undefined || !deployment.verifyJwt || incoming.method === 'OPTIONS') return undefined;
  const { authorization, apikey } = incoming.headers;
  return authorization === undefined && apikey === undefined ? NO_TOKEN : refusal;
}

/** Returns the function's name: `/hello/deeper` becomes hello. */
function nameOf(path: string): string | undefined {
  const end = path.indexOf('/', 1);
  const name = end === -1 ? path.slice(1) : path.slice(1, end);
  return name === '' ? undefined : name;
}
