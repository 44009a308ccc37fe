/**
 * Step of the project's database. Passwords are written to a Secret first, then to the database. Rotated passwords are
 * `next` in the Secret until Postgres has them, and are shown only then. So a shown password always works.
 */
import { randomBytes } from 'node:crypto';
import { type Project } from '@slipway/crds';
import { ANNOTATION_ADDRESS, databaseIdOf, databaseOf, namespaceOf, ownerRole, SECRETS } from '@slipway/installation';
import { newDatabaseId, type ProjectPasswords } from '@slipway/project-database';
import {
  DATABASE_MOVE_UNSUPPORTED,
  type DatabaseAddress,
  type DatabaseClaim,
  type Databases,
} from '../../../capabilities/index.js';
import { isTrue } from '../../../runtime/conditions.js';
import { type Context, engineProject, ready, type StepOutcome } from '../context.js';
import { plainText } from '../resources.js';
import { isRequested, recorded, reportRotated } from '../rotation.js';
import { type EnsuredSecret, ensureSecret, readSecret, type Values } from '../secrets.js';

const { database: names } = SECRETS;
/** Each password, its successor in a rotation, and the role that logs in with it. */
const PASSWORDS = [
  { part: 'owner', key: names.ownerPassword, next: names.nextOwnerPassword },
  { part: 'authenticator', key: names.authenticatorPassword, next: names.nextAuthenticatorPassword },
  { part: 'authAdmin', key: names.authAdminPassword, next: names.nextAuthAdminPassword },
] as const;

const newPassword = () => randomBytes(24).toString('base64url');

export async function ensureDatabase(context: Context, databases: Databases): Promise<StepOutcome> {
  return ensureNamed(context, databases, await recordedId(context, databases));
}

/** Returns the id of a database whose Secret was deleted, so that the new Secret has it at once. */
async function recordedId({ deps, project, ref }: Context, databases: Databases): Promise<string | undefined> {
  if (!existed(project) || deps.secrets.get(names.name, namespaceOf(ref))) return undefined;
  return databases.recordedId(engineProject({ project }));
}

/**
 * Writes the login to the Secret, before the database exists. A machine gets the login with its services, and these
 * start before the database is made.
 */
export async function ensureLogin(context: Context, databases: Databases): Promise<StepOutcome> {
  const address = databases.addressOf(engineProject(context));
  const requested = context.project.spec.rotation?.databasePasswords;
  const write = loginWriter(context, address, await recordedId(context, databases));
  await write((stored) => withNext(stored, requested));
  return ready;
}

const loginWriter =
  (context: Context, address: DatabaseAddress, knownId: string | undefined) => (wanted: (stored: Values) => Values) =>
    ensureSecret(
      context,
      names.name,
      (stored) => shownLogin(context.ref, address, wanted({ ...stored, ...databaseId(stored, knownId) })),
      (values) => ({ [ANNOTATION_ADDRESS]: textOf(context.ref, address, values) }),
    );

/** `knownId`: the id of the database from another source than the Secret. */
async function ensureNamed(context: Context, databases: Databases, knownId: string | undefined): Promise<StepOutcome> {
  const { ref, project } = context;
  const address = databases.addressOf(engineProject(context));
  const requested = project.spec.rotation?.databasePasswords;
  const write = loginWriter(context, address, knownId);
  const ensured = await write((stored) => withNext(stored, requested));
  const { values } = ensured;
  const isRotating = PASSWORDS.some(({ next }) => values[next] !== undefined);
  const outcome = await databases.ensure({
    project: engineProject(context),
    ...claimOf(project, values),
  });
  if (outcome.state === 'ready' && outcome.databaseId !== undefined && outcome.databaseId !== knownId) {
    const again = await ensureNamed(context, databases, outcome.databaseId);
    return withRestored(again, [...driftOf(ref, ensured, address), ...(outcome.restored ?? [])]);
  }
  if (isRotating && hasPasswords(outcome)) {
    await write((stored) => withNextShown(stored, requested));
    reportRotated(context, 'the passwords of the database are new');
    return outcome.state === 'ready' ? ready : outcome;
  }
  if (outcome.state !== 'ready') return outcome;
  return { ...outcome, restored: [...driftOf(ref, ensured, address), ...(outcome.restored ?? [])] };
}

/**
 * Returns the id for the Secret: the id in the server's record, or the id in the Secret. A Secret of an earlier release
 * has passwords and no id: then the project keeps the names with its ref.
 */
function databaseId(stored: Values, knownId: string | undefined): Values {
  if (knownId !== undefined) return { [names.id]: knownId };
  return stored[names.id] || stored[names.ownerPassword] ? {} : { [names.id]: newDatabaseId() };
}

const withRestored = (outcome: StepOutcome, restored: readonly string[]): StepOutcome =>
  outcome.state === 'failed'
    ? outcome
    : { ...outcome, restored: [...new Set([...restored, ...(outcome.restored ?? [])])] };

/** True if Postgres has the requested passwords. Then these must be shown, whatever else is wrong. */
const hasPasswords = (outcome: StepOutcome) =>
  outcome.state === 'ready' || (outcome.state === 'failed' && outcome.reason === DATABASE_MOVE_UNSUPPORTED);

/** Returns the claim for a removal: all that is known of the database, whatever is left of the project. */
export async function databaseClaim(context: Context): Promise<DatabaseClaim> {
  const values: Values = plainText(await readSecret(context, names.name));
  const isKnown = PASSWORDS.every(({ key }) => values[key] !== undefined);
  const claim = claimOf(context.project, values);
  return isKnown ? claim : { databaseId: claim.databaseId, existed: claim.existed, passwords: undefined };
}

const claimOf = (project: Project, values: Values) => ({
  databaseId: databaseIdOf(project.metadata.name, values),
  existed: existed(project),
  passwords: passwordsFrom(({ key, next }) => values[next] ?? values[key]),
  former: passwordsFrom(({ key }) => values[key]),
});

/** True if the project was healthy or its database ready once. A database that is missing now is lost. */
export const existed = ({ status }: Project) =>
  isTrue(status?.conditions, 'DatabaseReady') || status?.url !== undefined || wasSuspended(status);

/** True for a suspended project: it has its database all the same. */
const wasSuspended = (status: Project['status']) =>
  status?.conditions?.some(({ type, reason }) => type === 'DatabaseReady' && reason === 'Suspended') === true;

/** Adds new passwords beside the current ones if a rotation is requested. Finishes a rotation that has begun. */
function withNext(stored: Values, requested: number | undefined): Values {
  const isBegun = PASSWORDS.some(({ next }) => stored[next] !== undefined);
  const isNew = !stored[names.ownerPassword];
  const record = stored[names.passwordsRotation];
  if (isNew) return { ...stored, [names.passwordsRotation]: recorded(requested, record) };
  if (!isBegun && !isRequested(requested, record)) return stored;
  const passwords = Object.fromEntries(PASSWORDS.map(({ next }) => [next, stored[next] || newPassword()]));
  const number = isBegun ? stored[names.nextPasswordsRotation] : recorded(requested, record);
  return { ...stored, ...passwords, [names.nextPasswordsRotation]: number };
}

/** Replaces the passwords by the next ones, once Postgres has them. Records the number that they were made for. */
function withNextShown(stored: Values, requested: number | undefined): Values {
  const shown = PASSWORDS.map(({ key, next }) => ({ [key]: stored[next] || stored[key], [next]: undefined }));
  const number = stored[names.nextPasswordsRotation] ?? recorded(requested, stored[names.passwordsRotation]);
  const record = { [names.passwordsRotation]: number, [names.nextPasswordsRotation]: undefined };
  return Object.assign({}, stored, ...shown, record);
}

function shownLogin(ref: string, address: DatabaseAddress, stored: Values): Values {
  const passwords = Object.fromEntries(PASSWORDS.map(({ key }) => [key, stored[key] || newPassword()]));
  const password = encodeURIComponent(passwords[names.ownerPassword] as string);
  const id = databaseIdOf(ref, stored);
  return {
    ...stored,
    [names.host]: address.host,
    [names.port]: String(address.port),
    [names.database]: databaseOf(id),
    ...passwords,
    [names.url]: `postgresql://${ownerRole(id)}:${password}@${address.publicAddress}/${databaseOf(id)}`,
  };
}

const passwordsFrom = (stored: (password: (typeof PASSWORDS)[number]) => string | undefined) =>
  Object.fromEntries(PASSWORDS.map((password) => [password.part, stored(password)])) as unknown as ProjectPasswords;

const textOf = (ref: string, { host, port, publicAddress }: DatabaseAddress, values: Values) =>
  `${host}:${port}/${databaseOf(databaseIdOf(ref, values))} ${publicAddress}`;

function driftOf(ref: string, { values, before }: EnsuredSecret, address: DatabaseAddress): string[] {
  if (!before) return [`Secret ${names.name}, which was deleted`];
  const stored: Values = plainText(before);
  const shown = [names.host, names.port, names.database, names.url, ...PASSWORDS.map(({ key }) => key)];
  const wasOfThisAddress = before.metadata.annotations?.[ANNOTATION_ADDRESS] === textOf(ref, address, values);
  if (!wasOfThisAddress || shown.every((key) => stored[key] === values[key])) return [];
  return [`Secret ${names.name}, which was edited`];
}
