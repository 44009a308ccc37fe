import type { IncomingMessage, ServerResponse } from 'node:http';
import type { TokenProblem } from './gateway/tokens.js';
import type { Caller, Tenant } from './tenant.js';

/** One request to one service of one project, after the gateway has decided who calls. */
export interface ServiceRequest {
  tenant: Tenant;
  caller: Caller;
  /** The path behind the service's prefix: `/todos` of `/rest/v1/todos`. */
  path: string;
  /** The query string as sent, without `?`. */
  query: string;
  requestId: string;
  /** Set for auth alone: the Bearer token was refused, and `caller` is whoever the API key says. */
  tokenProblem?: TokenProblem | undefined;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
}

/** A service behind the gateway: auth, rest. It answers every request, its own errors included, in its clients' words. */
export interface Service {
  handle(request: ServiceRequest): Promise<void>;
  /** Lets go of all that is held for a project that is gone or has changed. */
  forget(ref: string): Promise<void>;
  close(): Promise<void>;
}
