/** Step that runs the container of an app with its variables and settings, and shows it in the status. */
import { isSuspended, type ProjectStatus } from '@slipway/crds';
import type { Apps, AppView, Services } from '../../../capabilities/index.js';
import { variablesOf } from '../../build/order.js';
import { type Context, engineProject, type StepOutcome } from '../context.js';
import type { Shown } from '../project-type.js';
import type { Linking } from './database-link.js';

/** The status is written, and the data plane reads it, before this time is over. */
const LINK_SHOWN_MS = 200;

export async function ensureContainer(
  context: Context,
  apps: Apps,
  shown: Shown,
  { link, variables, outcome }: Linking,
): Promise<StepOutcome> {
  const { project, deps } = context;
  const { app: settings = {} } = project.spec;
  // The containers and their link stay as they are.
  if (outcome.state === 'progressing') return outcome;
  const linked = link && { project: link.project, addresses: await apps.addressesOf(context.ref) };
  shown.databaseLink = linked ?? null;
  // The data plane refuses the requests of a container whose link it does not know.
  if (linked && !isSame(linked, project.status?.databaseLink)) {
    return { state: 'progressing', message: 'linking the database', lookAgainMs: LINK_SHOWN_MS };
  }
  const result = await apps.ensure(engineProject(context), {
    variables: { ...variables, ...(await variablesOf(deps, project, 'runtime')) },
    healthCheckPath: settings.healthCheckPath,
    restart: settings.restart ?? 0,
    link,
    upstream: project.status?.upstream,
  });
  shown.upstream = result.view.upstream ?? null;
  shown.services = servicesOf(context, result.view, result.outcome.state === 'ready');
  return result.outcome;
}

type Link = NonNullable<ProjectStatus['databaseLink']>;

const isSame = (link: Link, before: Link | undefined): boolean =>
  link.project === before?.project && link.addresses.join() === before.addresses.join();

function servicesOf({ project }: Context, view: AppView, isReady: boolean): Services {
  if (isSuspended(project)) return { app: { up: false, status: 'suspended' } };
  const { upstream: _, ...container } = view;
  if (view.image === undefined) return { app: { up: false, status: 'not deployed', ...container } };
  return { app: { up: isReady, status: isReady ? 'running' : 'unavailable', ...container } };
}
