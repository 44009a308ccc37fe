/**
 * Rotations of a project's credentials. Pure. The operator rotates a credential when its number in `spec.rotation`
 * differs from the one in the project's Secret, which it records once the new credential works.
 */
import { SECRETS } from '@slipway/installation';
import type { SeenProject } from '../kubernetes/project-cache.js';
import type { ProjectSecrets } from './project-view.js';

type Rotation = NonNullable<SeenProject['spec']['rotation']>;

interface Credential {
  /** Its number in `spec.rotation`. */
  number: keyof Rotation;
  secret: 'keys' | 'database';
  /** The member of the Secret with the number of the credential that works, and of the next one during a rotation. */
  record: string;
  next?: string;
}

/** The credentials by their names in the API. */
export const CREDENTIALS = {
  jwt_secret: {
    number: 'jwtSecret',
    secret: 'keys',
    record: SECRETS.keys.jwtSecretRotation,
    next: SECRETS.keys.nextJwtSecretRotation,
  },
  api_keys: { number: 'apiKeys', secret: 'keys', record: SECRETS.keys.apiKeysRotation },
  database_passwords: {
    number: 'databasePasswords',
    secret: 'database',
    record: SECRETS.database.passwordsRotation,
    next: SECRETS.database.nextPasswordsRotation,
  },
} as const satisfies Record<string, Credential>;

export type CredentialName = keyof typeof CREDENTIALS;
export const CREDENTIAL_NAMES = Object.keys(CREDENTIALS) as CredentialName[];

export type RotationSecrets = Pick<ProjectSecrets, 'keys' | 'database'>;

/** The largest number that the custom resource accepts. */
export const MAX_ROTATION = 2_147_483_647;

/** Returns a number that none of these credentials has or gets, even if the spec lost its numbers. */
export function nextNumber(
  { spec: { rotation = {} } }: SeenProject,
  secrets: RotationSecrets,
  names: readonly CredentialName[],
): number {
  const known = names.flatMap((name) => {
    const { number, secret, record, next }: Credential = CREDENTIALS[name];
    const recorded = [record, ...(next === undefined ? [] : [next])].map((key) => Number(secrets[secret]?.[key] ?? 0));
    return [rotation[number] ?? 0, ...recorded];
  });
  const largest = Math.max(...known);
  return largest >= MAX_ROTATION - 1 ? 1 : largest + 1;
}

/** Returns the state of each rotation that was requested. */
export function rotationsOf(
  { spec: { rotation = {} } }: SeenProject,
  secrets: RotationSecrets,
): Partial<Record<CredentialName, 'done' | 'in_progress'>> {
  const requested = CREDENTIAL_NAMES.filter((name) => rotation[CREDENTIALS[name].number] !== undefined);
  return Object.fromEntries(
    requested.map((name) => {
      const { number, secret, record } = CREDENTIALS[name];
      return [name, secrets[secret]?.[record] === String(rotation[number]) ? 'done' : 'in_progress'];
    }),
  );
}
