/**
 * Isolates a project by labels of its namespace, quota, limits and network policies. In: a project and the place of its
 * database. Out: the desired objects, and a description of drift. Called by the engine before any pod runs there.
 */
import { DATA_NAMESPACE, LABEL_PART, namespaceOf, type Site } from '@slipway/installation';
import type { EngineOutcome, EngineProject, Isolation } from '../../../capabilities/index.js';
import { allDone } from '../../../runtime/all-done.js';
import type { Children, DesiredObject } from '../children/children.js';
import { ensureAll, withRestored } from '../children/ensure-all.js';
import { childOf } from '../objects.js';
import type { PullSecrets } from '../pull-secrets.js';
import { limits } from './limits.js';
import { markedNamespace } from './namespace.js';
import { networkPolicies } from './network-policies.js';

const POLICY = 'NetworkPolicy';

/** Isolates the namespaces of a cluster, and copies the site's logins for image registries to them. */
export const namespaceIsolation = (children: Children, site: Site, pullSecrets: PullSecrets): Isolation => ({
  ensure: async (project, databaseHost) => {
    const isolated = await isolate(children, site, project, databaseHost);
    if (isolated.state !== 'ready') return isolated;
    return withRestored(await pullSecrets.ensure((name) => copyOf(project, name)), isolated.restored);
  },
});

async function isolate(
  children: Children,
  site: Site,
  project: EngineProject,
  databaseHost: string | undefined,
): Promise<EngineOutcome> {
  // Until the status has `pooled`, requests go to the project's pods, whatever its plan is.
  const deployed = project.placement === 'deployments' || site.plans[project.plan].placement === 'deployments';
  const ownDatabase = databaseHost !== undefined && !databaseHost.endsWith(`.${DATA_NAMESPACE}.svc`);
  const policies = networkPolicies(project, site, { ownDatabase, deployed, operated: children.serves('Cluster') });
  const outcome = await ensureAll(children, [
    markedNamespace(project, databaseHost),
    ...limits(project, site),
    ...policies,
  ]);
  if (outcome.state === 'ready') await removeOthers(children, project.ref, policies);
  return outcome;
}

/** Returns the `metadata` of a Secret that is copied into the project's namespace. */
const copyOf = (project: EngineProject, name: string) =>
  childOf(project, { apiVersion: 'v1', kind: 'Secret', name, component: 'isolation', body: {} }).metadata;

/** Removes our policies that the project had on another plan. */
async function removeOthers(children: Children, ref: string, wanted: readonly DesiredObject[]): Promise<void> {
  const names = new Set(wanted.map(({ metadata }) => metadata.name));
  const others = children
    .list(POLICY, ref)
    .filter(({ metadata }) => metadata.labels?.[LABEL_PART] === 'isolation' && !names.has(metadata.name));
  await allDone(others.map(({ metadata }) => children.remove(POLICY, namespaceOf(ref), metadata.name)));
}
