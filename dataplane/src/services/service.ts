import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { type ProjectService } from '@slipway/crds';
import type { Refusal } from '../http/refusals.js';
import type { TokenProblem } from '../identity/tokens.js';
import type { AppUpstream, BackendTenant, Caller } from '../projects/tenant.js';

/** Request to one service of one project, whose caller the gateway has authenticated. */
export interface ServiceRequest {
  tenant: BackendTenant;
  caller: Caller;
  /** Token that proves the caller; undefined: anonymous. */
  token: string | undefined;
  /** Network address of the caller, from a trusted source. */
  address: string;
  /** Path behind the service's prefix: `/todos` of `/rest/v1/todos`. */
  path: string;
  /** Query string as sent, without `?`. */
  query: string;
  requestId: string;
  /** Set if the service has `servesBadTokens` and the Bearer token was rejected; `caller` is then the API key's. */
  tokenProblem?: TokenProblem | undefined;
  /** Set on open routes only: the rejection of the key or token that the request lacks; `caller` is then anonymous. */
  refusal?: Refusal | undefined;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  /** Adds the code of the service's error to the line that the project's owner reads. */
  note?(code: string): void;
}

/** Upgrade request, authenticated as any other. The service writes its response to the socket. */
export interface UpgradeRequest extends Omit<ServiceRequest, 'outgoing' | 'tokenProblem' | 'refusal' | 'note'> {
  socket: Duplex;
  /** Bytes that followed the request's headers. */
  head: Buffer;
}

/** Service behind the gateway. It responds to every request, also with its own errors, in its clients' format. */
export interface Service {
  handle(request: ServiceRequest): Promise<void>;
  /** Undefined: upgrade requests are rejected. */
  upgrade?(request: UpgradeRequest): void;
  /**
   * Called when keys, settings or passwords of the project change, but not its database. Requests in flight continue.
   */
  change?(tenant: BackendTenant): void;
  /** Releases all resources of a project that was deleted, suspended or moved to another database. */
  forget(ref: string): Promise<void>;
  close(): Promise<void>;
}

/** Services that this data plane runs. `gateway/rules.ts` has the gateway's rules for each. */
export type Services = Partial<Record<ProjectService, Service>>;

/** GET or HEAD request at a site's own origin. */
export interface SiteRequest {
  ref: string;
  /** Name of the requested preview; undefined: the site itself. */
  preview?: string | undefined;
  /** Path and query. */
  target: string;
  requestId: string;
  /** Network address of the visitor. */
  address: string;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
}

/** POST to the path of a form at a site's own origin. */
export interface FormRequest extends SiteRequest {
  /** Origin of the site. */
  siteUrl: string;
}

/** Serves the sites of hosted projects. It responds to every request, also with its own errors, with X-Request-Id. */
export interface Hosting {
  serve(request: SiteRequest): void;
  receive(request: FormRequest): void;
  close(): void;
}

/** Request at an app's own origin, for its container. */
export interface AppRequest {
  ref: string;
  /** Account that owns the app. */
  account: string;
  /** Origin of the app. */
  siteUrl: string;
  upstream: AppUpstream;
  /** Path and query. */
  target: string;
  requestId: string;
  /** Network address of the visitor, from a trusted source. */
  address: string;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
}

/** Request for a WebSocket of an app. */
export interface AppUpgradeRequest extends Omit<AppRequest, 'outgoing'> {
  socket: Duplex;
  /** Bytes that followed the request's headers. */
  head: Buffer;
}

/** Forwards requests to the containers of apps. It responds to every request, also with its own errors. */
export interface Apps {
  forward(request: AppRequest): void;
  upgrade(request: AppUpgradeRequest): void;
  /** Closes the WebSockets of an app that was deleted or suspended. */
  forget(ref: string): void;
  /** Closes all WebSockets, for which the server would wait as it closes. */
  closeSockets(): void;
  close(): void;
}
