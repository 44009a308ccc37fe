/**
 * Delivers a thousand events although the receiver is down for an hour, the API is killed again and again, and its
 * watch of the Kubernetes API breaks. The hour passes by the clock that the API is started with.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { API_VERSION } from '@slipway/crds';
import { namespaceOf } from '@slipway/installation';
import { FaultyApiServer } from '@slipway/kubernetes/faults/faulty-api-server.testing.js';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';
import { type Receiver, startReceiver } from './receiver.testing.js';

const PROJECTS = 10;
const BUILDS_OF_EACH = 100;
const EVENTS = PROJECTS * BUILDS_OF_EACH;
const [MINUTE_MS, HOUR_MS] = [60_000, 3_600_000];
/** Longer than the lease of a channel, which a killed process leaves behind. */
const LEASE_MS = MINUTE_MS;
const PROGRAM = fileURLToPath(new URL('./api-process.testing.js', import.meta.url));

let api: TestApi;
let receiver: Receiver;
let faulty: FaultyApiServer;
let clock: string;
let aheadMs = 0;
const refs: string[] = [];

test.before(async () => {
  receiver = await startReceiver();
  api = await startTestApi({ reach: { allowed: ['127.0.0.0/8'] } });
  faulty = await FaultyApiServer.start(api.cluster.kubeconfig, Math.random);
  clock = path.join(api.folder, 'clock');
  advance(0);
  const { token } = await register(api);
  for (let count = 0; count < PROJECTS; count += 1) {
    const { id, ref } = (await api.call('POST', '/projects', { token, json: { name: `shop-${count}` } })).body;
    refs.push(ref);
    const json = { url: `${receiver.url}/${ref}`, events: ['deploy.failed', 'deploy.succeeded'] };
    await api.call('POST', `/projects/${id}/webhooks`, { token, json });
    const metadata = { name: namespaceOf(ref) };
    await api.operator.client.create<object>('/api/v1/namespaces', { metadata });
  }
  await api.stop();
});
test.after(async () => {
  await api?.close();
  await faulty?.close();
  await receiver?.close();
});

function advance(ms: number): void {
  aheadMs += ms;
  writeFileSync(clock, String(aheadMs));
}

async function startProcess(socket = 'process.sock'): Promise<ChildProcess> {
  const settings = { ...api.settings, kubeconfig: faulty.kubeconfig, listen: path.join(api.folder, socket) };
  const env = { ...process.env, API_SETTINGS: JSON.stringify(settings), API_CLOCK: clock };
  const child = fork(PROGRAM, { env });
  await once(child, 'message');
  return child;
}

let kills = 0;
async function kill(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill('SIGKILL');
  await ended;
  kills += 1;
  advance(LEASE_MS);
}

async function build(ref: string, number: number): Promise<void> {
  const { client } = api.operator;
  const builds = `/apis/${API_VERSION}/namespaces/${namespaceOf(ref)}/builds`;
  const name = `build-${number}`;
  const body = { apiVersion: API_VERSION, kind: 'Build', metadata: { name }, spec: { project: ref } };
  await client.create<object>(builds, body);
  const finishedAt = new Date(Date.now() + aheadMs).toISOString();
  const status = { phase: Math.random() < 0.5 ? 'Deployed' : 'Failed', finishedAt };
  await client.patch(`${builds}/${name}/status`, { status });
}

const keyOf = ({ path: of, body }: { path: string; body: string }) =>
  `${of.slice(1)} ${JSON.parse(body).data.deploy.id}`;
const received = () => new Set(receiver.messages.map(keyOf));

test(`${EVENTS} events are delivered through an outage, kills and broken watches, with one id each`, async () => {
  receiver.answer.status = 503;
  faulty.fail({ watchMs: 500 });
  for (let number = 1; number <= BUILDS_OF_EACH; number += 10) {
    const child = await startProcess();
    const killed = pause(Math.random() * 1500).then(() => kill(child));
    for (let more = 0; more < 10; more += 1) await Promise.all(refs.map((ref) => build(ref, number + more)));
    await killed;
  }
  const failed = receiver.messages.splice(0);
  assert.ok(failed.length > 0, 'the receiver was tried while it was down');
  advance(HOUR_MS);
  receiver.answer.status = 204;
  for (let count = 0; count < 10 && received().size < EVENTS; count += 1) {
    const child = await startProcess();
    await pause(Math.random() * 1500);
    await kill(child);
  }
  const last = await startProcess();
  for (let count = 0; count < 60 && received().size < EVENTS; count += 1) {
    await pause(1000);
    advance(MINUTE_MS);
  }
  await until(
    () => api.onPlatform("select id from platform.notification_deliveries where status = 'pending'"),
    ({ length }) => length === 0,
  );
  await kill(last);
  assert.is(received().size, EVENTS);
  assert.ok(faulty.happened.expiredWatches > 0, 'watches were broken');
  const byKey = Map.groupBy(receiver.messages, keyOf);
  const doubled = [...byKey.values()].filter(({ length }) => length > 1);
  const extra = receiver.messages.length - EVENTS;
  assert.ok(extra <= kills * PROJECTS, `${extra} more deliveries after ${kills} kills`);
  for (const messages of doubled) {
    assert.ok(messages.length <= kills + 1);
    assert.is(new Set(messages.map(({ headers }) => headers['webhook-id'])).size, 1);
  }
  const ids = receiver.messages.map(({ headers }) => headers['webhook-id']);
  assert.is(new Set(ids).size, EVENTS, 'no event has two ids');
  console.log(`${kills} kills, ${faulty.happened.expiredWatches} broken watches, ${extra} more deliveries`);
});

test('two processes of the API, as on a cluster, deliver each event once', async () => {
  receiver.messages.splice(0);
  const both = await Promise.all([startProcess('one.sock'), startProcess('two.sock')]);
  const numbers = Array.from({ length: 20 }, (_, index) => BUILDS_OF_EACH + 1 + index);
  for (const number of numbers) await Promise.all(refs.map((ref) => build(ref, number)));
  const count = PROJECTS * numbers.length;
  await until(() => received().size === count, 'all events');
  await Promise.all(both.map(kill));
  assert.is(received().size, count);
  assert.is(receiver.messages.length, count, 'no event was delivered twice');
});

test.run();
