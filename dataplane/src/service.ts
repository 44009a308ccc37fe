import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import type { ProjectService } from '@slipway/crds';
import type { Refusal } from './gateway/refusals.js';
import type { TokenProblem } from './gateway/tokens.js';
import type { Caller, Tenant } from './tenant.js';

/** One request to one service of one project, after the gateway has decided who calls. */
export interface ServiceRequest {
  tenant: Tenant;
  caller: Caller;
  /** The token that says who calls; undefined: nobody. */
  token: string | undefined;
  /** The caller's network address, as far as it is known for sure. */
  address: string;
  /** The path behind the service's prefix: `/todos` of `/rest/v1/todos`. */
  path: string;
  /** The query string as sent, without `?`. */
  query: string;
  requestId: string;
  /**
   * Set where the rules say `servesBadTokens`: the Bearer token was refused, and `caller` is whoever the API key says.
   */
  tokenProblem?: TokenProblem | undefined;
  /** Set on open routes alone: what a route that asks for a key would have answered; `caller` is then a nobody. */
  refusal?: Refusal | undefined;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
}

/** A request to change the protocol, decided as any other; the service answers on the socket itself. */
export interface UpgradeRequest extends Omit<ServiceRequest, 'outgoing' | 'tokenProblem' | 'refusal'> {
  socket: Duplex;
  /** Bytes that followed the request's headers. */
  head: Buffer;
}

/** A service behind the gateway. It answers every request, its own errors included, in its clients' words. */
export interface Service {
  handle(request: ServiceRequest): Promise<void>;
  /** Without it a request to change the protocol is refused. */
  upgrade?(request: UpgradeRequest): void;
  /** The project's keys, settings or passwords are others, its database is the same: what is under way goes on. */
  change?(tenant: Tenant): void;
  /** Lets go of all that is held for a project that is gone, stands still or has another database. */
  forget(ref: string): Promise<void>;
  close(): Promise<void>;
}

/** Those that this data plane runs. What the gateway does differently for one of them is in `gateway/rules.ts`. */
export type Services = Partial<Record<ProjectService, Service>>;
