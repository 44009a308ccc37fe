/**
 * The quota of a project's namespace, and the default limits of its containers: pure. In: the project, its plan's
 * sizes.
 */
import type { Site } from '@slipway/crds';
import type { EngineProject } from '../../engine.js';
import type { DesiredObject } from '../children/children.js';
import { childOf } from '../objects.js';

/** For the quota and the limit range alike. */
const NAME = 'project';
/**
 * Those of the platform, of a Postgres and of the site's registries are two dozen at most; a function has eleven
 * ConfigMaps, its versions. As the API server writes them: from a thousand on it would say `1k`.
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
