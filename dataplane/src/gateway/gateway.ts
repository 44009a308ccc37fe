/**
 * Routes requests: finds the project, service and caller of a request, and forwards all other requests to the
 * platform's API. A service gets only requests that have a valid key or are for its open routes.
 */
import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { BlockList } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ProjectPlaces, projectsHostOf } from '@slipway/installation';
import { underWay } from '@slipway/program';
import { refOfPreview } from '@slipway/sites';
import type { Logger } from 'pino';
import { type ClientAddress, ofConnection, ofIngress, ofTrustedProxies } from '../http/client-address.js';
import { allowOrigin, answerPreflight, isPreflight } from '../http/cors.js';
import { OWN_ORIGIN, SHARED_ORIGIN } from '../http/origin-policy.js';
import { ProjectResponse } from '../http/project-response.js';
import { hasBody } from '../http/proxy-headers.js';
import {
  BODY_TOO_LARGE,
  bodiesTooLarge,
  FAILED,
  machineDown,
  machinePending,
  NO_VERSION_RUNS,
  NOTHING_DEPLOYED,
  type Refusal,
  refuse,
  STARTING,
  serviceBusy,
  serviceTooSlow,
} from '../http/refusals.js';
import { BodiesTooLargeError, BodyTooLargeError, releaseBody } from '../http/request-body.js';
import type { SlowClients } from '../http/slow-clients.js';
import { upgradeResponse } from '../http/upgrade-response.js';
import {
  type Credentials,
  credentialsOf,
  credentialsOfUpgrade,
  decideCaller,
  knownCaller,
  withoutKey,
} from '../identity/credentials.js';
import { Tokens } from '../identity/tokens.js';
import type { OwnerLog } from '../logs/owner-log.js';
import type { PausedProjects } from '../projects/paused-projects.js';
import type { AppTenant, BackendTenant, Caller, SiteTenant, Tenant, Upstream } from '../projects/tenant.js';
import { isFormPath } from '../services/form-path.js';
import type { AppRequest, Apps, Hosting, Service, ServiceRequest, Services } from '../services/service.js';
import { ConnectionError, PoolBusyError } from '../sql/errors.js';
import type { DeployedName } from '../upstreams/deployed.js';
import type { Management } from '../upstreams/management.js';
import { ServiceBusy, ServiceTooSlow, ServiceUnreachable } from '../upstreams/upstream-client.js';
import {
  onlyProjectAddress,
  type ProjectAddress,
  projectAddress,
  type ServiceAddress,
  serviceAddress,
} from './address.js';
import type { Attempt, AttemptLog, Refused } from './attempt-log.js';
import { absent, type Entry, entriesOf, worded } from './entry.js';
import { answerProbe } from './health.js';
import { type HostCheck, hostCheck } from './host-check.js';
import type { GatewayMetrics } from './metrics.js';
import type { RateLimit } from './rate-limit.js';
import {
  hostedRefusal,
  invalidKey,
  NO_KEY,
  NO_PROXY,
  NO_UPGRADE,
  NOT_LINKED,
  OTHER_HOST,
  paused,
  siteRefusal,
  suspended,
  TOO_MANY_REQUESTS,
  TWO_HOSTS,
  UNKNOWN_PROJECT,
  unavailable,
} from './refusals.js';
import type { ServiceRules } from './rules.js';

export interface GatewayOptions extends ProjectPlaces {
  /** Accepted host names; undefined: all, as on a cluster. */
  allowedHosts?: readonly string[] | undefined;
  /** Reverse proxies whose X-Forwarded-For is trusted. */
  trustedProxies?: BlockList | undefined;
  /** Ref of the only project, which has any host name; undefined: path or host name have the ref. */
  onlyProject?: string | undefined;
  tenant(ref: string): Tenant | undefined;
  /** Returns the project that a container at this address may reach; undefined: none. */
  linkedTo?(address: string): string | undefined;
  /** True once the initial list of projects is complete. Until then an unknown ref gets 503, not 404. */
  complete(): boolean;
  services: Services;
  /** Returns the revision of the project that is served, for probes; undefined: projects have none. */
  revision?: (() => string) | undefined;
  /** Projects that are paused because they hung the data plane. */
  paused?: PausedProjects | undefined;
  /** Serves files of sites; undefined: this data plane has none. */
  hosting?: Hosting | undefined;
  /** Forwards requests to containers of apps; undefined: this data plane has none. */
  apps?: Apps | undefined;
  /** Upstreams of projects whose auth and REST run in their own pods. */
  deployed?: Record<DeployedName, Service> | undefined;
  /** Services of projects with a machine of their own; undefined: this gateway forwards to no machine. */
  machines?: Services | undefined;
  /** True if an ingress forwards all requests, and appends the caller's address. */
  behindIngress?: boolean;
  management: Management;
  /** Metrics of requests. Undefined: no metrics. */
  metrics?: GatewayMetrics | undefined;
  log: Logger;
  /** Logs of projects for their owners. Undefined: this program keeps none. */
  ownerLog?: OwnerLog | undefined;
}

/** Limits that apply to all requests. */
export interface Walls {
  /** Maximum bytes of a body that a service buffers. */
  bodyBytes: number;
  rateLimit: RateLimit;
  slowClients: SlowClients;
  attempts: AttemptLog;
}

/** Request at a project's address. `tenant` and `entry` are undefined if there is no such project or service. */
interface Arrival {
  requestId: string;
  /** Network address of the caller. */
  address: string;
  incoming: IncomingMessage;
  outgoing: ServerResponse;
  tenant: BackendTenant | undefined;
  place: ServiceAddress | undefined;
  entry: Entry | undefined;
}

/** Request that can be served if its caller is authorized. */
type Admitted = Arrival & { tenant: BackendTenant; place: ServiceAddress; entry: Entry };

/** Site, or a preview of it. `preview` is the preview's name. */
interface SiteOfTenant {
  tenant: SiteTenant;
  preview?: string;
}

/** Caller, the token that proves it, and the problem of another token. */
type Who = Pick<ServiceRequest, 'caller' | 'token' | 'tokenProblem' | 'refusal'>;

/** The start of each address in CONTAINERS_NETWORK. */
const CONTAINERS = ['198.18.', '198.19.'];

const NOBODY: Caller = { role: 'anon', claims: '{"role":"anon"}' };

export class Gateway {
  readonly #entries: Readonly<Record<Upstream, ReadonlyMap<string, Entry>>>;
  readonly #clientAddress: ClientAddress;
  readonly #answersFor: HostCheck;
  readonly #addressOf: (incoming: IncomingMessage) => ProjectAddress | undefined;
  readonly #tokens = new Tokens();
  readonly #nextId = requestIds();

  constructor(
    private readonly options: GatewayOptions,
    private readonly walls: Walls,
  ) {
    const projectsHost = projectsHostOf(options);
    const { publicUrl, allowedHosts, trustedProxies } = options;
    this.#answersFor = allowedHosts ? hostCheck({ publicUrl, projectsHost, allowedHosts }) : () => true;
    const pooled = entriesOf(options.services);
    this.#entries = {
      pooled,
      pods: new Map([...pooled, ...entriesOf(options.deployed ?? {})]),
      machine: entriesOf(options.machines ?? {}, machineDown),
    };
    this.#clientAddress = clientAddress(options.behindIngress, trustedProxies);
    this.#addressOf = addressOf(options.onlyProject, `.${projectsHost}`);
  }

  onRequest(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const requestId = this.#nextId();
    if (this.options.log.isLevelEnabled('debug')) logWhenDone(this.options.log, incoming, outgoing, requestId);
    const isWithBody = hasBody(incoming);
    if (isWithBody) this.walls.slowClients.watch(incoming, outgoing, false);
    if (!this.#answersFor(incoming.headers.host)) return this.#refuseOtherHost(incoming, outgoing, requestId);
    if (isForProxy(incoming)) return refuse(outgoing, NO_PROXY);
    if (hasTwoHosts(incoming)) return refuse(outgoing, TWO_HOSTS);
    const address = this.#addressOf(incoming);
    if (this.#isUnlinked(incoming, address?.ref)) return refuse(outgoing, NOT_LINKED);
    if (address === undefined) return this.#answerOfPlatform(incoming, outgoing, requestId);
    // A function's own call of the public URL gets no CORS or sandbox headers, because no browser reads it.
    if (outgoing instanceof ProjectResponse) outgoing.apply(policyOf(address));
    const tenant = this.options.tenant(address.ref);
    if (tenant?.kind === 'site') return this.#answerOfSite({ tenant }, address, { requestId, incoming, outgoing });
    if (tenant?.kind === 'app') return this.#answerOfApp(tenant, address, { requestId, incoming, outgoing });
    const preview = tenant ? undefined : this.#previewAt(address);
    if (preview) return this.#answerOfSite(preview, address, { requestId, incoming, outgoing });
    outgoing.setHeader('X-Request-Id', requestId);
    if (isPreflight(incoming)) return answerPreflight(incoming, outgoing);
    if (incoming.headers.origin !== undefined) allowOrigin(outgoing);
    const arrival = this.#arrivalOf(tenant, address.target, { requestId, incoming, outgoing });
    const { entry } = arrival;
    nameWork(arrival);
    this.options.metrics?.watch(outgoing, entry?.name ?? 'none');
    // The body is decoded in the same turn as its end.
    if (isWithBody) incoming.once('end', () => nameWork(arrival));
    if (isWithBody && entry?.rules.streams) this.walls.slowClients.watch(incoming, outgoing, true);
    if (!this.#admits(arrival)) return;
    const credentials = credentialsOf(incoming);
    const caller = knownCaller(this.#tokens, arrival.tenant, credentials);
    if (caller !== undefined) this.#serve(arrival, { caller, token: credentials.bearer ?? credentials.key });
    else void this.#decide(arrival, credentials);
  }

  /** Authorizes an upgrade like any request, and passes its socket to the service. */
  async onUpgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const requestId = this.#nextId();
    socket.on('error', () => socket.destroy());
    const address = this.#addressOf(incoming);
    const outgoing = upgradeResponse(socket, incoming, policyOf(address));
    if (this.options.log.isLevelEnabled('debug')) logWhenDone(this.options.log, incoming, outgoing, requestId);
    outgoing.setHeader('X-Request-Id', requestId);
    if (!this.#answersFor(incoming.headers.host)) return this.#refuseOtherHost(incoming, outgoing, requestId);
    const tenant = address && this.options.tenant(address.ref);
    if (isForProxy(incoming)) return refuse(outgoing, NO_PROXY);
    if (hasTwoHosts(incoming)) return refuse(outgoing, TWO_HOSTS);
    if (this.#isUnlinked(incoming, address?.ref)) return refuse(outgoing, NOT_LINKED);
    if (address === undefined || tenant?.kind === 'site') return refuse(outgoing, NO_UPGRADE);
    if (tenant?.kind === 'app') return this.#upgradeOfApp(tenant, address, { requestId, incoming, outgoing, head });
    const arrival = this.#arrivalOf(tenant, address.target, { requestId, incoming, outgoing });
    if (!this.#admits(arrival)) return;
    const { entry, place } = arrival;
    if (entry.service.upgrade === undefined) return refuse(outgoing, worded(entry, NO_UPGRADE));
    try {
      const who = await this.#whoOf(arrival, credentialsOfUpgrade(incoming, place.query), false);
      if (who === undefined || socket.destroyed) return;
      outgoing.detachSocket(incoming.socket);
      this.options.metrics?.socketOpened(socket);
      entry.service.upgrade({ ...this.#requestOf(arrival, who), socket, head });
    } catch (error) {
      this.walls.attempts.failed(error, 'an upgrade failed', this.#attemptOf(arrival));
      if (outgoing.socket) refuse(outgoing, worded(entry, FAILED));
      else socket.destroy();
    }
  }

  /** True for a request from a container of an app to anything but the project that the app is linked to. */
  #isUnlinked({ socket }: IncomingMessage, ref: string | undefined): boolean {
    const { remoteAddress = '' } = socket;
    const address = remoteAddress.startsWith('::ffff:') ? remoteAddress.slice(7) : remoteAddress;
    if (!CONTAINERS.some((prefix) => address.startsWith(prefix))) return false;
    return ref === undefined || ref !== this.options.linkedTo?.(address);
  }

  #answerOfPlatform(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): void {
    if (answerProbe(incoming.url as string, this.options, outgoing)) return;
    this.options.metrics?.watch(outgoing, 'platform');
    this.options.management.forward(incoming, outgoing, requestId, this.#clientAddress(incoming));
  }

  /** The error contains no data of a tenant, so pages may read it. */
  #refuseOtherHost(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): void {
    const { host = '' } = incoming.headers;
    this.options.metrics?.watch(outgoing, 'misdirected');
    this.walls.attempts.otherHost(host, requestId, this.#clientAddress(incoming));
    allowOrigin(outgoing);
    refuse(outgoing, OTHER_HOST);
  }

  /** Returns undefined if the address belongs to no site. Hosting checks whether the preview exists. */
  #previewAt({ ref: name, ownOrigin }: ProjectAddress): SiteOfTenant | undefined {
    const ref = ownOrigin ? refOfPreview(name) : undefined;
    const tenant = ref === undefined ? undefined : this.options.tenant(ref);
    return tenant?.kind === 'site' ? { tenant, preview: name } : undefined;
  }

  /** Serves a site: without keys or CORS, and only at its own origin. */
  #answerOfSite(
    { tenant, preview }: SiteOfTenant,
    { ownOrigin, target }: ProjectAddress,
    { requestId, incoming, outgoing }: Pick<Arrival, 'requestId' | 'incoming' | 'outgoing'>,
  ): void {
    const { ref } = tenant;
    this.options.metrics?.watch(outgoing, 'site');
    if (preview !== undefined) outgoing.setHeader('X-Robots-Tag', 'noindex');
    const visitor = this.#clientAddress(incoming);
    const isExceeded = this.walls.rateLimit.exceeded(ref, visitor);
    const method = incoming.method as string;
    // Visitors of a preview are its developers.
    const isForm = method === 'POST' && preview === undefined && tenant.formsEnabled && isFormPath(target);
    const refusal = isExceeded ? TOO_MANY_REQUESTS : siteRefusal(tenant, { method, ownOrigin, isForm });
    const { hosting } = this.options;
    if (!refusal && hosting) {
      const request = { ref, preview, target, requestId, address: visitor, incoming, outgoing };
      return isForm ? hosting.receive({ ...request, siteUrl: tenant.siteUrl as string }) : hosting.serve(request);
    }
    outgoing.setHeader('X-Request-Id', requestId);
    refuse(outgoing, refusal ?? NOTHING_DEPLOYED);
  }

  /** Forwards a request to an app's container. Methods, keys and CORS are the app's own. */
  #answerOfApp(
    tenant: AppTenant,
    address: ProjectAddress,
    arrival: Pick<Arrival, 'requestId' | 'incoming' | 'outgoing'>,
  ) {
    const { incoming, outgoing } = arrival;
    this.options.metrics?.watch(outgoing, 'app');
    const request = this.#appRequestOf(tenant, address, arrival);
    if (request === undefined) return;
    if (hasBody(incoming)) this.walls.slowClients.watch(incoming, outgoing, true);
    this.options.apps?.forward(request);
  }

  #upgradeOfApp(
    tenant: AppTenant,
    address: ProjectAddress,
    { head, ...arrival }: Pick<Arrival, 'requestId' | 'incoming' | 'outgoing'> & { head: Buffer },
  ) {
    const request = this.#appRequestOf(tenant, address, arrival);
    if (request === undefined) return;
    const { socket } = arrival.incoming;
    arrival.outgoing.detachSocket(socket);
    this.options.metrics?.socketOpened(socket);
    this.options.apps?.upgrade({ ...request, socket, head });
  }

  /** Returns the request for the app's container; undefined if it was rejected. */
  #appRequestOf(
    tenant: AppTenant,
    { ownOrigin, target }: ProjectAddress,
    { requestId, incoming, outgoing }: Pick<Arrival, 'requestId' | 'incoming' | 'outgoing'>,
  ): AppRequest | undefined {
    const { ref, account, siteUrl, upstream } = tenant;
    underWay(ref, 'app request');
    const address = this.#clientAddress(incoming);
    const isExceeded = this.walls.rateLimit.exceeded(ref, address);
    const refusal = isExceeded ? TOO_MANY_REQUESTS : hostedRefusal(tenant, ownOrigin);
    if (!refusal && siteUrl !== undefined && upstream !== undefined && this.options.apps) {
      return { ref, account, siteUrl, upstream, target, requestId, address, incoming, outgoing };
    }
    outgoing.setHeader('X-Request-Id', requestId);
    refuse(outgoing, refusal ?? NO_VERSION_RUNS);
    return undefined;
  }

  #arrivalOf(
    tenant: BackendTenant | undefined,
    target: string,
    { requestId, incoming, outgoing }: Pick<Arrival, 'requestId' | 'incoming' | 'outgoing'>,
  ): Arrival {
    const place = serviceAddress(target);
    const entry = place && this.#entries[tenant?.upstream ?? 'pooled'].get(place.service);
    return { requestId, address: this.#clientAddress(incoming), incoming, outgoing, tenant, place, entry };
  }

  /** Sends the rejection of a request that no caller may send now. Returns false if it was rejected. */
  #admits(arrival: Arrival): arrival is Admitted {
    const refusal = this.#refusalOf(arrival);
    if (refusal !== undefined) refuse(arrival.outgoing, worded(arrival.entry, refusal));
    return refusal === undefined;
  }

  /** Returns undefined if tenant, place and entry are known, and the request is allowed. */
  #refusalOf({ tenant, place, entry, address, incoming }: Arrival): Refusal | undefined {
    if (tenant === undefined) return this.options.complete() ? UNKNOWN_PROJECT : STARTING;
    if (this.walls.rateLimit.exceeded(tenant.ref, address)) return TOO_MANY_REQUESTS;
    if (tenant.suspended) return suspended(tenant.ref);
    const pause = this.options.paused?.find(tenant.ref);
    if (pause !== undefined) return paused(pause);
    if (entry?.rules.streams !== true && Number(incoming.headers['content-length']) > this.walls.bodyBytes) {
      return BODY_TOO_LARGE;
    }
    if (entry === undefined) return absent(place, tenant);
    if (!tenant.services.has(entry.name)) return unavailable(entry.name, tenant.type);
    return tenant.upstream === 'machine' && tenant.machine === undefined ? machinePending() : undefined;
  }

  async #decide(request: Admitted, credentials: Credentials): Promise<void> {
    try {
      const who = await this.#whoOf(request, credentials, true);
      if (who !== undefined) this.#serve(request, who);
    } catch (error) {
      this.#fail(error, request);
    }
  }

  /**
   * Returns undefined if the request was rejected. `hasOpenRoutes` is false for an upgrade, which needs a valid key or
   * token.
   */
  async #whoOf(request: Admitted, credentials: Credentials, hasOpenRoutes: boolean): Promise<Who | undefined> {
    const { tenant, place, entry, incoming, outgoing } = request;
    const { rules } = entry;
    const decision = await decideCaller(this.#tokens, tenant, credentials);
    nameWork(request);
    if ('caller' in decision) return { caller: decision.caller, token: credentials.bearer ?? credentials.key };
    const refusal = worded(entry, refusalFor(decision, rules, tenant));
    if (hasOpenRoutes && rules.open?.(incoming.method as string, place.path)) {
      return { caller: NOBODY, token: undefined, refusal };
    }
    // Auth has routes without a user, so that a client with an expired token can sign in again.
    if (hasOpenRoutes && rules.servesBadTokens && decision.refused === 'invalid-token' && decision.keyCaller) {
      return { caller: decision.keyCaller, token: credentials.key, tokenProblem: decision.problem };
    }
    this.walls.attempts.refused(decision, this.#attemptOf(request));
    refuse(outgoing, refusal);
    return undefined;
  }

  #serve(request: Admitted, who: Who): void {
    const { entry, incoming, outgoing } = request;
    let code: string | undefined;
    const note = (noted: string) => {
      code = noted;
    };
    outgoing.once('finish', () => {
      this.walls.attempts.answered({ status: outgoing.statusCode, code }, this.#attemptOf(request));
    });
    entry.service
      .handle({ ...this.#requestOf(request, who), outgoing, note })
      .catch((error: unknown) => this.#fail(error, request))
      .finally(() => releaseBody(incoming));
  }

  #requestOf(
    { tenant, place, address, requestId, incoming }: Admitted,
    who: Who,
  ): Omit<ServiceRequest, 'outgoing' | 'note'> {
    return { tenant, ...who, address, path: place.path, query: withoutKey(place.query), requestId, incoming };
  }

  #attemptOf({ tenant: { ref }, place, address, requestId, incoming }: Admitted): Attempt {
    return { ref, place, requestId, method: incoming.method ?? '', address };
  }

  #fail(error: unknown, request: Admitted): void {
    const { entry, outgoing, requestId } = request;
    if (error instanceof BodyTooLargeError) return refuse(outgoing, worded(entry, BODY_TOO_LARGE));
    if (error instanceof BodiesTooLargeError) return refuse(outgoing, worded(entry, bodiesTooLarge(error)));
    if (outgoing.destroyed && !outgoing.writableFinished) {
      this.options.log.debug({ err: error, requestId }, 'caller disconnected');
      return;
    }
    const { words, refusal } = failureOf(error, entry);
    this.walls.attempts.failed(error, words, this.#attemptOf(request));
    refuse(outgoing, worded(entry, refusal));
  }
}

const addressOf = (onlyProject: string | undefined, domain: string) =>
  onlyProject === undefined
    ? ({ url, headers }: IncomingMessage) => projectAddress(url as string, headers.host, domain)
    : ({ url }: IncomingMessage) => onlyProjectAddress(url as string, onlyProject);

const clientAddress = (behindIngress: boolean | undefined, trustedProxies: BlockList | undefined): ClientAddress => {
  if (behindIngress) return ofIngress;
  return trustedProxies ? ofTrustedProxies(trustedProxies) : ofConnection;
};

/** Rejects a target that names a host, which the next server would use instead of the Host header (RFC 9112, 3.2.2). */
const isForProxy = ({ url, method }: IncomingMessage) =>
  !url?.startsWith('/') && !(method === 'OPTIONS' && url === '*');

/** Rejects a second Host header (RFC 9112, 3.2). A proxy in front may have chosen by the other one. */
function hasTwoHosts({ rawHeaders }: IncomingMessage): boolean {
  let hosts = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string;
    if (name.length === 4 && name.toLowerCase() === 'host') hosts += 1;
  }
  return hosts > 1;
}

const policyOf = (address: ProjectAddress | undefined) => (address?.ownOrigin ? OWN_ORIGIN : SHARED_ORIGIN);

function failureOf(error: unknown, { name: service, down }: Entry): { words: string; refusal: Refusal } {
  if (error instanceof ConnectionError || error instanceof PoolBusyError) {
    return { words: 'database of a service unreachable', refusal: down };
  }
  if (error instanceof ServiceUnreachable) return { words: 'service unreachable', refusal: down };
  if (error instanceof ServiceTooSlow) return { words: 'service timed out', refusal: serviceTooSlow(service) };
  if (error instanceof ServiceBusy) return { words: 'service overloaded', refusal: serviceBusy(service) };
  return { words: 'request failed', refusal: FAILED };
}

function refusalFor(decision: Refused, rules: ServiceRules, { ref }: BackendTenant): Refusal {
  if (decision.refused === 'no-key') return NO_KEY;
  if (decision.refused === 'invalid-key') return invalidKey(decision.problem, ref);
  return rules.tokenRefusal(decision.problem, ref);
}

/** Sets the operation for the watchdog again, because a token may be verified in a later turn. */
function nameWork({ tenant, entry }: Arrival): void {
  if (tenant !== undefined) underWay(tenant.ref, entry?.operation ?? 'request');
}

/** Returns request ids that are unique across processes, and that callers can't choose. */
function requestIds(): () => string {
  const prefix = randomBytes(6).toString('hex');
  let count = 0;
  return () => `${prefix}-${(++count).toString(36)}`;
}

/** Logs the path alone, because the query and headers may contain keys. */
function logWhenDone(log: Logger, incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): void {
  const begun = performance.now();
  const path = (incoming.url as string).split('?', 1)[0];
  outgoing.once('close', () => {
    const milliseconds = Math.round((performance.now() - begun) * 10) / 10;
    log.debug({ requestId, method: incoming.method, path, status: outgoing.statusCode, milliseconds }, 'request');
  });
}
