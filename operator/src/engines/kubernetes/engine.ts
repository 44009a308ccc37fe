/**
 * The engine of a cluster: each project is a namespace with objects in it, its database in a Postgres cluster. In: the
 * site's settings, the caches of what is there. Out: the verbs of `Engine`, each composed of the parts in the folders
 * beside this file.
 */
import { availableServices, projectUrlByHost, type Site } from '@slipway/crds';
import type { Logger } from 'pino';
import { allDone } from '../../runtime/all-done.js';
import type { KubeClient } from '../../runtime/kube.js';
import type {
  DatabaseAddress,
  DatabaseRequest,
  Engine,
  EngineOutcome,
  EnginePart,
  EngineProject,
  RemoveRequest,
  ServicesOutcome,
  ServicesRequest,
} from '../engine.js';
import type { EndedSession } from '../postgres/session-watch.js';
import { ServiceProbe } from '../service-probe.js';
import { ApiRoute } from './api-route.js';
import type { Children } from './children/children.js';
import { ensureAll, withRestored } from './children/ensure-all.js';
import { dataplaneOrigins } from './dataplane-origins.js';
import { ensureIsolation } from './isolation/isolation.js';
import { childOf } from './objects.js';
import { PostgresClusters } from './postgres-cluster/clusters.js';
import { PullSecrets } from './pull-secrets.js';
import type { Rollout } from './rollout/rollout.js';
import { removeRoute, routeOf, routeOutcome } from './route.js';
import { DeployedServices } from './services/deployed-services.js';

export interface KubernetesEngineSettings {
  site: Site;
  client: KubeClient;
  children: Children;
  rollout: Rollout;
  /** Where the shared data plane answers. */
  dataplaneUrl: string;
  /** Returns the password of the role that reads changes for realtime, in the Postgres at `host`. */
  replicationPassword(host: string): Promise<string>;
  /** Told of each project whose roles or database somebody changed. */
  onDatabaseChange(ref: string): void;
  /** Called for each session of the project that was ended because it harmed others. */
  onSessionEnded?: (ref: string, ended: EndedSession) => void;
  onDatabaseFull?: (ref: string, message: string) => void;
  log: Logger;
}

const LOOK_AGAIN_MS = 1_000;
/** By then every gateway has heard that a project's pods are not asked any more. */
const MOVED_MS = 5_000;

export class KubernetesEngine implements Engine {
  readonly #settings: KubernetesEngineSettings;
  readonly #postgres: PostgresClusters;
  readonly #services: DeployedServices;
  readonly #probe: ServiceProbe;
  readonly #pullSecrets: PullSecrets;
  readonly #apiRoute: ApiRoute;

  constructor(settings: KubernetesEngineSettings) {
    const { site, client, children, replicationPassword, log } = settings;
    this.#settings = settings;
    this.#pullSecrets = new PullSecrets(client, children, site.images.pullSecrets);
    this.#postgres = new PostgresClusters({
      site,
      client,
      children,
      replicationPassword,
      onChange: settings.onDatabaseChange,
      onSessionEnded: settings.onSessionEnded,
      onDatabaseFull: settings.onDatabaseFull,
      log,
    });
    this.#services = new DeployedServices(children, site, settings.rollout);
    this.#apiRoute = new ApiRoute(children, site, log);
    this.#probe = new ServiceProbe(settings.dataplaneUrl, (ref) => this.#url(ref));
  }

  start(): void {
    this.#postgres.start();
    this.#apiRoute.start();
  }

  async ensureIsolation(project: EngineProject): Promise<EngineOutcome> {
    const { children, site } = this.#settings;
    const isolated = await ensureIsolation(children, project, site, this.#postgres.address(project).host);
    if (isolated.state !== 'ready') return isolated;
    const copied = await this.#pullSecrets.ensure((name) => copyOf(project, name));
    return withRestored(copied, isolated.restored);
  }

  databaseAddress(project: EngineProject): DatabaseAddress {
    return this.#postgres.address(project);
  }

  recordedDatabaseId(project: EngineProject): Promise<string | undefined> {
    return this.#postgres.recordedId(project);
  }

  ensureDatabase(request: DatabaseRequest): Promise<EngineOutcome> {
    return this.#postgres.ensure(request);
  }

  async ensureServices(request: ServicesRequest): Promise<ServicesOutcome> {
    const { project } = request;
    const [route, deployed] = await allDone([this.#ensureRoute(project), this.#ensureDeployed(project)]);
    const parts = [...route, ...deployed];
    const missing = parts.find(({ outcome, advisory }) => outcome.state !== 'ready' && !advisory);
    const outcome = missing ? waitingFor(missing) : await this.#ask(request);
    if (this.#isLeavingPods(project)) {
      // Whether they answer or not: nobody keeps them any more, and they may stand still.
      const tidied = outcome.state === 'ready' ? { ...outcome, lookAgainMs: MOVED_MS } : outcome;
      return { outcome: tidied, parts, placement: 'pooled' };
    }
    if (outcome.state !== 'ready' || project.suspended) return { outcome, parts };
    return { outcome, parts, placement: this.#settings.site.plans[project.plan].placement };
  }

  async verifiersAccept({ project, anonKey }: ServicesRequest): Promise<EngineOutcome> {
    if (this.#isDeployed(project) && !this.#services.areUpToDate(project.ref)) {
      const message = 'waiting for the pods of auth and rest to have the next JWT secret';
      return { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
    }
    const { client, dataplaneUrl } = this.#settings;
    return this.#probe.accepts(project.ref, anonKey, await dataplaneOrigins(client, dataplaneUrl));
  }

  async remove(request: RemoveRequest): Promise<EngineOutcome> {
    const { children } = this.#settings;
    await removeRoute(children, request.ref);
    return this.#postgres.remove(request);
  }

  async close(): Promise<void> {
    await this.#apiRoute.close();
    await this.#postgres.close();
    await this.#probe.close();
  }

  async #ensureRoute(project: EngineProject): Promise<EnginePart[]> {
    const { children, site } = this.#settings;
    const route = routeOf(project, site);
    if (!route) return [];
    const applied = await ensureAll(children, [route]);
    const { kind, metadata } = route;
    const judged = routeOutcome(children.get(kind, metadata.namespace, metadata.name));
    return [{ condition: 'RouteReady', outcome: judged.state === 'ready' ? applied : judged }];
  }

  async #ensureDeployed(project: EngineProject): Promise<EnginePart[]> {
    if (this.#isDeployed(project)) return this.#services.ensure(project, this.#url(project.ref));
    // Those who route requests go by the status: it has to say `pooled` before the pods may go.
    if (project.placement !== 'deployments') await this.#services.remove(project.ref);
    return [];
  }

  async #ask({ project, anonKey }: ServicesRequest): Promise<ServicesOutcome['outcome']> {
    const { ref, plan, suspended } = project;
    if (suspended) return { state: 'ready', value: { services: {} } };
    const { site } = this.#settings;
    const health = this.#isDeployed(project) ? this.#services.healthOf(ref) : {};
    const available = availableServices('shared', plan, { shared: site.openedServices });
    const asked = await this.#probe.ask(ref, anonKey, available, health);
    return asked.state === 'ready' ? { ...asked, value: { services: asked.value } } : asked;
  }

  #isDeployed({ plan }: EngineProject): boolean {
    return this.#settings.site.plans[plan].placement === 'deployments';
  }

  /** Requests go to pods that its plan has no place for any more. */
  #isLeavingPods(project: EngineProject): boolean {
    return project.placement === 'deployments' && !this.#isDeployed(project);
  }

  #url(ref: string): string {
    return projectUrlByHost(this.#settings.site, ref);
  }
}

/** `metadata` of a Secret that is copied into the project's namespace. */
const copyOf = (project: EngineProject, name: string) =>
  childOf(project, { apiVersion: 'v1', kind: 'Secret', name, component: 'isolation', body: {} }).metadata;

/** Waits for a part; the part itself reports its problem. */
function waitingFor({ condition, outcome }: EnginePart): EngineOutcome<never> {
  const message = `waiting for ${condition.replace(/Ready$/, '').toLowerCase()}`;
  const lookAgainMs = outcome.state === 'progressing' ? outcome.lookAgainMs : LOOK_AGAIN_MS;
  return { state: 'progressing', message, lookAgainMs };
}
