/** The ways in which projects run on a cluster, one plan for each, with their description in test names. */
import type { Operated } from '../operations.suite.js';

export const WITH_PODS: Operated = { plan: 'starter', how: 'with pods of its own' };
export const WITH_POSTGRES: Operated = { plan: 'pro', how: 'with pods and a Postgres of its own' };

export const PLANS: readonly Operated[] = [{ plan: 'free', how: 'in the shared data plane' }, WITH_PODS, WITH_POSTGRES];
