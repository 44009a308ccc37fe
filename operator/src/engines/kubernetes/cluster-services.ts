/**
 * The services of a cluster: a route to each project and, depending on its plan, the project's own pods for auth and
 * rest. The shared data plane serves the other services. In: the site's settings, and the caches of existing objects.
 */

import { DEFAULT_TYPE } from '@slipway/crds';
import { availableServices, projectUrlByHost, type Site } from '@slipway/installation';
import type { KubeClient } from '@slipway/kubernetes';
import type {
  EngineOutcome,
  EnginePart,
  EngineProject,
  ProjectServices,
  ServicesOutcome,
  ServicesRequest,
  Usage,
} from '../../capabilities/index.js';
import { allDone } from '../../runtime/all-done.js';
import type { PauseWatch } from '../pause-watch.js';
import { ServiceProbe } from '../service-probe.js';
import type { Children } from './children/children.js';
import { dataplaneOrigins } from './dataplane-origins.js';
import type { Rollout } from './rollout/rollout.js';
import { ensureRoutes, removeRoutes } from './route.js';
import { scaleDown } from './scale-down.js';
import { DeployedServices } from './services/deployed-services.js';

export interface ClusterServicesSettings {
  site: Site;
  client: KubeClient;
  children: Children;
  rollout: Rollout;
  /** URL of the shared data plane. */
  dataplaneUrl: string;
  /** Undefined: pauses are detected only by the responses of projects. */
  pauses?: PauseWatch;
}

const LOOK_AGAIN_MS = 1_000;
/** Milliseconds after which every gateway has stopped sending requests to the project's pods. */
const MOVED_MS = 5_000;

export class ClusterServices implements ProjectServices {
  readonly #settings: ClusterServicesSettings;
  readonly #services: DeployedServices;
  readonly #probe: ServiceProbe;

  constructor(settings: ClusterServicesSettings) {
    const { site, children, rollout, dataplaneUrl, pauses } = settings;
    this.#settings = settings;
    this.#services = new DeployedServices(children, site, rollout);
    this.#probe = new ServiceProbe(dataplaneUrl, (ref) => this.#url(ref), pauses);
  }

  async ensure(request: ServicesRequest): Promise<ServicesOutcome> {
    const { project } = request;
    const [route, deployed] = await allDone([
      ensureRoutes(this.#settings.children, project, this.#settings.site),
      this.#ensureDeployed(project),
    ]);
    const parts = [...route, ...deployed];
    const missing = parts.find(({ outcome, advisory }) => outcome.state !== 'ready' && !advisory);
    const outcome = missing ? waitingFor(missing) : await this.#ask(request);
    if (this.#isLeavingPods(project)) {
      // Also if the services do not answer: nothing restarts these pods, and they may be stopped.
      const tidied = outcome.state === 'ready' ? { ...outcome, lookAgainMs: MOVED_MS } : outcome;
      return { outcome: tidied, parts, placement: 'pooled' };
    }
    if (outcome.state !== 'ready' || project.suspended) return { outcome, parts };
    return { outcome, parts, placement: this.#settings.site.plans[project.plan].placement };
  }

  storageUsage({ ref }: EngineProject, serviceRoleKey: string): Promise<Usage | undefined> {
    return this.#probe.storageUsage(ref, serviceRoleKey);
  }

  async verifiersAccept({ project, anonKey }: ServicesRequest): Promise<EngineOutcome> {
    if (this.#isDeployed(project) && !this.#services.areUpToDate(project.ref)) {
      const message = 'waiting for the pods of auth and rest to get the next JWT secret';
      return { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
    }
    const { client, dataplaneUrl } = this.#settings;
    return this.#probe.accepts(project.ref, anonKey, await dataplaneOrigins(client, dataplaneUrl));
  }

  async remove(project: Pick<EngineProject, 'ref' | 'uid'>): Promise<void> {
    const { client, children } = this.#settings;
    await removeRoutes(children, project.ref);
    await scaleDown(client, children, project, 'Deployment');
  }

  close(): Promise<void> {
    return this.#probe.close();
  }

  async #ensureDeployed(project: EngineProject): Promise<EnginePart[]> {
    if (this.#isDeployed(project)) return this.#services.ensure(project, this.#url(project.ref));
    // The gateways route requests by the status: it must have `pooled` before the pods are deleted.
    if (project.placement !== 'deployments') await this.#services.remove(project.ref);
    return [];
  }

  async #ask({ project, anonKey }: ServicesRequest): Promise<ServicesOutcome['outcome']> {
    const { ref, type, plan, suspended } = project;
    if (suspended) return { state: 'ready', value: { services: {} } };
    const { site } = this.#settings;
    const health = this.#isDeployed(project) ? this.#services.healthOf(ref) : {};
    const available = availableServices(type, plan, { [DEFAULT_TYPE]: site.openedServices });
    const asked = await this.#probe.ask(project, anonKey, available, health);
    return asked.state === 'ready' ? { ...asked, value: { services: asked.value } } : asked;
  }

  #isDeployed({ plan }: EngineProject): boolean {
    return this.#settings.site.plans[plan].placement === 'deployments';
  }

  /** True while requests still go to pods that the plan no longer includes. */
  #isLeavingPods(project: EngineProject): boolean {
    return project.placement === 'deployments' && !this.#isDeployed(project);
  }

  #url(ref: string): string {
    return projectUrlByHost(this.#settings.site, ref);
  }
}

/** Returns the outcome of waiting for a part. The part itself reports its problem. */
function waitingFor({ condition, outcome }: EnginePart): EngineOutcome<never> {
  const message = `waiting for ${condition.replace(/Ready$/, '').toLowerCase()}`;
  const lookAgainMs = outcome.state === 'progressing' ? outcome.lookAgainMs : LOOK_AGAIN_MS;
  return { state: 'progressing', message, lookAgainMs };
}
