/** One call of a function: which one, whether the caller may, and an isolate to carry it to. Called by the service for each request. */
import { refuse } from '../gateway/refusals.js';
import type { ServiceRequest } from '../service.js';
import { NO_TOKEN, NOT_FOUND, unavailable } from './answers.js';
import { type EdgeFunction, keyOf, Unavailable } from './function.js';
import type { Isolate } from './isolate.js';
import type { FunctionLimits } from './limits.js';
import { carry } from './proxy.js';

export interface CallOptions {
  functions: ReadonlyMap<string, EdgeFunction>;
  limits: FunctionLimits;
}

/** As upstream's, for whoever asks whether functions are run at all. */
const HEALTH = '/_internal/health';

export const answering =
  ({ functions, limits }: CallOptions) =>
  async (request: ServiceRequest): Promise<void> => {
    const { tenant, address, path, query, incoming, outgoing } = request;
    if (path === HEALTH) {
      refuse(outgoing, { status: 200, body: { ok: true } });
      return;
    }
    const name = nameOf(path);
    const found = name === undefined ? undefined : functions.get(keyOf(tenant.ref, name));
    const refusal = found === undefined ? NOT_FOUND : tokenRefusal(found, request);
    if (found === undefined || refusal !== undefined) {
      refuse(outgoing, refusal ?? NOT_FOUND);
      return;
    }
    let isolate: Isolate;
    try {
      const acquired = found.acquire();
      isolate = acquired instanceof Promise ? await acquired : acquired;
    } catch (error) {
      if (!(error instanceof Unavailable)) throw error;
      refuse(outgoing, unavailable(error.code, error.message, error.retryAfterSeconds));
      return;
    }
    try {
      const target = query === '' ? path : `${path}?${query}`;
      if (await carry(isolate, { target, host: new URL(tenant.url).host, address, incoming, outgoing }, limits))
        found.succeeded();
    } finally {
      isolate.finish();
    }
  };

/** A call needs a token of the project, unless the function says otherwise or a browser asks what it may send. */
function tokenRefusal({ deployment }: EdgeFunction, { refusal, incoming }: ServiceRequest) {
  if (refusal === undefined || !deployment.verifyJwt || incoming.method === 'OPTIONS') return undefined;
  const { authorization, apikey } = incoming.headers;
  return authorization === undefined && apikey === undefined ? NO_TOKEN : refusal;
}

/** `/hello/deeper` → hello. */
function nameOf(path: string): string | undefined {
  const end = path.indexOf('/', 1);
  const name = end === -1 ? path.slice(1) : path.slice(1, end);
  return name === '' ? undefined : name;
}
