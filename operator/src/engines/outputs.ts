/**
 * Rules for the outputs of builds, the same on one machine and on a cluster. In: an order, or the previews of a
 * project. Out: the limits of an output, and the outputs that are kept.
 */
import { DEPLOYMENT_LIMITS, type DeploymentLimits, PREVIEW_LIMITS } from '@slipway/installation';
import type { KeptOutputs } from '@slipway/sites';
import type { BuildOrder } from '../capabilities/index.js';

/** The number of former deployments of a preview that are kept, for open pages. */
const PREVIEW_DEPLOYMENTS_KEPT = 1;

export function outputLimitsOf({ ref, site, plan }: Pick<BuildOrder, 'ref' | 'site' | 'plan'>): DeploymentLimits {
  const limits = DEPLOYMENT_LIMITS[plan];
  if (site === ref) return limits;
  return { ...limits, totalBytes: Math.min(limits.totalBytes, PREVIEW_LIMITS[plan].totalBytes) };
}

/** `written`: the site and the previews that running builds may write to. `deployments`: how many of each are kept. */
export const keptOutputs = (
  previews: Iterable<string>,
  written: Iterable<string>,
  deployments: number,
): KeptOutputs => ({
  deployments,
  previews: [...previews],
  previewDeployments: Math.min(deployments, PREVIEW_DEPLOYMENTS_KEPT),
  written: [...new Set(written)],
});
