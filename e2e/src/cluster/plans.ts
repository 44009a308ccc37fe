/** How projects run on a cluster, one plan for each way, in the words of tests' names. */
import type { Operated } from '../operations.suite.js';

export const PLANS_WITH_PODS: readonly Operated[] = [
  { plan: 'starter', how: 'with pods of its own' },
  { plan: 'pro', how: 'with pods and a Postgres of its own' },
];

export const PLANS: readonly Operated[] = [{ plan: 'free', how: 'in the shared data plane' }, ...PLANS_WITH_PODS];
