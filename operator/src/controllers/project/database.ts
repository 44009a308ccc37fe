/**
 * The project's database: passwords into a Secret first, then the database that takes them. Rotated passwords are
 * `next` in the Secret until Postgres has them and only then are shown, so that what is shown is never refused.
 */
import { randomBytes } from 'node:crypto';
import {
  ANNOTATION_ADDRESS,
  databaseIdOf,
  databaseOf,
  namespaceOf,
  ownerRole,
  type Project,
  SECRETS,
} from '@slipway/crds';
import { newDatabaseId, type ProjectPasswords } from '@slipway/project-database';
import { DATABASE_MOVE_UNSUPPORTED, type DatabaseAddress, type DatabaseClaim } from '../../engines/engine.js';
import { isTrue } from '../../runtime/conditions.js';
import { type Context, engineProject, ready, type StepOutcome } from './context.js';
import { plainText } from './resources.js';
import { isAsked, recorded, tellRotated } from './rotation.js';
import { type EnsuredSecret, ensureSecret, readSecret, type Values } from './secrets.js';

const { database: names } = SECRETS;
/** Each password, the one that is to take its place, and whose it is. */
const PASSWORDS = [
  { part: 'owner', key: names.ownerPassword, next: names.nextOwnerPassword },
  { part: 'authenticator', key: names.authenticatorPassword, next: names.nextAuthenticatorPassword },
  { part: 'authAdmin', key: names.authAdminPassword, next: names.nextAuthAdminPassword },
] as const;

const newPassword = () => randomBytes(24).toString('base64url');

export async function ensureDatabase(context: Context): Promise<StepOutcome> {
  return ensureNamed(context, await recordedId(context));
}

/** The id of a database whose Secret was deleted, so that the Secret names it at once. */
async function recordedId({ deps, project, ref }: Context): Promise<string | undefined> {
  if (!existed(project) || deps.secrets.get(names.name, namespaceOf(ref))) return undefined;
  return deps.engine.recordedDatabaseId(engineProject({ project }));
}

/** `knownId`: the id of the database, where it is known from elsewhere than the Secret. */
async function ensureNamed(context: Context, knownId: string | undefined): Promise<StepOutcome> {
  const { deps, ref, project } = context;
  const address = deps.engine.databaseAddress(engineProject(context));
  const asked = project.spec.rotation?.databasePasswords;
  const write = (wanted: (held: Values) => Values) =>
    ensureSecret(
      context,
      names.name,
      (held) => shownLogin(ref, address, wanted({ ...held, ...databaseId(held, knownId) })),
      (values) => ({ [ANNOTATION_ADDRESS]: textOf(ref, address, values) }),
    );
  const ensured = await write((held) => withNext(held, asked));
  const { values } = ensured;
  const isRotating = PASSWORDS.some(({ next }) => values[next] !== undefined);
  const outcome = await deps.engine.ensureDatabase({
    project: engineProject(context),
    ...claimOf(project, values),
  });
  if (outcome.state === 'ready' && outcome.databaseId !== undefined && outcome.databaseId !== knownId) {
    const again = await ensureNamed(context, outcome.databaseId);
    return withRestored(again, [...driftOf(ref, ensured, address), ...(outcome.restored ?? [])]);
  }
  if (isRotating && hasPasswords(outcome)) {
    await write((held) => withNextShown(held, asked));
    tellRotated(context, 'the passwords of the database are new');
    return outcome.state === 'ready' ? ready : outcome;
  }
  if (outcome.state !== 'ready') return outcome;
  return { ...outcome, restored: [...driftOf(ref, ensured, address), ...(outcome.restored ?? [])] };
}

/**
 * The id of the database in the Secret: the one that the engine knows, or the one that is there. A Secret of an earlier
 * release has passwords and no id: the project keeps the names that come from its ref.
 */
function databaseId(held: Values, knownId: string | undefined): Values {
  if (knownId !== undefined) return { [names.id]: knownId };
  return held[names.id] || held[names.ownerPassword] ? {} : { [names.id]: newDatabaseId() };
}

const withRestored = (outcome: StepOutcome, restored: readonly string[]): StepOutcome =>
  outcome.state === 'failed'
    ? outcome
    : { ...outcome, restored: [...new Set([...restored, ...(outcome.restored ?? [])])] };

/** Postgres takes those that it was to have: then nothing else may be shown, whatever else is wrong. */
const hasPasswords = (outcome: StepOutcome) =>
  outcome.state === 'ready' || (outcome.state === 'failed' && outcome.reason === DATABASE_MOVE_UNSUPPORTED);

/** For who removes it: what is known of it, whatever is left of the project. */
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

/** Once it was healthy or its database ready; a database that is not there now is lost. */
export const existed = ({ status }: Project) =>
  isTrue(status?.conditions, 'DatabaseReady') || status?.url !== undefined || wasSuspended(status);

/** True for a suspended project: it has its database all the same. */
const wasSuspended = (status: Project['status']) =>
  status?.conditions?.some(({ type, reason }) => type === 'DatabaseReady' && reason === 'Suspended') === true;

/** Adds new passwords beside the current ones if a rotation is requested. A rotation that has begun is finished. */
function withNext(held: Values, asked: number | undefined): Values {
  const isBegun = PASSWORDS.some(({ next }) => held[next] !== undefined);
  const isNew = !held[names.ownerPassword];
  const record = held[names.passwordsRotation];
  if (isNew) return { ...held, [names.passwordsRotation]: recorded(asked, record) };
  if (!isBegun && !isAsked(asked, record)) return held;
  const passwords = Object.fromEntries(PASSWORDS.map(({ next }) => [next, held[next] || newPassword()]));
  const number = isBegun ? held[names.nextPasswordsRotation] : recorded(asked, record);
  return { ...held, ...passwords, [names.nextPasswordsRotation]: number };
}

/** Once Postgres has them: of the number that they were made for, whatever is asked for since. */
function withNextShown(held: Values, asked: number | undefined): Values {
  const shown = PASSWORDS.map(({ key, next }) => ({ [key]: held[next] || held[key], [next]: undefined }));
  const number = held[names.nextPasswordsRotation] ?? recorded(asked, held[names.passwordsRotation]);
  const record = { [names.passwordsRotation]: number, [names.nextPasswordsRotation]: undefined };
  return Object.assign({}, held, ...shown, record);
}

function shownLogin(ref: string, address: DatabaseAddress, held: Values): Values {
  const passwords = Object.fromEntries(PASSWORDS.map(({ key }) => [key, held[key] || newPassword()]));
  const password = encodeURIComponent(passwords[names.ownerPassword] as string);
  const id = databaseIdOf(ref, held);
  return {
    ...held,
    [names.host]: address.host,
    [names.port]: String(address.port),
    [names.database]: databaseOf(id),
    ...passwords,
    [names.url]: `postgresql://${ownerRole(id)}:${password}@${address.publicAddress}/${databaseOf(id)}`,
  };
}

const passwordsFrom = (held: (password: (typeof PASSWORDS)[number]) => string | undefined) =>
  Object.fromEntries(PASSWORDS.map((password) => [password.part, held(password)])) as unknown as ProjectPasswords;

const textOf = (ref: string, { host, port, publicAddress }: DatabaseAddress, values: Values) =>
  `${host}:${port}/${databaseOf(databaseIdOf(ref, values))} ${publicAddress}`;

function driftOf(ref: string, { values, before }: EnsuredSecret, address: DatabaseAddress): string[] {
  if (!before) return [`Secret ${names.name}, which was deleted`];
  const held: Values = plainText(before);
  const shown = [names.host, names.port, names.database, names.url, ...PASSWORDS.map(({ key }) => key)];
  const wasOfThisAddress = before.metadata.annotations?.[ANNOTATION_ADDRESS] === textOf(ref, address, values);
  if (!wasOfThisAddress || shown.every((key) => held[key] === values[key])) return [];
  return [`Secret ${names.name}, which was edited`];
}
