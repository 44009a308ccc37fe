/**
 * Tests functions on a cluster. Servers of the test replace the pods and record their requests. Each has a disk that
 * the test can remove.
 */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { podOf } from '@slipway/installation';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { silentLog } from '../../testing.js';
import { PodFunctions } from './pod-functions.js';

interface Pod {
  disk: string | undefined;
  /** True if it accepts connections and never responds, as a pod on a failed node. */
  silent?: boolean;
  /** Deployed functions, as `/<ref>/<name>`. */
  deployed: Set<string>;
  told: { route: string; authorization: string | undefined; body: string }[];
}

const pods = new Map<string, Pod>();
const servers: Server[] = [];
const TOKEN = 'the token of the platform';
let accepted = TOKEN;

/** Starts a pod. All pods listen at the same port, at addresses of their own. */
async function podAt(host: string, port: number): Promise<number> {
  const pod: Pod = { disk: `disk of ${host}`, deployed: new Set(), told: [] };
  pods.set(host, pod);
  const server = createServer((incoming, outgoing) => {
    if (pod.disk === undefined) {
      incoming.socket.destroy();
      return;
    }
    if (pod.silent) return;
    if (incoming.headers.authorization !== `Bearer ${accepted}`) {
      outgoing.writeHead(401).end(JSON.stringify({ message: 'another token' }));
      return;
    }
    let body = '';
    incoming.setEncoding('utf8').on('data', (chunk: string) => {
      body += chunk;
    });
    incoming.on('end', () => {
      const route = `${incoming.method} ${incoming.url}`;
      if (incoming.method !== 'GET') pod.told.push({ route, authorization: incoming.headers.authorization, body });
      if (incoming.method === 'PUT') pod.deployed.add(incoming.url as string);
      if (incoming.method === 'DELETE') pod.deployed.delete(incoming.url as string);
      const listed = [...pod.deployed].map((place) => ({ ref: place.split('/')[1], name: place.split('/')[2] }));
      const known: Record<string, unknown> = { 'GET /': { disk: pod.disk }, 'GET /functions': listed };
      outgoing.end(JSON.stringify(known[route] ?? { state: 'ready' }));
    });
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(port, host, resolve));
  return (server.address() as AddressInfo).port;
}

const hosts = ['127.0.0.1', '127.0.0.2'] as const;
const urls = hosts.map((host) => `http://${host}:8080`);
const hostOf = (ref: string) => new URL(podOf(ref, urls)).hostname;
const refs = Array.from({ length: 20 }, (_, n) => `ref-${n}`);
let functions: PodFunctions;
let controlPort: number;

test.before(async () => {
  controlPort = await podAt(hosts[0], 0);
  await podAt(hosts[1], controlPort);
  functions = new PodFunctions({
    urls,
    token: async () => TOKEN,
    controlPort,
    lookMilliseconds: 10,
    log: silentLog,
  });
});
test.after(async () => {
  await functions.close();
  for (const server of servers) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

test('each project’s functions are deployed to, and removed from, its own pod with the token', async () => {
  for (const ref of refs) {
    const outcome = await functions.ensureFunction({ ref, name: 'hello', version: 3, code: 'x', verifyJwt: true });
    assert.equal(outcome, { state: 'ready' });
    await functions.removeFunction(ref, 'hello');
  }
  for (const [host, { told }] of pods) {
    const its = refs.filter((ref) => hostOf(ref) === host);
    assert.ok(its.length > 0);
    assert.equal(
      told.map(({ route }) => route),
      its.flatMap((ref) => [`PUT /${ref}/hello`, `DELETE /${ref}/hello`]),
    );
    assert.equal(JSON.parse(told[0]?.body ?? ''), { version: 3, code: 'x', verifyJwt: true });
    for (const { authorization } of told) assert.is(authorization, `Bearer ${TOKEN}`);
  }
});

for (const tokenMilliseconds of [undefined, 0]) {
  const when = tokenMilliseconds === 0 ? 'after a while' : 'but not with each request';
  test(`a token that pods reject is reported as wrong and read again, ${when}`, async () => {
    let kept = TOKEN;
    let reads = 0;
    const token = async () => {
      reads++;
      return kept;
    };
    const changing = new PodFunctions({ urls, token, controlPort, tokenMilliseconds, log: silentLog });
    const deploy = () =>
      changing.ensureFunction({ ref: refs[0] as string, name: 'x', version: 1, code: 'x', verifyJwt: true });
    try {
      assert.is((await deploy()).state, 'ready');
      accepted = kept = 'another token of the platform';
      const refused = await deploy();
      assert.match(JSON.stringify(refused), /"busy".*another token than the Secret slipway-functions/);
      const states = [(await deploy()).state, (await deploy()).state];
      if (tokenMilliseconds === 0) assert.equal(states, ['ready', 'ready']);
      else assert.equal([...states, reads], ['busy', 'busy', 1]);
    } finally {
      accepted = TOKEN;
      await changing.close();
    }
  });
}

test('functions that were removed while a pod was absent are deleted from its disk when it returns', async () => {
  const wanted = ['/ref-1/kept', '/ref-2/kept'];
  for (const pod of pods.values()) pod.deployed = new Set([...wanted, '/ref-1/removed', '/gone/kept']);
  const seeing = new PodFunctions({
    urls,
    token: async () => TOKEN,
    controlPort,
    lookMilliseconds: 10,
    log: silentLog,
  });
  seeing.keepOnly((ref, name) => wanted.includes(`/${ref}/${name}`));
  const [first, second] = hosts.map((host) => pods.get(host) as Pod) as [Pod, Pod];
  const disk = second.disk;
  second.disk = undefined;
  seeing.start();
  await until(() => first.deployed.size === 2, 'the first pod to be cleaned up');
  assert.is(second.deployed.size, 4);
  second.disk = disk;
  await until(() => second.deployed.size === 2, 'the later pod to be cleaned up');
  await seeing.close();
  for (const { deployed } of pods.values()) assert.equal([...deployed], wanted);
});

test('a pod that returns without its disk is reported as a loss of only its own projects', async () => {
  const lost: string[][] = [];
  functions.onLost((isLost) => lost.push(refs.filter(isLost)));
  functions.start();
  const [host] = hosts;
  const pod = pods.get(host) as Pod;
  const rounds = async () => {
    const before = pod.disk;
    pod.disk = undefined;
    const ref = refs.find((one) => hostOf(one) === host) as string;
    const said = await functions.ensureFunction({ ref, name: 'hello', version: 3, code: 'x', verifyJwt: true });
    assert.equal(said, { state: 'busy', message: 'the data plane does not answer' });
    return before;
  };
  await until(() => lookedAt(pod), 'the first look');
  pod.disk = await rounds();
  await until(() => lookedAt(pod), 'a look at a pod that only restarted');
  assert.equal(lost, []);
  await rounds();
  pod.disk = 'another disk';
  await until(() => lost.length > 0, 'word of the loss');
  assert.equal(lost, [refs.filter((ref) => hostOf(ref) === host)]);
});

test('the loss of one pod’s disk is detected while another pod does not respond', async () => {
  const lost: string[][] = [];
  functions.onLost((isLost) => lost.push(refs.filter(isLost)));
  const [, away] = hosts;
  const [first, second] = hosts.map((host) => pods.get(host) as Pod) as [Pod, Pod];
  second.silent = true;
  await until(() => lookedAt(first), 'looks at the first pod while the second does not respond');
  first.disk = 'a third disk';
  await until(() => lost.length > 0, 'word of the loss');
  assert.equal(lost, [refs.filter((ref) => hostOf(ref) !== away)]);
  // The request without a response times out.
  second.disk = 'another disk of the second';
  second.silent = false;
  await until(() => lost.length > 1, 'the report of what the second pod lost');
  assert.equal(
    lost[1],
    refs.filter((ref) => hostOf(ref) === away),
  );
});

/** Resolves to true after two further complete looks. */
async function lookedAt(pod: Pod): Promise<boolean> {
  const server = servers[hosts.indexOf('127.0.0.1')] as Server;
  let asked = 0;
  await new Promise<void>((resolve) => {
    const count = () => {
      if (pod.disk !== undefined && ++asked === 3) {
        server.off('request', count);
        resolve();
      }
    };
    server.on('request', count);
  });
  return true;
}

test.run();
