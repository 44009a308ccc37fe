import { KubeConfig } from '@kubernetes/client-node';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { FaultyApiServer } from '../chaos/faulty-api-server.testing.js';
import { clientOf, startTestKubernetes, type TestKubernetes } from '../testing.js';
import { isNotFound, KubeClient, type KubeObject } from './kube.js';
import { Metrics } from './metrics.js';

const test = suite<{ kubernetes: TestKubernetes }>('kube client');

test.before(async (context) => {
  context.kubernetes = await startTestKubernetes();
});
test.after(async ({ kubernetes }) => {
  await kubernetes.close();
});

test('metrics count requests by method, resource and status, and no name of an object is part of that', async ({
  kubernetes,
}) => {
  const config = new KubeConfig();
  config.loadFromFile(kubernetes.kubeconfig);
  const metrics = new Metrics();
  const client = await KubeClient.connect(config, metrics.request);
  await client.get('/api/v1/namespaces/default');
  await client.get('/api/v1/namespaces/default/secrets');
  await client.get('/apis/slipway.dev/v1alpha1/projects/nowhere').catch((error) => assert.ok(isNotFound(error)));
  await client.close();
  await client.delete('/api/v1/namespaces/default/secrets/some').catch(() => {});
  const counted = (await metrics.registry.getMetricsAsJSON()).find(
    ({ name }) => name === 'slipway_kubernetes_requests_total',
  );
  assert.equal(
    counted?.values.map(({ labels, value }) => [labels.method, labels.resource, labels.status, value]),
    [
      ['GET', 'namespaces', '200', 1],
      ['GET', 'secrets', '200', 1],
      ['GET', 'projects', '404', 1],
      ['DELETE', 'secrets', 'none', 1],
    ],
  );
});

test('a server that has too much to do is left alone as long as it says, and then asked again', async ({
  kubernetes,
}) => {
  // A refusal, the second kind of it (429); then none.
  const choices = [0, 0.4, 0.9];
  const busy = await FaultyApiServer.start(kubernetes.kubeconfig, () => choices.shift() ?? 1);
  const client = await clientOf(busy.kubeconfig);
  try {
    busy.fail({ failedWrites: 0.5 });
    const metadata = { annotations: { written: 'yes' } };
    const { metadata: written } = await client.patch<KubeObject>('/api/v1/namespaces/default', { metadata });
    assert.is(written.annotations?.written, 'yes');
    assert.is(busy.happened.failedWrites, 1);
    assert.equal(busy.happened.waitedTooLittle, []);
  } finally {
    await client.close();
    await busy.close();
  }
});

test.run();
