/**
 * The port for people. In: requests for projects, answered by their services, and all others, handed on to the API.
 * Decides which project and who calls; a service sees only requests of callers whose key was good.
 */
import { randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { BlockList } from 'node:net';
import type { Duplex } from 'node:stream';
import { type ProjectPlaces, type ProjectService, projectsHostOf } from '@slipway/crds';
import type { Logger } from 'pino';
import { BodyTooLargeError, MAX_BODY_BYTES } from '../request-body.js';
import type { Service, ServiceRequest, Services } from '../service.js';
import { ConnectionError, PoolBusyError } from '../sql/errors.js';
import type { Caller, Tenant } from '../tenant.js';
import { type ProjectAddress, projectAddress, type ServiceAddress, serviceAddress } from './address.js';
import { type Attempt, AttemptLog, type Refused } from './attempt-log.js';
import { type ClientAddress, ofConnection, ofIngress, ofTrustedProxies } from './client-address.js';
import { allowOrigin, answerPreflight, isPreflight } from './cors.js';
import {
  type Credentials,
  credentialsOf,
  credentialsOfUpgrade,
  decideCaller,
  knownCaller,
  withoutKey,
} from './credentials.js';
import type { DeployedName } from './deployed.js';
import { answerProbe } from './health.js';
import { type HostCheck, hostCheck } from './host-check.js';
import type { Management } from './management.js';
import type { GatewayMetrics } from './metrics.js';
import { OWN_ORIGIN, SHARED_ORIGIN } from './origin-policy.js';
import { ProjectResponse } from './project-response.js';
import { hasBody } from './proxy-headers.js';
import { RateLimit } from './rate-limit.js';
import {
  BODY_TOO_LARGE,
  FAILED,
  INVALID_KEY,
  NO_KEY,
  NO_UPGRADE,
  notHere,
  OTHER_HOST,
  type Refusal,
  refuse,
  STARTING,
  serviceBusy,
  serviceDown,
  serviceTooSlow,
  suspended,
  TOO_MANY_REQUESTS,
  UNKNOWN_PROJECT,
  unavailable,
} from './refusals.js';
import { RULES, type ServiceRules } from './rules.js';
import { type Patience, SlowClients } from './slow-clients.js';
import { Tokens } from './tokens.js';
import { upgradeResponse } from './upgrade-response.js';
import { ServiceBusy, ServiceTooSlow, ServiceUnreachable } from './upstream-client.js';

export interface GatewayOptions extends ProjectPlaces {
  /** Undefined: requests for any host name are answered, as on a cluster. */
  allowedHosts?: readonly string[] | undefined;
  /** Reverse proxies whose X-Forwarded-For counts. */
  trustedProxies?: BlockList | undefined;
  tenant(ref: string): Tenant | undefined;
  /** Whether every project is known: before that, one that isn't may only not be known yet. */
  complete(): boolean;
  services: Services;
  /** For projects that have pods of their own for these. */
  deployed?: Record<DeployedName, Service> | undefined;
  /** All requests come through an ingress, which says from where. */
  behindIngress?: boolean;
  /** Requests a second of one address to one project; 0: no limit; undefined: the default. */
  rateLimit?: number | undefined;
  management: Management;
  /** Undefined: nobody counts. */
  metrics?: GatewayMetrics | undefined;
  log: Logger;
  limits?: Partial<GatewayLimits>;
}

export interface GatewayLimits extends Patience {
  bodyBytes: number;
  /** For a client to send its headers. */
  headersMilliseconds: number;
}

const LIMITS: GatewayLimits = {
  bodyBytes: MAX_BODY_BYTES,
  headersMilliseconds: 15_000,
  requestMilliseconds: 120_000,
  stillMilliseconds: 60_000,
  checkMilliseconds: 5_000,
};

/** A service that this data plane runs, and what the gateway does differently for it. */
interface Entry {
  name: ProjectService;
  service: Service;
  rules: ServiceRules;
}

/** The caller, and the token that proves it. */
interface Who {
  caller: Caller;
  token: string | undefined;
}

type Doubts = Pick<ServiceRequest, 'tokenProblem' | 'refusal'>;

const NOBODY: Who = { caller: { role: 'anon', claims: '{"role":"anon"}' }, token: undefined };

export function createGateway(options: GatewayOptions): Server {
  const limits = { ...LIMITS, ...options.limits };
  const server = createServer({
    headersTimeout: limits.headersMilliseconds,
    // How long a body may take depends on the service: SlowClients sees to it.
    requestTimeout: 0,
    connectionsCheckingInterval: limits.checkMilliseconds,
    keepAliveTimeout: 65_000,
    noDelay: true,
    ServerResponse: ProjectResponse,
    shouldUpgradeCallback: (incoming) => incoming.headers.upgrade?.toLowerCase() === 'websocket',
  }) as unknown as Server;
  const rateLimit = new RateLimit(options.rateLimit);
  const attempts = new AttemptLog(options.log);
  const gateway = new Gateway(options, limits, rateLimit, new SlowClients(server, limits), attempts);
  server.on('request', (incoming, outgoing) => gateway.onRequest(incoming, outgoing));
  server.on('upgrade', (incoming, socket, head) => {
    // As where another answer has not left yet: whoever asks for more on its connection is given none of it. Not warned
    // of, as nothing bounds how often callers bring it about.
    gateway.onUpgrade(incoming, socket, head).catch((error: unknown) => {
      options.log.debug({ err: error }, 'upgrade request failed');
      socket.destroy();
    });
  });
  server.once('close', () => {
    rateLimit.close();
    attempts.close();
  });
  return server;
}

class Gateway {
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly #deployed: ReadonlyMap<string, Entry>;
  readonly #clientAddress: ClientAddress;
  readonly #answersFor: HostCheck;
  readonly #domain: string;
  readonly #tokens = new Tokens();
  readonly #nextId = requestIds();

  constructor(
    private readonly options: GatewayOptions,
    private readonly limits: GatewayLimits,
    private readonly rateLimit: RateLimit,
    private readonly slowClients: SlowClients,
    private readonly attempts: AttemptLog,
  ) {
    const projectsHost = projectsHostOf(options);
    const { publicUrl, allowedHosts, trustedProxies } = options;
    this.#answersFor = allowedHosts ? hostCheck({ publicUrl, projectsHost, allowedHosts }) : () => true;
    this.#entries = entriesOf(options.services);
    this.#deployed = entriesOf(options.deployed ?? {});
    this.#clientAddress = clientAddress(options.behindIngress, trustedProxies);
    this.#domain = `.${projectsHost}`;
  }

  onRequest(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const requestId = this.#nextId();
    if (this.options.log.isLevelEnabled('debug')) logWhenDone(this.options.log, incoming, outgoing, requestId);
    const isWithBody = hasBody(incoming);
    if (isWithBody) this.slowClients.watch(incoming, outgoing, false);
    if (!this.#answersFor(incoming.headers.host)) return this.#refuseOtherHost(incoming, outgoing, requestId);
    const address = projectAddress(incoming.url as string, incoming.headers.host, this.#domain);
    if (address === undefined) {
      if (answerProbe(incoming.url as string, this.options.complete, outgoing)) return;
      this.options.metrics?.watch(outgoing, 'platform');
      this.options.management.forward(incoming, outgoing, requestId, this.#clientAddress(incoming));
      return;
    }
    // A function's own call of the public URL has an ordinary response: no browser reads it.
    if (outgoing instanceof ProjectResponse) outgoing.apply(policyOf(address));
    outgoing.setHeader('X-Request-Id', requestId);
    if (isPreflight(incoming)) {
      answerPreflight(incoming, outgoing);
      return;
    }
    if (incoming.headers.origin !== undefined) allowOrigin(outgoing);
    const tenant = this.options.tenant(address.ref);
    const place = serviceAddress(address.target);
    const entry = place && this.#entryOf(tenant, place.service);
    this.options.metrics?.watch(outgoing, entry?.name ?? 'none');
    if (isWithBody && entry?.rules.streams) this.slowClients.watch(incoming, outgoing, true);
    const refusal = this.#refusalOf(tenant, place, entry, incoming);
    if (tenant === undefined || place === undefined || entry === undefined || refusal !== undefined) {
      refuse(outgoing, worded(entry, refusal ?? UNKNOWN_PROJECT));
      return;
    }
    const credentials = credentialsOf(incoming);
    const caller = knownCaller(this.#tokens, tenant, credentials);
    if (caller !== undefined) {
      const token = credentials.bearer ?? credentials.key;
      this.#serve(entry, tenant, place, { caller, token }, requestId, incoming, outgoing);
    } else void this.#decide(entry, tenant, place, credentials, requestId, incoming, outgoing);
  }

  /** The refusal holds nothing of anybody's, so pages may read why their requests fail. */
  #refuseOtherHost(incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): void {
    const { host = '' } = incoming.headers;
    this.options.metrics?.watch(outgoing, 'misdirected');
    this.attempts.otherHost(host, requestId, this.#clientAddress(incoming));
    allowOrigin(outgoing);
    refuse(outgoing, OTHER_HOST);
  }

  #entryOf(tenant: Tenant | undefined, service: string): Entry | undefined {
    const deployed = tenant?.placement === 'deployments' ? this.#deployed.get(service) : undefined;
    return deployed ?? this.#entries.get(service);
  }

  /** Why a request is refused whoever calls; undefined: all three are there, and it may go on. */
  #refusalOf(
    tenant: Tenant | undefined,
    place: ServiceAddress | undefined,
    entry: Entry | undefined,
    incoming: IncomingMessage,
  ): Refusal | undefined {
    if (tenant === undefined) return this.options.complete() ? UNKNOWN_PROJECT : STARTING;
    if (this.rateLimit.exceeded(tenant.ref, this.#clientAddress(incoming))) return TOO_MANY_REQUESTS;
    if (tenant.suspended) return suspended(tenant.ref);
    if (entry?.rules.streams !== true && Number(incoming.headers['content-length']) > this.limits.bodyBytes) {
      return BODY_TOO_LARGE;
    }
    if (entry === undefined) return absent(place, tenant);
    return tenant.services.has(entry.name) ? undefined : unavailable(entry.name, tenant.type);
  }

  async #decide(
    entry: Entry,
    tenant: Tenant,
    place: ServiceAddress,
    credentials: Credentials,
    requestId: string,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
  ): Promise<void> {
    const { rules } = entry;
    try {
      const decision = await decideCaller(this.#tokens, tenant, credentials);
      if ('caller' in decision) {
        const token = credentials.bearer ?? credentials.key;
        this.#serve(entry, tenant, place, { caller: decision.caller, token }, requestId, incoming, outgoing);
        return;
      }
      const refusal = worded(entry, refusalFor(decision, rules));
      if (rules.open?.(incoming.method as string, place.path)) {
        this.#serve(entry, tenant, place, NOBODY, requestId, incoming, outgoing, { refusal });
      } else if (decision.refused === 'invalid-token' && rules.servesBadTokens && decision.keyCaller !== undefined) {
        // Auth has routes that ask for no user: a client with a worn-out session may still sign in.
        const { keyCaller: caller, problem: tokenProblem } = decision;
        const who = { caller, token: credentials.key };
        this.#serve(entry, tenant, place, who, requestId, incoming, outgoing, { tokenProblem });
      } else {
        this.attempts.refused(decision, this.#attemptOf(tenant, place, requestId, incoming));
        refuse(outgoing, refusal);
      }
    } catch (error) {
      this.#fail(error, entry, this.#attemptOf(tenant, place, requestId, incoming), outgoing);
    }
  }

  #serve(
    entry: Entry,
    tenant: Tenant,
    place: ServiceAddress,
    { caller, token }: Who,
    requestId: string,
    incoming: IncomingMessage,
    outgoing: ServerResponse,
    { tokenProblem, refusal }: Doubts = {},
  ): void {
    const { path } = place;
    const query = withoutKey(place.query);
    const attempt = this.#attemptOf(tenant, place, requestId, incoming);
    const { address } = attempt;
    outgoing.once('finish', () => this.attempts.answered(outgoing.statusCode, attempt));
    entry.service
      .handle({ tenant, caller, token, address, path, query, requestId, incoming, outgoing, tokenProblem, refusal })
      .catch((error: unknown) => this.#fail(error, entry, attempt, outgoing));
  }

  #attemptOf({ ref }: Tenant, place: ServiceAddress, requestId: string, incoming: IncomingMessage): Attempt {
    return { ref, place, requestId, method: incoming.method ?? '', address: this.#clientAddress(incoming) };
  }

  #fail(error: unknown, entry: Entry, attempt: Attempt, outgoing: ServerResponse): void {
    if (error instanceof BodyTooLargeError) {
      refuse(outgoing, worded(entry, BODY_TOO_LARGE));
      return;
    }
    if (outgoing.destroyed && !outgoing.writableFinished) {
      this.options.log.debug({ err: error, requestId: attempt.requestId }, 'caller disconnected');
      return;
    }
    const { words, refusal } = failureOf(error, entry.name);
    this.attempts.failed(error, words, attempt);
    refuse(outgoing, worded(entry, refusal));
  }

  /** Decides as for any request, and hands the socket itself to the service. */
  async onUpgrade(incoming: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const requestId = this.#nextId();
    socket.on('error', () => socket.destroy());
    const address = projectAddress(incoming.url as string, incoming.headers.host, this.#domain);
    const outgoing = upgradeResponse(socket, incoming, policyOf(address));
    if (this.options.log.isLevelEnabled('debug')) logWhenDone(this.options.log, incoming, outgoing, requestId);
    outgoing.setHeader('X-Request-Id', requestId);
    if (!this.#answersFor(incoming.headers.host)) return this.#refuseOtherHost(incoming, outgoing, requestId);
    if (address === undefined) return refuse(outgoing, NO_UPGRADE);
    const tenant = this.options.tenant(address.ref);
    const place = serviceAddress(address.target);
    const entry = place && this.#entryOf(tenant, place.service);
    const refusal = this.#refusalOf(tenant, place, entry, incoming);
    if (tenant === undefined || place === undefined || entry === undefined || refusal !== undefined) {
      return refuse(outgoing, worded(entry, refusal ?? UNKNOWN_PROJECT));
    }
    if (entry.service.upgrade === undefined) return refuse(outgoing, worded(entry, NO_UPGRADE));
    const attempt = this.#attemptOf(tenant, place, requestId, incoming);
    try {
      const credentials = credentialsOfUpgrade(incoming, place.query);
      const decision = await decideCaller(this.#tokens, tenant, credentials);
      if (!('caller' in decision)) {
        this.attempts.refused(decision, attempt);
        return refuse(outgoing, worded(entry, refusalFor(decision, entry.rules)));
      }
      if (socket.destroyed) return;
      outgoing.detachSocket(incoming.socket);
      this.options.metrics?.socketOpened(socket);
      const { path } = place;
      const query = withoutKey(place.query);
      const who = { caller: decision.caller, token: credentials.bearer ?? credentials.key };
      entry.service.upgrade({
        tenant,
        ...who,
        address: attempt.address,
        path,
        query,
        requestId,
        incoming,
        socket,
        head,
      });
    } catch (error) {
      this.attempts.failed(error, 'an upgrade failed', attempt);
      if (outgoing.socket) refuse(outgoing, worded(entry, FAILED));
      else socket.destroy();
    }
  }
}

const clientAddress = (behindIngress: boolean | undefined, trustedProxies: BlockList | undefined): ClientAddress => {
  if (behindIngress) return ofIngress;
  return trustedProxies ? ofTrustedProxies(trustedProxies) : ofConnection;
};

const policyOf = (address: ProjectAddress | undefined) => (address?.ownOrigin ? OWN_ORIGIN : SHARED_ORIGIN);

const entriesOf = (services: Services) =>
  new Map<string, Entry>(
    (Object.entries(services) as [ProjectService, Service][]).map(([name, service]) => [
      name,
      { name, service, rules: RULES[name] },
    ]),
  );

const worded = (entry: Entry | undefined, refusal: Refusal): Refusal => entry?.rules.reworded?.(refusal) ?? refusal;

function failureOf(error: unknown, service: string): { words: string; refusal: Refusal } {
  if (error instanceof ConnectionError || error instanceof PoolBusyError) {
    return { words: 'a service can not reach its database', refusal: serviceDown(service) };
  }
  if (error instanceof ServiceUnreachable) return { words: 'a service is away', refusal: serviceDown(service) };
  if (error instanceof ServiceTooSlow) return { words: 'a service is too slow', refusal: serviceTooSlow(service) };
  if (error instanceof ServiceBusy) return { words: 'a service has too much to do', refusal: serviceBusy(service) };
  return { words: 'request failed', refusal: FAILED };
}

function refusalFor(decision: Refused, rules: ServiceRules): Refusal {
  if (decision.refused === 'invalid-token') return rules.tokenRefusal(decision.problem);
  return decision.refused === 'no-key' ? NO_KEY : INVALID_KEY;
}

/** A service that the matrix gives but that nobody started, one that it doesn't, and what is no service at all. */
function absent(place: ServiceAddress | undefined, tenant: Tenant): Refusal {
  const name = place?.service;
  if (name !== undefined && isProjectService(name)) {
    if (!tenant.services.has(name)) return unavailable(name, tenant.type);
    return notHere(
      name,
      `this installation does not run the ${name} service; a cluster has it by the component ${name}`,
    );
  }
  if (name === 'graphql') return notHere(name, 'this installation does not run the GraphQL service');
  return { status: 404, body: { message: 'no Route matched with those values' } };
}

const isProjectService = (name: string): name is ProjectService => Object.hasOwn(RULES, name);

/** Ids that no two requests share, of this process or another; a caller can't choose one. */
function requestIds(): () => string {
  const prefix = randomBytes(6).toString('hex');
  let count = 0;
  return () => `${prefix}-${(++count).toString(36)}`;
}

/** Neither the query nor any header is logged: both may hold keys. */
function logWhenDone(log: Logger, incoming: IncomingMessage, outgoing: ServerResponse, requestId: string): void {
  const begun = performance.now();
  const path = (incoming.url as string).split('?', 1)[0];
  outgoing.once('close', () => {
    const milliseconds = Math.round((performance.now() - begun) * 10) / 10;
    log.debug({ requestId, method: incoming.method, path, status: outgoing.statusCode, milliseconds }, 'request');
  });
}
