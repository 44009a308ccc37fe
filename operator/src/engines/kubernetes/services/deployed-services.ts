/**
 * Auth and rest in a project's own pods. In: a project, its address, and the values of its Secrets. Out: a part for
 * each service with its outcome, and the address of its health check. Called by the engine for plans with pods of their
 * own.
 */

import { DEPLOYED_SERVICES, LABEL_PART, namespaceOf, SECRETS, type Site } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import type { EnginePart, EngineProject } from '../../../capabilities/index.js';
import { allDone } from '../../../runtime/all-done.js';
import type { Children } from '../children/children.js';
import { areAlone, diagnose, isServing, isUpToDate, type Workload } from '../children/diagnosis.js';
import { ensureAll, withRestored } from '../children/ensure-all.js';
import type { Pod } from '../children/kinds.js';
import type { Rollout } from '../rollout/rollout.js';
import { type ServiceName, serviceObjects } from './deployment.js';
import { authEnvironment, type ProjectSecrets, restEnvironment, type Values } from './environment.js';

const NAMES: readonly ServiceName[] = ['auth', 'rest'];
const CONDITIONS: Readonly<Record<ServiceName, string>> = { auth: 'AuthReady', rest: 'RestReady' };
const HEALTH: Readonly<Record<ServiceName, { port: number; path: string }>> = {
  auth: { port: DEPLOYED_SERVICES.auth.port, path: '/health' },
  rest: { port: DEPLOYED_SERVICES.rest.adminPort, path: '/ready' },
};
const SOON_MS = 50;

interface Service extends KubeObject {
  spec?: { clusterIP?: string };
}

export class DeployedServices {
  readonly #children: Children;
  readonly #site: Site;
  readonly #rollout: Rollout;

  constructor(children: Children, site: Site, rollout: Rollout) {
    this.#children = children;
    this.#site = site;
    this.#rollout = rollout;
  }

  /**
   * Applies the objects of both services. Returns a part for each. It is advisory while pods of an older template still
   * serve and the new ones are not ready.
   */
  async ensure(project: EngineProject, url: string): Promise<EnginePart[]> {
    const secrets = this.#secretsOf(project.ref);
    const { images, part } = this.#rollout.of(project.ref);
    const services = NAMES.map((name) => this.#ensureOne(project, url, name, images[name], secrets));
    return [...(await allDone(services)), part];
  }

  /** Returns the address of each health check, without services whose Service has no address yet. */
  healthOf(ref: string): Partial<Record<ServiceName, string>> {
    const addresses = NAMES.map((name) => {
      const { service } = DEPLOYED_SERVICES[name];
      const host = this.#children.get<Service>('Service', namespaceOf(ref), service)?.spec?.clusterIP;
      const { port, path } = HEALTH[name];
      return [name, host ? `http://${host.includes(':') ? `[${host}]` : host}:${port}${path}` : undefined] as const;
    });
    return Object.fromEntries(addresses.filter(([, address]) => address !== undefined));
  }

  /** Whether all pods have the environment that was applied last, also those that are being deleted. */
  areUpToDate(ref: string): boolean {
    return NAMES.every((name) => {
      const deployment = this.#children.get<Workload>('Deployment', namespaceOf(ref), name);
      return deployment !== undefined && isUpToDate(deployment) && areAlone(deployment, this.#podsOf(ref, name));
    });
  }

  /** Deletes the objects of a project that no longer has pods of its own. */
  async remove(ref: string): Promise<void> {
    const namespace = namespaceOf(ref);
    for (const name of NAMES) {
      await this.#children.remove('Deployment', namespace, name);
      await this.#children.remove('Service', namespace, DEPLOYED_SERVICES[name].service);
      await this.#children.remove('Secret', namespace, `${name}-environment`);
    }
  }

  async #ensureOne(
    project: EngineProject,
    url: string,
    name: ServiceName,
    image: string,
    secrets: ProjectSecrets | undefined,
  ): Promise<EnginePart> {
    const condition = CONDITIONS[name];
    if (!secrets) {
      const message = 'waiting for the Secrets of the project';
      return { condition, outcome: { state: 'progressing', message, lookAgainMs: SOON_MS } };
    }
    const { plans, images } = this.#site;
    const sizes = plans[project.plan][name];
    const applied = await ensureAll(
      this.#children,
      serviceObjects({
        owner: project,
        name,
        image,
        replicas: project.suspended ? 0 : sizes.replicas,
        sizes,
        images,
        environment: (name === 'auth' ? authEnvironment : restEnvironment)(project.ref, url, secrets, sizes.replicas),
        printKey: secrets.keys[SECRETS.keys.jwtSecret] ?? '',
      }),
    );
    if (applied.state !== 'ready') return { condition, outcome: applied };
    return this.#judge(project.ref, name, applied.restored);
  }

  #judge(ref: string, name: ServiceName, restored: readonly string[] | undefined): EnginePart {
    const deployment = this.#children.get<Workload>('Deployment', namespaceOf(ref), name);
    const outcome = withRestored(diagnose(name, deployment, this.#podsOf(ref, name)), restored);
    const advisory = outcome.state !== 'ready' && deployment !== undefined && isServing(deployment);
    return { condition: CONDITIONS[name], outcome, ...(advisory ? { advisory } : {}) };
  }

  #podsOf(ref: string, name: ServiceName): Pod[] {
    return this.#children.list<Pod>('Pod', ref).filter(({ metadata }) => metadata.labels?.[LABEL_PART] === name);
  }

  #secretsOf(ref: string): ProjectSecrets | undefined {
    const [keys, database] = [this.#values(ref, SECRETS.keys.name), this.#values(ref, SECRETS.database.name)];
    if (!keys || !database) return undefined;
    return { keys, database, authConfig: this.#values(ref, SECRETS.auth.name) ?? {} };
  }

  #values(ref: string, name: string): Values | undefined {
    const secret = this.#children.get<KubeObject & { data?: Values }>('Secret', namespaceOf(ref), name);
    return (
      secret &&
      Object.fromEntries(
        Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
      )
    );
  }
}
