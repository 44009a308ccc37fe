import { REPLICATION_SECRET, SYSTEM_NAMESPACE } from '@slipway/installation';
import { startTestKubernetes } from '@slipway/kubernetes/testing.js';
import { replicationPasswordAt } from '@slipway/project-database';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { replicationPasswordFrom } from './replication-password.js';

test('each Postgres cluster has a different password, which is not the Secret’s content', async () => {
  const kubernetes = await startTestKubernetes();
  const { client } = kubernetes;
  try {
    await client.create<object>('/api/v1/namespaces', { metadata: { name: SYSTEM_NAMESPACE } });
    const stringData = { [REPLICATION_SECRET.password]: 'made-once' };
    const body = { metadata: { name: REPLICATION_SECRET.name }, stringData };
    await client.create<object>(`/api/v1/namespaces/${SYSTEM_NAMESPACE}/secrets`, body);
    const passwordAt = replicationPasswordFrom(client);
    const [shared, own] = await Promise.all([
      passwordAt('shared-eu-central.slipway-data.svc'),
      passwordAt('postgres.p-x.svc'),
    ]);
    // The operator derives it in the same way.
    assert.is(shared, replicationPasswordAt('shared-eu-central.slipway-data.svc', 'made-once'));
    assert.is(new Set([shared, own, 'made-once']).size, 3);
  } finally {
    await kubernetes.close();
  }
});

test.run();
