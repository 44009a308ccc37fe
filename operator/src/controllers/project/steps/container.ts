/** Step that runs the container of an app with its variables and settings, and shows it in the status. */
import { isSuspended } from '@slipway/crds';
import type { Apps, AppView, Services } from '../../../capabilities/index.js';
import { variablesOf } from '../../build/order.js';
import { type Context, engineProject, type StepOutcome } from '../context.js';
import type { Shown } from '../project-type.js';

export async function ensureContainer(context: Context, apps: Apps, shown: Shown): Promise<StepOutcome> {
  const { project, deps } = context;
  const { app: settings = {} } = project.spec;
  const result = await apps.ensure(engineProject(context), {
    variables: await variablesOf(deps, project, 'runtime'),
    healthCheckPath: settings.healthCheckPath,
    restart: settings.restart ?? 0,
    upstream: project.status?.upstream,
  });
  shown.upstream = result.view.upstream ?? null;
  shown.services = servicesOf(context, result.view, result.outcome.state === 'ready');
  return result.outcome;
}

function servicesOf({ project }: Context, view: AppView, isReady: boolean): Services {
  if (isSuspended(project)) return { app: { up: false, status: 'suspended' } };
  const { upstream: _, ...container } = view;
  if (view.image === undefined) return { app: { up: false, status: 'not deployed', ...container } };
  return { app: { up: isReady, status: isReady ? 'running' : 'unavailable', ...container } };
}
