/**
 * Tests the key of the superusers' passwords with a Kubernetes API. The key is created once, and never again while a
 * Postgres needs it.
 */
import { SYSTEM_NAMESPACE } from '@slipway/installation';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { deleteAndWait, startTestKubernetes, type TestKubernetes } from '../../../testing.js';
import { makeIfMissing } from '../cluster.testing.js';
import { SuperuserKeyLost, superuserKey } from './superuser-password.js';

const test = suite<{ kubernetes: TestKubernetes }>('the key of the superusers’ passwords');
const SECRETS = `/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets`;

test.before(async (context) => {
  context.kubernetes = await startTestKubernetes();
  const namespace = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM_NAMESPACE } };
  await makeIfMissing(context.kubernetes.client, '/api/v1/namespaces', namespace);
});
test.after(({ kubernetes }) => kubernetes.close());

test('the key of the passwords is created while there is no Postgres, and stays the same', async ({
  kubernetes: { client },
}) => {
  const key = await superuserKey(client, () => []);
  assert.is(await superuserKey(client, () => ['p-first/postgres-superuser']), key);
});

test('a lost key that a Postgres needs is not created again, and the error names the key and the fix', async ({
  kubernetes: { client },
}) => {
  await superuserKey(client, () => []);
  await deleteAndWait(client, `${SECRETS}/slipway-postgres-key`);
  const users = ['p-first/postgres-superuser', 'slipway-data/shared-eu-central-superuser'];
  const refusal = await superuserKey(client, () => users).catch((error) => error);
  assert.instance(refusal, SuperuserKeyLost);
  assert.match(refusal.message, /slipway-postgres-key is missing.*p-first\/postgres-superuser and 1 more.*restore it/);
  assert.ok((await client.get(`${SECRETS}/slipway-postgres-key`).catch(() => 'none')) === 'none');
});

test.run();
