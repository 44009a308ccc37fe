/**
 * Which projects there are and how to reach each, kept in memory from watches on the Kubernetes API. Asked by the
 * gateway for every request; goes on answering from what it knows while that API is away.
 */
import { CoreV1Api, CustomObjectsApi, type KubeConfig } from '@kubernetes/client-node';
import { GROUP, type Installation, LABEL_PROJECT, SECRETS, VERSION } from '@slipway/crds';
import type { Logger } from 'pino';
import type { Tenant } from '../tenant.js';
import { type ProjectObject, type SecretObject, type SecretsByRef, type TenantListener, Tenants } from './tenants.js';
import { type Collection, CollectionWatch, type Page } from './watch.js';

export interface Registry {
  tenant(ref: string): Tenant | undefined;
  /** The variables that the project's owner set for its functions, and its database's URL. */
  environment(ref: string): Record<string, string>;
  /** The account that owns the project, as the Project names it. */
  owner(ref: string): string | undefined;
  /** False until everything was listed once: before that a project may be missing only because it isn't known yet. */
  readonly complete: boolean;
  close(): Promise<void>;
}

export interface RegistryOptions extends TenantListener {
  kubeConfig: KubeConfig;
  installation: Installation;
  log: Logger;
}

export function startRegistry(options: RegistryOptions): Registry {
  const { kubeConfig, installation, log } = options;
  const tenants = new Tenants(installation, options);
  const watches: CollectionWatch<ProjectObject | SecretObject>[] = [
    new CollectionWatch(kubeConfig, projects(kubeConfig, tenants), log),
    new CollectionWatch(kubeConfig, secrets(kubeConfig, SECRETS.keys.name, tenants.keys), log),
    new CollectionWatch(kubeConfig, secrets(kubeConfig, SECRETS.database.name, tenants.databases), log),
    new CollectionWatch(kubeConfig, secrets(kubeConfig, SECRETS.auth.name, tenants.authConfigs), log),
  ];
  // Nobody else's business: where no functions run, what owners entrust to theirs is not read.
  if (options.onEnvironment) {
    watches.push(new CollectionWatch(kubeConfig, secrets(kubeConfig, SECRETS.env.name, tenants.environments), log));
  }
  let complete = false;
  void Promise.all(watches.map((watch) => watch.start())).then(() => {
    complete = true;
  });
  return {
    tenant: (ref) => tenants.get(ref),
    environment: (ref) => tenants.environment(ref),
    owner: (ref) => tenants.owner(ref),
    get complete() {
      return complete;
    },
    close: async () => {
      await Promise.all(watches.map((watch) => watch.stop()));
    },
  };
}

function projects(kubeConfig: KubeConfig, tenants: Tenants): Collection<ProjectObject> {
  const api = kubeConfig.makeApiClient(CustomObjectsApi);
  return {
    path: `/apis/${GROUP}/${VERSION}/projects`,
    selectors: {},
    list: (limit, from) =>
      api.listClusterCustomObject({
        group: GROUP,
        version: VERSION,
        plural: 'projects',
        limit,
        ...(from ? { _continue: from } : {}),
      }) as Promise<Page<ProjectObject>>,
    replace: (objects) => tenants.replaceProjects(objects),
    put: (object) => tenants.putProject(object),
    remove: (object) => tenants.removeProject(object),
  };
}

/**
 * Only Secrets of that name: of what users entrust to their projects only what their functions are to find is read
 * here.
 */
function secrets(kubeConfig: KubeConfig, name: string, sink: SecretsByRef): Collection<SecretObject> {
  const api = kubeConfig.makeApiClient(CoreV1Api);
  const selectors = { labelSelector: LABEL_PROJECT, fieldSelector: `metadata.name=${name}` };
  return {
    path: '/api/v1/secrets',
    selectors,
    list: (limit, from) =>
      api.listSecretForAllNamespaces({ ...selectors, limit, ...(from ? { _continue: from } : {}) }) as Promise<
        Page<SecretObject>
      >,
    replace: (objects) => sink.replace(objects),
    put: (object) => sink.put(object),
    remove: (object) => sink.remove(object),
  };
}
