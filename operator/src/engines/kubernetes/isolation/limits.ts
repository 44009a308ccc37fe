/**
 * The quota of a project's namespace, and the default limits of its containers. Pure. In: the project, and its plan's
 * sizes. Out: the two objects.
 */
import type { Site } from '@slipway/installation';
import type { EngineProject } from '../../../capabilities/index.js';
import type { DesiredObject } from '../children/children.js';
import { childOf } from '../objects.js';

/** Name of both the quota and the limit range. */
const NAME = 'project';
/**
 * Maximum numbers of objects. The platform, a Postgres and the site's registries have two dozen at most. A function has
 * eleven ConfigMaps, its versions. The numbers are in the API server's form: it would write a thousand or more as `1k`.
 */
const COUNTS = { 'count/secrets': '60', 'count/configmaps': '600' };

export function limits(project: EngineProject, site: Site): DesiredObject[] {
  const { quota } = site.plans[project.plan];
  const hard = {
    'requests.cpu': quota.cpu,
    'limits.memory': quota.memory,
    'requests.storage': quota.storage,
    pods: String(quota.pods),
    'services.loadbalancers': '0',
    'services.nodeports': '0',
    ...COUNTS,
  };
  const container = {
    type: 'Container',
    default: { memory: '128Mi' },
    defaultRequest: { cpu: '25m', memory: '64Mi' },
  };
  const shared = { apiVersion: 'v1', name: NAME, component: 'isolation' };
  return [
    childOf(project, { ...shared, kind: 'ResourceQuota', body: { spec: { hard } } }),
    childOf(project, { ...shared, kind: 'LimitRange', body: { spec: { limits: [container] } } }),
  ];
}
