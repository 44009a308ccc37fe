import { startTestApiServer } from '@slipway/apiserver/testing.js';
import { API_VERSION, customResourceDefinitions, GROUP, VERSION } from '@slipway/crds';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { connect, Kubernetes } from '../kubernetes/client.js';
import { FunctionCache } from './function-cache.js';
import { FunctionDeploys } from './function-deploys.js';
import { FunctionResources, type SeenFunction } from './function-resources.js';

const PATH = `/apis/${GROUP}/${VERSION}/namespaces/p-ref/edgefunctions`;

interface World {
  kubernetes: Kubernetes;
  cache: FunctionCache;
  deploys: FunctionDeploys;
  object: SeenFunction;
  close(): Promise<void>;
}
const test = suite<World>('deploys of functions');

test.before(async (world) => {
  const server = await startTestApiServer({ crds: customResourceDefinitions });
  world.kubernetes = new Kubernetes(await connect(server.kubeconfig));
  const { client } = world.kubernetes;
  await client.create<object>('/api/v1/namespaces', { metadata: { name: 'p-ref' } });
  world.cache = new FunctionCache(world.kubernetes, pino({ level: 'silent' }));
  world.cache.onModuleInit();
  world.deploys = new FunctionDeploys(new FunctionResources(world.kubernetes), world.cache);
  world.close = async () => {
    await world.cache.onApplicationShutdown();
    await client.close();
    await server.close();
  };
});
test.before.each(async (world) => {
  const body = { apiVersion: API_VERSION, kind: 'EdgeFunction', metadata: { name: 'slow' }, spec: SPEC };
  world.object = await world.kubernetes.client.request<SeenFunction>({ method: 'POST', path: PATH, body });
});
test.after.each(async ({ kubernetes }) => {
  await kubernetes.client.delete(`${PATH}/slow`).catch(() => undefined);
});
test.after(({ close }) => close());

const SPEC = { name: 'slow', code: 'x', verifyJwt: true, deployedGeneration: 0 };

test('a deploy ends with the status that the operator writes', async ({ kubernetes, deploys, object }) => {
  const deploying = deploys.deploy('ref', object, new AbortController().signal);
  const status = { phase: 'deployed', conditions: [], observedGeneration: 2, deployedVersion: 2 };
  await kubernetes.client.patch(`${PATH}/slow/status`, { status });
  const { spec, status: seen } = await deploying;
  assert.equal([spec.deployedGeneration, seen?.deployedVersion], [2, 2]);
});

test('a deploy reads its function repeatedly while the API has no permission to watch functions', async ({
  kubernetes,
  object,
}) => {
  const cache = new FunctionCache(kubernetes, pino({ level: 'silent' }));
  const deploys = new FunctionDeploys(new FunctionResources(kubernetes), cache);
  const deploying = deploys.deploy('ref', object, new AbortController().signal);
  const status = { phase: 'deployed', conditions: [], observedGeneration: 2, deployedVersion: 2 };
  await kubernetes.client.patch(`${PATH}/slow/status`, { status });
  assert.is((await deploying).status?.deployedVersion, 2);
});

test('a deploy ends when its caller disconnects or its function is deleted', async ({
  kubernetes,
  deploys,
  object,
}) => {
  const aborted = await deploys.deploy('ref', object, AbortSignal.timeout(300)).catch((thrown) => thrown);
  assert.is(aborted.kind, 'caller_gone');
  const current = await kubernetes.client.get<SeenFunction>(`${PATH}/slow`);
  const deploying = deploys.deploy('ref', current, new AbortController().signal).catch((thrown) => thrown);
  await kubernetes.client.delete(`${PATH}/slow`);
  assert.is((await deploying).status, 404);
});

test.run();
