/** Tests how builds of a cluster are stopped. A server of the test replaces the API server, and has only one Job. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import { text } from 'node:stream/consumers';
import {
  ANNOTATION_BUILD,
  ANNOTATION_SITE,
  BUILD_LIMITS,
  BUILDS_NAMESPACE,
  LABEL_BUILD_OF,
  readSite,
} from '@slipway/installation';
import { KubeClient } from '@slipway/kubernetes';
import { anonymousAt } from '@slipway/kubernetes/testing.js';
import { endRequests, listen } from '@slipway/program';
import { ContentStoreClient, type KeptOutputs, previewName } from '@slipway/sites';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Metrics } from '../../../runtime/metrics.js';
import { silentLog } from '../../../testing.js';
import { KubernetesBuilds } from './builds.js';

interface World {
  server: Server;
  client: KubeClient;
  store: ContentStoreClient;
  engine: KubernetesBuilds;
  /** Requests to delete the Job. */
  deletions: string[];
  /** Bodies of the requests to keep outputs. */
  stored: KeptOutputs[];
  /** Deletes the Job, as when its pod has exited. */
  endPod(): void;
}

const test = suite<World>('builds of a cluster');
const PREVIEW = previewName('shop', 'next');
const JOBS = `/apis/batch/v1/namespaces/${BUILDS_NAMESPACE}/jobs`;
const JOB = {
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: {
    name: 'b-1',
    namespace: BUILDS_NAMESPACE,
    uid: 'the-uid',
    resourceVersion: '1',
    labels: { [LABEL_BUILD_OF]: 'shop' },
    annotations: { [ANNOTATION_BUILD]: 'build-1', [ANNOTATION_SITE]: PREVIEW },
  },
};

test.before.each(async (world) => {
  let isThere = true;
  const watches = new Set<ServerResponse>();
  world.deletions = [];
  world.stored = [];
  world.server = createServer(async (request, response) => {
    const { method, url = '' } = request;
    const { pathname, searchParams } = new URL(url, 'http://localhost');
    const json = (status: number, body: object) => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (searchParams.has('watch')) {
      response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
      watches.add(response);
    } else if (pathname === '/sites/shop/kept') {
      world.stored.push(JSON.parse(await text(request)));
      response.writeHead(204).end();
    } else if (pathname === JOBS) {
      json(200, { metadata: { resourceVersion: '1' }, items: isThere ? [JOB] : [] });
    } else if (method === 'DELETE' && pathname === `${JOBS}/b-1` && isThere) {
      world.deletions.push(String(searchParams.get('propagationPolicy')));
      json(200, JOB);
    } else json(404, { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404 });
  });
  world.endPod = () => {
    isThere = false;
    const object = { ...JOB, metadata: { ...JOB.metadata, resourceVersion: '2' } };
    for (const watch of watches) watch.write(`${JSON.stringify({ type: 'DELETED', object })}\n`);
  };
  const origin = await listen(world.server, '127.0.0.1:0');
  world.client = await KubeClient.connect(anonymousAt(Number(new URL(origin).port)));
  world.store = new ContentStoreClient({ originOf: () => origin, token: async () => 'unused' });
  world.engine = new KubernetesBuilds({
    client: world.client,
    store: world.store,
    storeToken: async () => 'unused',
    site: readSite('publicUrl: https://slipway.example.com\n'),
    metrics: new Metrics(),
    log: silentLog,
  });
});
test.after.each(async ({ engine, client, server }) => {
  await engine.close();
  await client.close();
  await endRequests(server);
});

test('a build is stopped once its Job is deleted, and stop() does not wait for that', async (world) => {
  const { engine, deletions, endPod } = world;
  const changes: string[] = [];
  const [jobs] = engine.informers();
  await jobs?.start();
  engine.onChange((ref) => changes.push(ref));
  const id = { ref: 'shop', name: 'build-1' };
  for (const times of [1, 2]) {
    await engine.stop(id);
    assert.equal(deletions, Array(times).fill('Foreground'));
    assert.ok(engine.stateOf(id));
    assert.is(engine.stateOf(id)?.end, undefined);
    assert.equal(engine.started('shop'), ['build-1']);
  }
  endPod();
  await until(() => changes.includes('shop'), 'the end of the Job is reported');
  // Nobody may call stop() again, as when the reason for it is gone.
  assert.is(engine.stateOf(id)?.end?.kind, 'stopped');
  await engine.stop(id);
  assert.is(engine.stateOf(id)?.end?.kind, 'stopped');
  engine.forget(id);
  assert.is(engine.stateOf(id), undefined);
  assert.equal(engine.started('shop'), []);
  await jobs?.close();
});

test('a build that is stopped before it has a Job ends as stopped', async ({ engine }) => {
  const id = { ref: 'shop', name: 'build-2' };
  engine.start({
    ...id,
    site: 'shop',
    repoUrl: 'https://git.example.com/shop.git',
    revision: 'main',
    branch: 'main',
    unless: undefined,
    submodules: false,
    ticket: 'the-ticket',
    settings: { installCommand: undefined, buildCommand: undefined, outputDir: undefined, rootDir: undefined },
    plan: 'free',
    env: {},
    limits: BUILD_LIMITS.free,
  });
  await engine.stop(id);
  await until(() => engine.stateOf(id)?.end?.kind === 'stopped', 'the build is stopped');
});

test('the output of a preview is kept while a Job writes to it, also of a build that is forgotten', async (world) => {
  const { engine, stored } = world;
  const [jobs] = engine.informers();
  await jobs?.start();
  await engine.keepOnly('shop', {
    builds: new Set(['build-9']),
    previews: new Set(['a-kept-preview']),
    deployments: 5,
  });
  assert.equal(stored.at(-1), {
    builds: ['build-9', 'build-1'],
    deployments: 5,
    previews: ['a-kept-preview'],
    previewDeployments: 1,
    written: [PREVIEW],
  });
  engine.forget({ ref: 'shop', name: 'build-1' });
  await engine.keepOnly('shop', { builds: new Set(), previews: new Set(), deployments: 5 });
  assert.equal(stored.at(-1)?.written, [PREVIEW]);
  await jobs?.close();
});

test.run();
