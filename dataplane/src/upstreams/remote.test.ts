/** Tests two gateways with two pods of realtime, over projects with real databases, as on a cluster. */
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { until } from '@slipway/testing';
import { createClient, type RealtimeClientOptions } from '@supabase/supabase-js';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway } from '../gateway/server.js';
import type { BackendTenant } from '../projects/tenant.js';
import { createRealtimeService, ReaderShares } from '../services/realtime/index.js';
import { RawSocket } from '../services/realtime/testing/harness.js';
import type { Service } from '../services/service.js';
import { startTestCluster, type TestCluster } from '../testing/project.js';
import { createManagement } from './management.js';
import { createRemoteService } from './remote.js';

const PUBLIC_URL = 'http://slipway.test';
const log = pino({ level: 'silent' });
const tenants = new Map<string, BackendTenant>();
const closings: (() => Promise<void>)[] = [];
let cluster: TestCluster;
let gateways: string[];
let pods: { url: string; close(): Promise<void>; requestCount: () => number }[];

async function serve(realtime: Service): Promise<{ url: string; close(): Promise<void>; requestCount: () => number }> {
  let requestCount = 0;
  const server = createGateway({
    publicUrl: PUBLIC_URL,
    tenant: (ref) => tenants.get(ref),
    complete: () => true,
    services: { realtime },
    behindIngress: true,
    rateLimit: 0,
    management: createManagement(undefined, PUBLIC_URL),
    log,
  });
  server.on('upgrade', () => requestCount++).on('request', () => requestCount++);
  const url = await listening(server);
  const close = async () => {
    await realtime.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return { url, close, requestCount: () => requestCount };
}

async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test.before(async () => {
  cluster = await startTestCluster();
  const pod = () =>
    serve(createRealtimeService({ log, replication: async () => 'none', shares: new ReaderShares(() => undefined) }));
  pods = [await pod(), await pod()];
  const urls = pods.map(({ url }) => url);
  const running = [
    await serve(createRemoteService({ service: 'realtime', urls })),
    await serve(createRemoteService({ service: 'realtime', urls })),
  ];
  gateways = running.map(({ url }) => url);
  closings.push(...running.map(({ close }) => close), ...pods.map(({ close }) => close));
});
test.after(async () => {
  for (const close of closings) await close();
  await cluster?.close();
});

async function project(ref: string): Promise<BackendTenant> {
  const made = await cluster.project(ref);
  tenants.set(ref, made);
  return made;
}

const at = (gateway: number, { ref }: BackendTenant, path: string) =>
  `${gateways[gateway]}/p/${ref}/realtime/v1${path}`;
const open = (gateway: number, tenant: BackendTenant, key = tenant.anonKey) =>
  RawSocket.open(`${at(gateway, tenant, '/websocket').replace('http', 'ws')}?apikey=${key}&vsn=2.0.0`);

test('messages sent through one gateway reach clients of the other, over socket and REST', async () => {
  const tenant = await project('heard');
  const [one, two] = [await open(0, tenant), await open(1, tenant)];
  for (const socket of [one, two])
    assert.is((await socket.ask('realtime:room', 'phx_join', { config: {} })).status, 'ok');
  one.push('realtime:room', 'broadcast', { type: 'broadcast', event: 'e', payload: { from: 'one' } });
  await until(() => two.events('broadcast').length === 1, 'the broadcast');
  const sent = await fetch(at(1, tenant, '/api/broadcast'), {
    method: 'POST',
    headers: { apikey: tenant.serviceRoleKey, 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ topic: 'room', event: 'e', payload: { from: 'rest' } }] }),
  });
  assert.is(sent.status, 202);
  await until(
    () => one.events('broadcast').length === 1 && two.events('broadcast').length === 2,
    'the second broadcast',
  );
  for (const socket of [one, two]) socket.webSocket.terminate();
});

test('supabase-js joins a channel and receives its messages', async () => {
  const tenant = await project('client');
  const client = createClient(`${gateways[0]}/p/client`, tenant.anonKey, {
    auth: { persistSession: false, autoRefreshToken: false },
    realtime: { params: { apikey: tenant.anonKey } } as RealtimeClientOptions,
  });
  const received: unknown[] = [];
  const channel = client.channel('room', { config: { broadcast: { self: true } } });
  channel.on('broadcast', { event: 'e' }, ({ payload }) => received.push(payload));
  await new Promise<void>((resolve) => channel.subscribe((status) => status === 'SUBSCRIBED' && resolve()));
  await channel.send({ type: 'broadcast', event: 'e', payload: { n: 1 } });
  await until(() => received.length === 1, 'the broadcast');
  await client.removeAllChannels();
  client.realtime.disconnect();
});

test('a request without a valid key, or to a suspended project, never reaches a pod', async () => {
  const tenant = await project('guarded');
  const before = pods.map(({ requestCount }) => requestCount());
  const refused = (key: string) =>
    open(0, tenant, key).then(
      () => 'open',
      ({ message }: Error) => message,
    );
  assert.match(await refused('x'), /401/);
  tenants.set('guarded', { ...tenant, suspended: true });
  assert.match(await refused(tenant.anonKey), /503/);
  assert.is((await fetch(at(0, tenant, '/api/broadcast'), { method: 'POST' })).status, 503);
  assert.equal(
    pods.map(({ requestCount }) => requestCount()),
    before,
  );
});

test('a pod’s rejection is forwarded unchanged', async () => {
  const tenant = await project('refused');
  const socket = connect(Number(new URL(gateways[0] as string).port), '127.0.0.1');
  const lines = ['GET /p/refused/realtime/v1/nothing HTTP/1.1', 'Host: x', 'Connection: Upgrade', 'Upgrade: websocket'];
  socket.write(`${[...lines, `apikey: ${tenant.anonKey}`].join('\r\n')}\r\n\r\n`);
  let received = '';
  for await (const chunk of socket) received += chunk;
  assert.match(received, /^HTTP\/1\.1 404 /);
});

test('an unavailable pod causes a 502 for new sockets, and its open sockets are closed', async () => {
  const tenant = await project('away');
  const pod = await serve(
    createRealtimeService({ log, replication: async () => 'none', shares: new ReaderShares(() => undefined) }),
  );
  const gateway = await serve(createRemoteService({ service: 'realtime', urls: [pod.url] }));
  closings.push(gateway.close);
  const url = `${gateway.url.replace('http', 'ws')}/p/away/realtime/v1/websocket?apikey=${tenant.anonKey}`;
  const socket = await RawSocket.open(url);
  await pod.close();
  await until(() => socket.closed, 'the end of the socket');
  const refused = await RawSocket.open(url).catch(({ message }: Error) => message);
  assert.match(String(refused), /502/);
  const answer = await fetch(`${gateway.url}/p/away/realtime/v1/api/health`);
  assert.equal([answer.status, answer.headers.get('retry-after')], [502, '1']);
});

test('a handshake times out if the pod does not respond, and the number of sockets is limited', async () => {
  const tenant = await project('mute');
  const mute = createServer().on('upgrade', () => undefined);
  const url = await listening(mute);
  const gateway = await serve(
    createRemoteService({ service: 'realtime', urls: [url], handshakeMilliseconds: 2_000, sockets: 1 }),
  );
  closings.push(gateway.close, async () => {
    mute.closeAllConnections();
    mute.close();
  });
  const ask = () =>
    RawSocket.open(`${gateway.url.replace('http', 'ws')}/p/mute/realtime/v1/websocket?apikey=${tenant.anonKey}`).then(
      () => 'open',
      ({ message }: Error) => message,
    );
  const answers = await Promise.all([ask(), ask()]);
  assert.equal(answers.map((words) => /\d{3}/.exec(words)?.[0]).sort(), ['502', '503']);
});

test.run();
