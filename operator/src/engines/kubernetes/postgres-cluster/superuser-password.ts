/**
 * The superusers' passwords of all Postgres clusters, derived from one key in the platform's namespace: so a Secret
 * that somebody deletes or edits comes back as it was, and the Postgres that was set up with it still takes it.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { LABEL_MANAGED_BY, MANAGED_BY, SYSTEM_NAMESPACE } from '@slipway/crds';
import { generatedSecret } from '../../../runtime/generated-secret.js';
import type { KubeClient } from '../../../runtime/kube.js';
import type { Place } from './place.js';

const KEY = 'key';
const SECRET = {
  namespace: SYSTEM_NAMESPACE,
  name: 'slipway-postgres-key',
  labels: { [LABEL_MANAGED_BY]: MANAGED_BY },
};

/** A new one would let the operator into none of the clusters that are there, and overwrite the passwords that do. */
export class SuperuserKeyLost extends Error {
  constructor([first, ...others]: readonly string[]) {
    const users = others.length > 0 ? `${first} and ${others.length} more` : first;
    super(
      `the Secret ${SECRET.namespace}/${SECRET.name} is gone while Postgres clusters use it (${users}): ` +
        'restore it from the backup',
    );
  }
}

/** `inUse`: the superusers' Secrets that were made with it. Only where there is none it is made. */
export async function superuserKey(client: KubeClient, inUse: () => readonly string[]): Promise<string> {
  const make = (held: Record<string, string>) => {
    if (held[KEY]) return {};
    const users = inUse();
    if (users.length > 0) throw new SuperuserKeyLost(users);
    return { [KEY]: randomBytes(32).toString('base64url') };
  };
  return (await generatedSecret(client, { ...SECRET, make }))[KEY] as string;
}

export const superuserPassword = (key: string, { namespace, name }: Place) =>
  createHmac('sha256', key).update(`${namespace}/${name}`).digest('base64url');
