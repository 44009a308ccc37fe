/**
 * Steps of a project with a machine of its own: the machine with its software, and the project's document on it. In:
 * the capability, and the project's Secrets. Out: a condition for each stage, and the machine for the status.
 */
import {
  authAdminRole,
  authenticatorRole,
  availableServices,
  databaseIdOf,
  ownerRole,
  replicationSlotOf,
  SECRETS,
} from '@slipway/installation';
import type {
  EngineOutcome,
  MachineDocument,
  MachineProgress,
  Machines,
  MachineView,
} from '../../../capabilities/index.js';
import { variablesOf } from '../../build/order.js';
import { type Context, engineProject } from '../context.js';
import type { Shown } from '../project-type.js';
import { plainText } from '../resources.js';
import { readSecret, type Values } from '../secrets.js';
import type { StepResult } from '../stages.js';
import { isMaintenance } from '../status.js';

export async function ensureMachine(
  context: Context,
  machines: Machines,
  shown: Shown,
): Promise<Pick<MachineProgress, 'outcome' | 'parts'>> {
  const { outcome, parts, view, answers, durations } = await machines.ensure(engineProject(context));
  if (view !== undefined) shown.server = view && withKnownUnits(view, context.project.status?.server);
  if (answers) shown.machine = answers;
  if (durations !== '') shown.message = `ready: ${durations}`;
  return { outcome: withDurations(outcome, durations), parts };
}

/** The units stay as they were until an operator that was started has read them. */
function withKnownUnits(view: MachineView, before: MachineView | undefined): MachineView {
  if (view.unitsObservedAt !== undefined || view.units || before?.id !== view.id) return view;
  const { units, unitsObservedAt, restarts } = before ?? {};
  return withoutUndefined({ units, unitsObservedAt, restarts, ...view });
}

/** Work on a machine that served does not show how long its creation took. */
const withDurations = (outcome: EngineOutcome, durations: string): EngineOutcome =>
  outcome.state === 'progressing' && durations !== '' && !isMaintenance(outcome)
    ? { ...outcome, message: `${outcome.message} (${durations})` }
    : outcome;

export async function configureMachine(context: Context, machines: Machines): Promise<StepResult<undefined>> {
  return machines.configure(engineProject(context), await documentOf(context));
}

const { keys: keyNames, database: databaseNames } = SECRETS;

async function documentOf(context: Context): Promise<MachineDocument> {
  const { deps, project, ref } = context;
  const { type, plan } = engineProject(context);
  const valuesOf = async (name: string): Promise<Values> => plainText(await readSecret(context, name));
  const [keys, database, authConfig] = (await Promise.all(
    [keyNames.name, databaseNames.name, SECRETS.auth.name].map(valuesOf),
  )) as [Values, Values, Values];
  const url = database[databaseNames.url];
  return {
    ref,
    type,
    plan,
    services: [...availableServices(type, plan, {})],
    url: deps.projectUrl(ref),
    jwt: withoutUndefined({
      secret: keys[keyNames.jwtSecret] ?? '',
      nextSecret: keys[keyNames.nextJwtSecret],
      previousSecret: keys[keyNames.previousJwtSecret],
    }),
    apiKeys: { anon: keys[keyNames.anonKey] ?? '', serviceRole: keys[keyNames.serviceRoleKey] ?? '' },
    logins: loginsOf(ref, database),
    replicationSlot: replicationSlotOf(databaseIdOf(ref, database)),
    authConfig: withoutUndefined(authConfig) as Record<string, string>,
    environment: { ...(await variablesOf(deps, project, 'runtime')), ...(url && { SUPABASE_DB_URL: url }) },
  };
}

function loginsOf(ref: string, database: Values): MachineDocument['logins'] {
  const id = databaseIdOf(ref, database);
  const login = (user: string, password: string, nextPassword: string) =>
    withoutUndefined({
      host: database[databaseNames.host] ?? '',
      port: Number(database[databaseNames.port]),
      database: database[databaseNames.database] ?? '',
      user,
      password: database[password] ?? '',
      nextPassword: database[nextPassword],
    });
  const names = databaseNames;
  return {
    authenticator: login(authenticatorRole(id), names.authenticatorPassword, names.nextAuthenticatorPassword),
    authAdmin: login(authAdminRole(id), names.authAdminPassword, names.nextAuthAdminPassword),
    owner: login(ownerRole(id), names.ownerPassword, names.nextOwnerPassword),
  };
}

type Defined<T> = { [Key in keyof T]: Exclude<T[Key], undefined> };

const withoutUndefined = <T extends object>(value: T): Defined<T> =>
  Object.fromEntries(Object.entries(value).filter(([, each]) => each !== undefined)) as Defined<T>;
