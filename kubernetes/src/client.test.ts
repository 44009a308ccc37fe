import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { longestTurnDuring } from '@slipway/program/decoders.testing.js';
import { TURN_MS } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { KubeClient } from './client.js';
import { isNotFound } from './errors.js';
import { FaultyApiServer } from './faults/faulty-api-server.testing.js';
import { loadKubeConfig } from './kubeconfig.js';
import type { KubeObject } from './objects.js';
import { anonymousAt, clientOf, startTestKubernetes, type TestKubernetes } from './testing.js';

const test = suite<{ kubernetes: TestKubernetes }>('kube client');

test.before(async (context) => {
  context.kubernetes = await startTestKubernetes();
});
test.after(async ({ kubernetes }) => {
  await kubernetes.close();
});

test('an observer of requests gets the method, resource and status of each, without names of objects', async ({
  kubernetes,
}) => {
  const told: unknown[] = [];
  const client = await KubeClient.connect(await loadKubeConfig(kubernetes.kubeconfig), {
    observe: (request) => told.push(request),
  });
  await client.get('/api/v1/namespaces/default');
  await client.get('/api/v1/namespaces/default/secrets');
  await client.get('/apis/slipway.dev/v1alpha1/projects/nowhere').catch((error) => assert.ok(isNotFound(error)));
  await client.close();
  await client.delete('/api/v1/namespaces/default/secrets/some').catch(() => {});
  assert.equal(told, [
    { method: 'GET', resource: 'namespaces', status: 200 },
    { method: 'GET', resource: 'secrets', status: 200 },
    { method: 'GET', resource: 'projects', status: 404 },
    { method: 'DELETE', resource: 'secrets', status: undefined },
  ]);
});

test('a page that is too large is requested again with fewer objects', async () => {
  const filler = 'x'.repeat(1024 * 1024);
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? '', 'http://server');
    const [from, limit] = [Number(searchParams.get('continue') ?? 0), Number(searchParams.get('limit'))];
    asked.push(searchParams.get('limit') as string);
    const items = Array.from({ length: Math.min(limit, 100 - from) }, (_, at) => ({
      metadata: { name: `o${from + at}` },
      filler,
    }));
    const next = from + items.length;
    response.end(
      JSON.stringify({ metadata: { resourceVersion: '7', ...(next < 100 && { continue: String(next) }) }, items }),
    );
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = await KubeClient.connect(anonymousAt(port));
  const names = new Set<string>();
  const version = await client.eachOf<KubeObject>({ path: '/api/v1/configmaps' }, ({ metadata }) =>
    names.add(metadata.name),
  );
  await client.close();
  server.close();
  assert.equal([version, names.size, asked], ['7', 100, ['100', '25', '25', '25', '25']]);
});

test('a request to a busy server is repeated after the time in Retry-After', async ({ kubernetes }) => {
  // The random choices: an error, the second kind of error (429), then no error.
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

test('a page of 8 MiB takes at most 20 ms of processor time in one turn of the thread', async () => {
  const item = (i: number) => ({
    metadata: { name: `${i}`, labels: { [`label-${i}`]: 'x' } },
    text: 'x'.repeat(7_000),
  });
  const items = Array.from({ length: 1_150 }, (_, i) => item(i));
  const page = Buffer.from(JSON.stringify({ metadata: { resourceVersion: '1' }, items }));
  const server = createServer((_request, response) => response.end(page))
    .listen(0, '127.0.0.1')
    .unref();
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const client = await KubeClient.connect(anonymousAt(port));
  let seen = 0;
  const list = () => client.eachOf<KubeObject>({ path: '/api/v1/things' }, () => seen++);
  const took = await longestTurnDuring(list).finally(async () => {
    await client.close();
    server.close();
  });
  assert.is(seen, 5 * items.length);
  assert.ok(took <= TURN_MS, `took ${took} ms`);
});

test.run();
