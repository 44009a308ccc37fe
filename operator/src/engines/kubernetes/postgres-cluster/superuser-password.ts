/**
 * The superusers' passwords of all Postgres clusters, derived from one key in the platform's namespace: so a Secret that somebody
 * deletes or edits comes back as it was, and the Postgres that was set up with it still takes it.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { LABEL_MANAGED_BY, MANAGED_BY, SYSTEM_NAMESPACE } from '@slipway/crds';
import { keptSecret } from '../../../runtime/kept-secret.js';
import type { KubeClient } from '../../../runtime/kube.js';
import type { Place } from './place.js';

const KEY = 'key';
const SECRET = {
  namespace: SYSTEM_NAMESPACE,
  name: 'slipway-postgres-key',
  labels: { [LABEL_MANAGED_BY]: MANAGED_BY },
  make: () => ({ [KEY]: randomBytes(32).toString('base64url') }),
};

export const superuserKey = async (client: KubeClient): Promise<string> =>
  (await keptSecret(client, SECRET))[KEY] as string;

export const superuserPassword = (key: string, { namespace, name }: Place) =>
  createHmac('sha256', key).update(`${namespace}/${name}`).digest('base64url');
