import { REPLICATION_SECRET, SYSTEM_NAMESPACE } from '@slipway/crds';
import { replicationPasswordAt } from '@slipway/project-database';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestKubernetes } from '../testing/kubernetes.js';
import { replicationPasswordFrom } from './replication-password.js';

test('each Postgres cluster is given a password of its own, which is not what the Secret holds', async () => {
  const kubernetes = await startTestKubernetes();
  const { core, kubeConfig } = kubernetes;
  try {
    await core.createNamespace({ body: { metadata: { name: SYSTEM_NAMESPACE } } });
    const stringData = { [REPLICATION_SECRET.password]: 'made-once' };
    const body = { metadata: { name: REPLICATION_SECRET.name }, stringData };
    await core.createNamespacedSecret({ namespace: SYSTEM_NAMESPACE, body });
    const passwordAt = replicationPasswordFrom(kubeConfig);
    const [shared, own] = await Promise.all([
      passwordAt('shared-eu-central.slipway-data.svc'),
      passwordAt('postgres.p-x.svc'),
    ]);
    // As the operator derives it.
    assert.is(shared, replicationPasswordAt('shared-eu-central.slipway-data.svc', 'made-once'));
    assert.is(new Set([shared, own, 'made-once']).size, 3);
  } finally {
    await kubernetes.close();
  }
});

test.run();
