/**
 * Step that links an app to a shared project of the same owner. In: the names in the spec. Out: the variables by which
 * the app reaches the project, and the link for the engine and the data plane; or the reason why there is none.
 *
 * Every reconcile decides again. So a transfer, a suspension or a deletion of either project ends the link.
 */
import { hasOwnMachine, isSuspended, normalAddress, type Project, TYPES, typeOf } from '@slipway/crds';
import { projectsHostOf, SECRETS } from '@slipway/installation';
import { isNotFound } from '@slipway/kubernetes';
import type { Apps, DatabaseLink } from '../../../capabilities/index.js';
import type { Context, StepOutcome } from '../context.js';
import { ready } from '../context.js';
import { plainText, type Secret, secretsPath } from '../resources.js';

export interface Linking {
  outcome: StepOutcome;
  /** Undefined: there is no link. */
  link?: DatabaseLink;
  variables: Record<string, string>;
}

const LOOK_AGAIN_MS = 1_000;
/** Variables that the app gets. A variable of the project with such a name is used instead. */
export const LINK_VARIABLES = [
  'SUPABASE_URL',
  'SUPABASE_PUBLIC_URL',
  'SUPABASE_ANON_KEY',
  'SUPABASE_SERVICE_ROLE_KEY',
  'DATABASE_URL',
] as const;

export async function linkOf(context: Context, apps: Apps): Promise<Linking> {
  const { project, deps } = context;
  const name = project.spec.app?.databaseProject;
  if (name === undefined || isSuspended(project)) return { outcome: ready, variables: {} };
  const { linkPorts } = apps;
  if (!linkPorts) return refused('the platform listens at no IPv4 address');
  const refusal = refusalOf(project, deps.projects.get(name), name);
  if (refusal !== undefined) return refused(refusal);
  const [keys, database] = await Promise.all([
    valuesOf(context, name, SECRETS.keys.name),
    valuesOf(context, name, SECRETS.database.name),
  ]);
  const anonKey = keys[SECRETS.keys.anonKey];
  const serviceRoleKey = keys[SECRETS.keys.serviceRoleKey];
  const databaseUrl = database[SECRETS.database.url];
  if (!anonKey || !serviceRoleKey || !databaseUrl) return waiting(`waits until project ${name} has its keys`);
  const host = `${name}.${projectsHostOf(deps.places)}`;
  const variables: Record<(typeof LINK_VARIABLES)[number], string> = {
    SUPABASE_URL: `http://${host}:${linkPorts.services}`,
    SUPABASE_PUBLIC_URL: deps.projectUrl(name),
    SUPABASE_ANON_KEY: anonKey,
    SUPABASE_SERVICE_ROLE_KEY: serviceRoleKey,
    DATABASE_URL: withAddress(databaseUrl, host, linkPorts.database),
  };
  return { outcome: ready, link: { project: name, host }, variables };
}

/** Returns the reason why the app gets no link. An account can't learn whether a project of another one exists. */
function refusalOf(app: Project, linked: Project | undefined, name: string): string | undefined {
  const isOwn = linked !== undefined && normalAddress(linked.spec.owner) === normalAddress(app.spec.owner);
  if (!isOwn || linked.metadata.deletionTimestamp) return `the owner of the app has no project ${name}`;
  const type = typeOf(linked);
  if (!TYPES[type].hasDatabase || hasOwnMachine(type)) return `project ${name} is ${type}, and has no shared database`;
  return isSuspended(linked) ? `project ${name} is suspended` : undefined;
}

const refused = (reason: string): Linking => ({
  outcome: {
    state: 'failed',
    reason: 'LinkRefused',
    message: `The app is not linked to a database: ${reason}. Change database_project (spec.app.databaseProject).`,
    retry: false,
  },
  variables: {},
});

const waiting = (message: string): Linking => ({
  outcome: { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS },
  variables: {},
});

async function valuesOf({ deps }: Context, ref: string, name: string): Promise<Record<string, string>> {
  const secret = await deps.client.get<Secret>(`${secretsPath(ref)}/${name}`).catch((error: unknown) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
  return plainText(secret);
}

/** Returns the URL with another host and port. */
function withAddress(url: string, host: string, port: number): string {
  const changed = new URL(url);
  changed.host = `${host}:${port}`;
  return changed.href;
}
