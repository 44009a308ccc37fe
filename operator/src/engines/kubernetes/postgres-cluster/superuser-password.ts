/**
 * The superusers' passwords of all Postgres clusters, derived from one key in the platform's namespace. So a Secret
 * that somebody deletes or edits is restored with the same password, which its Postgres still accepts.
 */

import { createHmac, randomBytes } from 'node:crypto';
import { LABEL_MANAGED_BY, MANAGED_BY, SYSTEM_NAMESPACE } from '@slipway/installation';
import type { KubeClient } from '@slipway/kubernetes';
import { generatedSecret } from '../../../runtime/generated-secret.js';
import type { Place } from './place.js';

const KEY = 'key';
const SECRET = {
  namespace: SYSTEM_NAMESPACE,
  name: 'slipway-postgres-key',
  labels: { [LABEL_MANAGED_BY]: MANAGED_BY },
};

/**
 * The key of the superusers' passwords is lost. A new key would not open the existing clusters, and would overwrite the
 * passwords that do.
 */
export class SuperuserKeyLost extends Error {
  constructor([first, ...others]: readonly string[]) {
    const users = others.length > 0 ? `${first} and ${others.length} more` : first;
    super(
      `the Secret ${SECRET.namespace}/${SECRET.name} is missing, and Postgres clusters use it (${users}): ` +
        'restore it from the backup',
    );
  }
}

/** Returns the key. It is made only if `inUse` is empty: the superusers' Secrets that were made with the key. */
export async function superuserKey(client: KubeClient, inUse: () => readonly string[]): Promise<string> {
  const make = (current: Record<string, string>) => {
    if (current[KEY]) return {};
    const users = inUse();
    if (users.length > 0) throw new SuperuserKeyLost(users);
    return { [KEY]: randomBytes(32).toString('base64url') };
  };
  return (await generatedSecret(client, { ...SECRET, make }))[KEY] as string;
}

export const superuserPassword = (key: string, { namespace, name }: Place) =>
  createHmac('sha256', key).update(`${namespace}/${name}`).digest('base64url');
