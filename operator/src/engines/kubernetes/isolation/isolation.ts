/**
 * Isolates a project: labels of its namespace, quota, limits and network policies. In: a project and the place of its
 * database. Out: the desired objects, and a description of drift. Called by the engine before anything runs there.
 */
import { DATA_NAMESPACE, LABEL_PART, namespaceOf, type Site } from '@slipway/crds';
import { allDone } from '../../../runtime/all-done.js';
import type { EngineOutcome, EngineProject } from '../../engine.js';
import type { Children, DesiredObject } from '../children/children.js';
import { ensureAll } from '../children/ensure-all.js';
import { limits } from './limits.js';
import { markedNamespace } from './namespace.js';
import { networkPolicies } from './network-policies.js';

const POLICY = 'NetworkPolicy';

export async function ensureIsolation(
  children: Children,
  project: EngineProject,
  site: Site,
  databaseHost: string,
): Promise<EngineOutcome> {
  // Until its status says `pooled` requests go to its pods, whatever its plan asks for.
  const deployed = project.placement === 'deployments' || site.plans[project.plan].placement === 'deployments';
  const ownDatabase = !databaseHost.endsWith(`.${DATA_NAMESPACE}.svc`);
  const policies = networkPolicies(project, site, { ownDatabase, deployed, operated: children.serves('Cluster') });
  const outcome = await ensureAll(children, [
    markedNamespace(project, databaseHost),
    ...limits(project, site),
    ...policies,
  ]);
  if (outcome.state === 'ready') await removeOthers(children, project.ref, policies);
  return outcome;
}

/** Those of ours that the project had on another plan. */
async function removeOthers(children: Children, ref: string, wanted: readonly DesiredObject[]): Promise<void> {
  const names = new Set(wanted.map(({ metadata }) => metadata.name));
  const others = children
    .list(POLICY, ref)
    .filter(({ metadata }) => metadata.labels?.[LABEL_PART] === 'isolation' && !names.has(metadata.name));
  await allDone(others.map(({ metadata }) => children.remove(POLICY, namespaceOf(ref), metadata.name)));
}
