/**
 * Registry of projects and how to reach each, in memory, from watches of the Kubernetes API. The gateway looks up every
 * request here. While that API is unavailable, the last known state is used.
 */
import { GROUP, VERSION } from '@slipway/crds';
import { type Installation, LABEL_PROJECT, SECRETS } from '@slipway/installation';
import { Informer, type KubeClient, type KubeObject } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import type { BackendTenant, Tenant } from './tenant.js';
import { type ProjectObject, type SecretObject, type TenantListener, Tenants } from './tenants.js';

export { digest, notify, otherSecrets, type TenantListener } from './tenants.js';

export interface Registry {
  tenant(ref: string): Tenant | undefined;
  /**
   * Returns a backend project for services; undefined also for a project without one, and for one on its own machine,
   * whose database and files are there.
   */
  backend(ref: string): BackendTenant | undefined;
  /** Variables that the owner set for functions, and the URL of the database. */
  environment(ref: string): Record<string, string>;
  /** Account that owns the project, from the Project. */
  owner(ref: string): string | undefined;
  /** Project that a container at this address may reach; undefined: none. */
  linkedTo(address: string): string | undefined;
  /** False until the initial list is complete: before that, an unknown project may exist. */
  readonly complete: boolean;
  close(): Promise<void>;
}

/** Uids of Projects: another one with the same ref has another uid. */
export interface ProjectUids {
  uid(ref: string): string | undefined;
  /** Undefined while they are not known. */
  uids(): ReadonlySet<string> | undefined;
}

export interface RegistryOptions extends TenantListener {
  client: KubeClient;
  installation: Installation;
  log: Logger;
  /** True if only sites are served: then no Secrets of projects are read. */
  sitesAlone?: boolean;
}

export function startRegistry(options: RegistryOptions): Registry & ProjectUids {
  const { client, installation, log } = options;
  const path = `/apis/${GROUP}/${VERSION}/projects`;
  const projects = new Informer<ProjectObject>({ client, resource: 'projects', path, log });
  /** Watches Secrets of one name, so that other secrets of users are not read. */
  const secrets = (name: string) =>
    new Informer<SecretObject>({
      client,
      resource: name,
      path: '/api/v1/secrets',
      labelSelector: LABEL_PROJECT,
      fieldSelector: `metadata.name=${name}`,
      log,
    });
  const sources = {
    projects,
    keys: secrets(SECRETS.keys.name),
    databases: secrets(SECRETS.database.name),
    authConfigs: secrets(SECRETS.auth.name),
    // Variables of functions are read only where functions run.
    ...(options.onEnvironment && { environments: secrets(SECRETS.env.name) }),
  };
  const tenants = new Tenants(sources, installation, options);
  const informers: Informer<KubeObject>[] = options.sitesAlone ? [projects] : Object.values(sources);
  let complete = false;
  void Promise.all(informers.map((informer) => informer.start())).then(() => {
    complete = true;
  });
  return {
    tenant: (ref) => tenants.get(ref),
    backend: (ref) => {
      const tenant = tenants.get(ref);
      return tenant?.kind === 'backend' && tenant.upstream !== 'machine' ? tenant : undefined;
    },
    environment: (ref) => tenants.environment(ref),
    owner: (ref) => tenants.owner(ref),
    uid: (ref) => projects.get(ref)?.metadata.uid,
    uids: () => (complete ? new Set(projects.list().map(({ metadata }) => metadata.uid as string)) : undefined),
    linkedTo: (address) => tenants.linkedTo(address),
    get complete() {
      return complete;
    },
    close: async () => {
      await Promise.all(informers.map((informer) => informer.close()));
    },
  };
}
