/**
 * Tests a machine's life against a server of the provider's API that runs real machines, at the address that
 * SLIPWAY_TEST_CLOUD_URL names: `http://127.0.0.1:18500/v1`. It must accept any token, and faults as `POST /faults`.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { Machine, MachineProvider, MachineRequest } from '../provider.js';
import type { ProviderError } from '../provider-error.js';
import { hetznerProvider } from './provider.js';

const url = process.env.SLIPWAY_TEST_CLOUD_URL;
if (!url) console.log('# skipped: SLIPWAY_TEST_CLOUD_URL names no server of the cloud provider’s API');

const life = suite('a machine at the provider');
const test = url ? life : life.skip;

const SSH = 22;
const KEY = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-cloud-'));
const tokenFile = path.join(folder, 'token');
const run = `t${process.pid}`;
const installation = { 'slipway.test/run': run };
const labels = { ...installation, 'slipway.test/ref': 'one' };
const { signal } = new AbortController();
let provider: MachineProvider;
let request: MachineRequest;

const faultsUrl = () => new URL('/faults', url);

async function withFault<T>(fault: object, work: () => Promise<T>): Promise<T> {
  await fetch(faultsUrl(), { method: 'POST', body: JSON.stringify(fault) });
  try {
    return await work();
  } finally {
    await fetch(faultsUrl(), { method: 'DELETE' });
  }
}

/** True if a connection to the port of the machine is accepted within a second. */
const accepts = (host: string, port: number) =>
  new Promise<boolean>((resolve) => {
    const socket = connect({ host, port, timeout: 1_000 });
    const end = (isOpen: boolean) => {
      socket.destroy();
      resolve(isOpen);
    };
    socket
      .on('connect', () => end(true))
      .on('error', () => end(false))
      .on('timeout', () => end(false));
  });

const running = (id: string) =>
  until(
    () => provider.observe(id, signal),
    (machine) => machine?.state === 'running',
    60_000,
  ) as Promise<Machine>;

/** Creates the machine with its key, which the deletion of a machine deletes too. */
async function ensure(by: MachineProvider = provider): Promise<Machine> {
  const key = await by.ensureKey({ name: request.name, labels, publicKey: KEY }, signal);
  return by.ensureMachine({ ...request, keys: [key] }, signal);
}

const kindOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: ProviderError) => error.kind,
  );

life.before(async () => {
  if (!url) return;
  writeFileSync(tokenFile, 'any-token');
  provider = hetznerProvider({ url, tokenFile });
  const choices = (await provider.choices('eu-central', signal)).filter(({ size }) => size === 'cpx11');
  const rules = [{ protocol: 'tcp', ports: String(SSH), sources: ['0.0.0.0/0', '::/0'] }] as const;
  const name = `slipway-${run}`;
  request = {
    name,
    labels,
    choices,
    image: 'debian-12',
    keys: [],
    firewall: await provider.ensureFirewall({ name, labels: installation, rules }, signal),
  };
});

life.after(async () => {
  if (!url) return rmSync(folder, { recursive: true });
  await fetch(faultsUrl(), { method: 'DELETE' });
  await provider.delete(installation, signal);
  for (const { id } of await provider.listSnapshots(installation, signal)) await provider.deleteSnapshot(id, signal);
  await provider.deleteFirewall(request.firewall, signal);
  await provider.close();
  rmSync(folder, { recursive: true });
});

test('the choices of each region have a price and at least the size', async () => {
  const choices = await provider.choices('us-east', signal);
  assert.ok(choices.length >= 4, JSON.stringify(choices));
  assert.ok(choices.every(({ eurosPerMonth, location }) => eurosPerMonth > 0 && location === 'ash'));
  assert.ok(request.choices.length >= 2);
});

test('a machine is created once, boots, reboots, is copied, resized and deleted', async () => {
  const begun = performance.now();
  const machine = await ensure();
  assert.equal(machine.firewalls, [request.firewall]);
  const { address = '' } = await running(machine.id);
  await until(() => accepts(address, SSH), 'the machine accepts SSH', 60_000);
  console.log(`# SSH accepts ${((performance.now() - begun) / 1000).toFixed(1)} s after the creation`);
  assert.is((await ensure()).id, machine.id);

  await provider.reboot(machine.id, signal);
  await running(machine.id);
  await until(() => accepts(address, SSH), 'the machine accepts SSH after the reboot', 60_000);

  const kept = { labels: { ...labels, 'slipway.test/kind': 'copy' }, description: 'a copy' };
  const snapshot = await provider.createSnapshot(machine.id, kept, signal);
  assert.ok(snapshot.isComplete);
  assert.is((await provider.createSnapshot(machine.id, kept, signal)).id, snapshot.id);
  const second = { ...installation, 'slipway.test/ref': 'two' };
  const more = { name: `${request.name}-2`, labels: second, image: snapshot.id };
  const copy = await provider.ensureMachine({ ...request, ...more }, signal);
  const copied = await running(copy.id);
  await until(() => accepts(copied.address ?? '', SSH), 'the copy accepts SSH', 60_000);
  assert.is((await provider.list(installation, signal)).length, 2);

  const type = (await provider.choices('eu-central', signal)).find(({ size }) => size === 'cpx31')?.type ?? '';
  assert.is(await kindOf(provider.resize(copy.id, { type, growDisk: false }, signal)), 'invalid');
  await provider.shutDown(copy.id, signal);
  assert.is((await provider.observe(copy.id, signal))?.state, 'off');
  await provider.resize(copy.id, { type, growDisk: false }, signal);
  await provider.powerOn(copy.id, signal);
  assert.is((await running(copy.id)).type, type);

  await provider.delete(second, signal);
  assert.is(await provider.observe(copy.id, signal), undefined);
  await provider.deleteSnapshot(snapshot.id, signal);
  await provider.deleteSnapshot(snapshot.id, signal);
  assert.equal(await provider.listSnapshots(installation, signal), []);
  await provider.delete(labels, signal);
  assert.equal(await provider.list(installation, signal), []);
});

for (const [status, code, kind] of [
  [401, 'unauthorized', 'unauthorized'],
  [403, 'resource_limit_exceeded', 'limit-reached'],
  [412, 'resource_unavailable', 'no-capacity'],
  [422, 'invalid_input', 'invalid'],
] as const) {
  test(`no machine is left when the creation is rejected with ${status} ${code}`, async () => {
    const fault = { match: 'POST /v1/servers', status, code, times: 9 };
    assert.is(await withFault(fault, () => kindOf(ensure())), kind);
    assert.equal(await provider.list(labels, signal), []);
  });
}

test('one machine is created when the creation is locked, limited, fails or finds no place at first', async () => {
  for (const [status, code] of [
    [423, 'locked'],
    [429, 'rate_limit_exceeded'],
    [500, 'server_error'],
    [412, 'resource_unavailable'],
  ] as const) {
    const fault = { match: 'POST /v1/servers', status, code, times: 1 };
    const machine = await withFault(fault, () => ensure());
    const expected = code === 'resource_unavailable' ? request.choices[1] : request.choices[0];
    assert.is(machine.location, expected?.location, code);
    assert.is((await provider.list(labels, signal)).length, 1);
    await provider.delete(labels, signal);
  }
});

test('one machine is created when the response to the creation comes too late', async () => {
  const impatient = hetznerProvider({ url: url as string, tokenFile, requestMs: 1_500 });
  const delay = 3;
  const fault = { match: 'POST /v1/servers', delay, times: 1 };
  const machine = await withFault(fault, () => ensure(impatient));
  await impatient.close();
  // By then the provider has executed the late creation too, and rejected it.
  await sleep(delay * 1_000);
  const all = await provider.list(labels, signal);
  assert.equal(
    all.map(({ id }) => id),
    [machine.id],
  );
  await provider.delete(labels, signal);
});

life.run();
