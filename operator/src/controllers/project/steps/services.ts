/**
 * Step of the services at the project's URL: the state of each, and the place to which requests for auth and REST are
 * sent.
 */
import { PROJECT_SERVICES } from '@slipway/crds';
import type { ProjectServices, Services } from '../../../capabilities/index.js';
import { type Context, engineProject } from '../context.js';
import type { Shown } from '../project-type.js';
import type { StepResult } from '../stages.js';

export async function ensureServices(
  context: Context,
  services: ProjectServices,
  { anonKey, shown }: { anonKey: string; shown: Shown },
): Promise<StepResult<undefined>> {
  const project = engineProject(context);
  const { outcome, parts, placement } = await services.ensure({ project, anonKey });
  if (placement) shown.placement = placement;
  if (outcome.state !== 'ready') return { outcome, parts };
  shown.services = project.suspended
    ? suspendedServices()
    : { database: { up: true, status: 'running' }, ...outcome.value.services };
  return { outcome: { ...outcome, value: undefined }, parts };
}

export const suspendedServices = (): Services =>
  Object.fromEntries(['database', ...PROJECT_SERVICES].map((name) => [name, { up: false, status: 'suspended' }]));
