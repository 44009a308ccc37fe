/** Tests the verbs against a stand-in of the provider, which can't be here and does not fail on request. */
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { MachineProvider, MachineRequest } from '../provider.js';
import { ProviderError } from '../provider-error.js';
import { hetznerProvider } from './provider.js';
import { action, failure, listOf, type Received, StandIn } from './stand-in.testing.js';

const test = suite('hetzner provider');
let cloud: StandIn;
let provider: MachineProvider;
const { signal } = new AbortController();

test.before(async () => {
  cloud = await StandIn.start();
  provider = hetznerProvider({ url: cloud.url, tokenFile: cloud.tokenFile, pause: cloud.pause });
});
test.before.each(() => cloud.reset());
test.after(async () => {
  await provider.close();
  cloud.close();
});

const labels = { installation: 'i', ref: 'r', uid: 'u' };
const request: MachineRequest = {
  name: 'slipway-r',
  labels,
  choices: [
    { type: 'cpx22', location: 'fsn1' },
    { type: 'cpx22', location: 'nbg1' },
  ],
  image: 'debian-12',
  userData: '#cloud-config\n{}\n',
  keys: ['5'],
  firewall: '6',
};

const serverOf = (more: object = {}) => ({
  id: 1,
  name: 'slipway-r',
  status: 'running',
  created: '2026-01-01T00:00:00+00:00',
  labels,
  public_net: { ipv4: { ip: '192.0.2.1' }, firewalls: [{ id: 6, status: 'applied' }] },
  server_type: { name: 'cpx22', cores: 2, memory: 4, disk: 80 },
  primary_disk_size: 40,
  location: { name: 'fsn1' },
  ...more,
});
const created = (more: object = {}) => ({ status: 201, body: { server: serverOf(more), action: action('running') } });
const done = { status: 201, body: { action: action('success') } };
const allDone = { status: 201, body: { actions: [action('success')] } };

/** Lists what `POST` created, by labels or name. */
function keepServers(servers: { id: number; name: string; labels: object }[] = []) {
  cloud.on('GET /servers', ({ query }) =>
    listOf(
      'servers',
      servers.filter(({ name, labels: own }) => {
        const selector = Object.entries(own).map((pair) => pair.join('='));
        return query.has('name') ? name === query.get('name') : selector.join(',') === query.get('label_selector');
      }),
    ),
  );
  return servers;
}

async function errorOf(work: Promise<unknown>): Promise<ProviderError> {
  const error = await work.then(
    () => undefined,
    (reason) => reason,
  );
  assert.instance(error, ProviderError);
  return error as ProviderError;
}

const posts = () => cloud.received.filter(({ method }) => method === 'POST');

test('ensureMachine creates a machine with its labels, keys, firewall and user data when there is none', async () => {
  keepServers();
  cloud.on('POST /servers', created({ status: 'initializing' }));
  const machine = await provider.ensureMachine(request, signal);
  assert.equal(machine, {
    id: '1',
    name: 'slipway-r',
    labels,
    state: 'starting',
    address: '192.0.2.1',
    type: 'cpx22',
    cores: 2,
    memoryGb: 4,
    diskGb: 40,
    location: 'fsn1',
    createdAt: new Date('2026-01-01T00:00:00Z'),
    firewalls: ['6'],
  });
  assert.equal(posts()[0]?.body, {
    name: 'slipway-r',
    labels,
    server_type: 'cpx22',
    location: 'fsn1',
    image: 'debian-12',
    ssh_keys: [5],
    firewalls: [{ firewall: 6 }],
    start_after_create: true,
    user_data: '#cloud-config\n{}\n',
  });
});

test('ensureMachine returns the machine with the labels, and creates none', async () => {
  keepServers([serverOf({ id: 3 }), serverOf({ id: 2 })]);
  assert.is((await provider.ensureMachine(request, signal)).id, '2');
  assert.equal(posts(), []);
});

test('ensureMachine applies the firewall again when somebody removed it', async () => {
  keepServers([serverOf({ public_net: { ipv4: null, firewalls: [] } })]);
  cloud.on('POST /firewalls/6/actions/apply_to_resources', allDone);
  const machine = await provider.ensureMachine(request, signal);
  assert.equal(machine.firewalls, ['6']);
  assert.is(machine.address, undefined);
  assert.equal(posts()[0]?.body, { apply_to: [{ type: 'server', server: { id: 1 } }] });
});

test('ensureMachine finds the machine of a creation whose response was lost', async () => {
  const servers = keepServers();
  cloud.on('POST /servers', () => {
    servers.push(serverOf());
    return undefined;
  });
  assert.is((await provider.ensureMachine(request, signal)).id, '1');
  assert.is(posts().length, 1);
});

test('ensureMachine finds the machine when the lost creation is executed after the search for it', async () => {
  const servers = keepServers();
  cloud.on('POST /servers', () => {
    servers.push(serverOf());
    return failure(409, 'uniqueness_error', { fields: ['name'] });
  });
  cloud.on('POST /servers', failure(500, 'server_error'), 1);
  assert.is((await provider.ensureMachine(request, signal)).id, '1');
  assert.is(posts().length, 2);
});

test('ensureMachine creates the machine again when the provider did not execute a lost creation', async () => {
  keepServers();
  cloud.on('POST /servers', created());
  cloud.on('POST /servers', undefined, 1);
  assert.is((await provider.ensureMachine(request, signal)).id, '1');
  assert.is(posts().length, 2);
});

test('ensureMachine gives up when every response is lost, with an error that can be retried', async () => {
  keepServers();
  cloud.on('POST /servers', failure(500, 'server_error'));
  const error = await errorOf(provider.ensureMachine(request, signal));
  assert.is(error.kind, 'unavailable');
  assert.ok(error.retryable);
  assert.is(posts().length, 3);
});

test('ensureMachine reports a conflict when a machine of the name has other labels', async () => {
  keepServers([serverOf({ labels: { ...labels, uid: 'another' } })]);
  cloud.on('POST /servers', failure(409, 'uniqueness_error', { fields: ['name'] }));
  const error = await errorOf(provider.ensureMachine(request, signal));
  assert.is(error.kind, 'conflict');
  assert.not(error.retryable);
  assert.match(error.message, 'slipway-r');
  assert.is(posts().length, 1);
});

test('ensureMachine waits for the deletion of a former machine of the labels', async () => {
  keepServers([serverOf({ status: 'deleting' })]);
  assert.is((await errorOf(provider.ensureMachine(request, signal))).kind, 'unavailable');
  assert.equal(posts(), []);
});

for (const [what, refusal] of [
  ['412 resource_unavailable', failure(412, 'resource_unavailable')],
  ['412 placement_error', failure(412, 'placement_error')],
  ['422 for the type at the location', failure(422, 'invalid_input', { fields: ['server_type'] })],
] as const) {
  test(`ensureMachine tries the next location when the response is ${what}`, async () => {
    keepServers();
    cloud.on('POST /servers', ({ body }: Received) => (body.location === 'nbg1' ? created() : refusal));
    await provider.ensureMachine(request, signal);
    assert.equal(
      posts().map(({ body }) => body.location),
      ['fsn1', 'nbg1'],
    );
    cloud.on('POST /servers', refusal);
    const error = await errorOf(provider.ensureMachine(request, signal));
    assert.is(error.kind, 'no-capacity');
    assert.match(error.problem, /cpx22 in fsn1 .*cpx22 in nbg1/);
  });
}

for (const [what, refusal, kind] of [
  ['422 for the user data', failure(422, 'invalid_input', { fields: ['user_data'] }), 'invalid'],
  ['403 resource_limit_exceeded', failure(403, 'resource_limit_exceeded'), 'limit-reached'],
  ['401', failure(401, 'unauthorized'), 'unauthorized'],
] as const) {
  test(`ensureMachine tries no other location when the response is ${what}`, async () => {
    keepServers();
    cloud.on('POST /servers', refusal);
    const error = await errorOf(provider.ensureMachine(request, signal));
    assert.is(error.kind, kind);
    assert.not(error.retryable);
    assert.is(posts().length, 1);
  });
}

test('ensureMachine reports that no location offers a type when there is no choice', async () => {
  keepServers();
  const error = await errorOf(provider.ensureMachine({ ...request, choices: [] }, signal));
  assert.match(error.problem, 'none is offered in the region');
});

test('observe returns undefined when the machine was deleted, and the state of any other', async () => {
  assert.is(await provider.observe('9', signal), undefined);
  for (const [status, state] of [
    ['off', 'off'],
    ['migrating', 'busy'],
    ['deleting', 'deleting'],
  ]) {
    cloud.on('GET /servers/1', { status: 200, body: { server: serverOf({ status }) } });
    assert.is((await provider.observe('1', signal))?.state, state);
  }
});

test('powerOn is repeated after a lost response, and reboot is not', async () => {
  cloud.on('POST /servers/1/actions/poweron', done);
  cloud.on('POST /servers/1/actions/poweron', undefined, 1);
  await provider.powerOn('1', signal);
  assert.is(posts().length, 2);
  cloud.on('POST /servers/1/actions/reset', undefined);
  assert.is((await errorOf(provider.reboot('1', signal))).kind, 'unavailable');
  assert.is(posts().length, 3);
});

test('shutDown waits until the system has ended, and cuts the power of one that does not end', async () => {
  const states = ['running', 'running', 'off'];
  cloud.on('GET /servers/1', () => ({ status: 200, body: { server: serverOf({ status: states.shift() ?? 'off' }) } }));
  cloud.on('POST /servers/1/actions/shutdown', done);
  await provider.shutDown('1', signal);
  assert.equal(
    cloud.calls.filter((call) => call.startsWith('POST')),
    ['POST /servers/1/actions/shutdown'],
  );
  await provider.shutDown('1', signal);
  assert.is(cloud.calls.filter((call) => call.startsWith('POST')).length, 1);
  cloud.reset();
  cloud.on('GET /servers/1', { status: 200, body: { server: serverOf() } });
  cloud.on('POST /servers/1/actions/shutdown', done);
  cloud.on('POST /servers/1/actions/poweroff', done);
  await provider.shutDown('1', signal);
  assert.is(cloud.calls.at(-1), 'POST /servers/1/actions/poweroff');
  const waitedMs = cloud.pauses.reduce((sum, ms) => sum + ms, 0);
  assert.ok(waitedMs > 120_000 && waitedMs < 180_000, `${waitedMs} ms`);
});

test('resize changes nothing when the machine has the type, and names the remedy when it runs', async () => {
  cloud.on('GET /servers/1', { status: 200, body: { server: serverOf() } });
  await provider.resize('1', { type: 'cpx22', growDisk: true }, signal);
  assert.equal(posts(), []);
  cloud.on('POST /servers/1/actions/change_type', failure(422, 'server_not_stopped'));
  const error = await errorOf(provider.resize('1', { type: 'cpx32', growDisk: true }, signal));
  assert.is(error.kind, 'invalid');
  assert.is(error.remedy, 'Power the machine off first.');
  assert.equal(posts()[0]?.body, { server_type: 'cpx32', upgrade_disk: true });
  assert.is((await errorOf(provider.resize('2', { type: 'a', growDisk: false }, signal))).kind, 'not-found');
});

const imageOf = (status: string) => ({
  id: 8,
  status,
  description: 'd',
  labels,
  created: '2026-01-01T00:00:00Z',
  disk_size: 80,
});
const image = (status: string) => ({ status: 200, body: { image: imageOf(status) } });

test('createSnapshot finds the snapshot whose response was lost, and waits until it is complete', async () => {
  cloud.on('GET /images', listOf('images', [imageOf('creating')]));
  cloud.on('GET /images', listOf('images', []), 1);
  cloud.on('POST /servers/1/actions/create_image', undefined);
  cloud.on('GET /images/8', image('available'));
  cloud.on('GET /images/8', image('creating'), 2);
  const snapshot = await provider.createSnapshot('1', { labels, description: 'd' }, signal);
  assert.is(snapshot.id, '8');
  assert.ok(snapshot.isComplete);
  await provider.createSnapshot('1', { labels, description: 'd' }, signal);
  assert.is(posts().length, 1);
});

test('createSnapshot deletes the half snapshot when the provider fails to complete it', async () => {
  cloud.on('GET /images', listOf('images', []));
  const failed = action('error', { code: 'action_failed', message: 'disk' });
  cloud.on('POST /servers/1/actions/create_image', {
    status: 201,
    body: { image: imageOf('creating'), action: failed },
  });
  cloud.on('DELETE /images/8', { status: 204 });
  assert.match((await errorOf(provider.createSnapshot('1', { labels, description: 'd' }, signal))).problem, 'disk');
  assert.is(cloud.calls.filter((call) => call === 'DELETE /images/8').length, 1);
});

test('createSnapshot keeps the snapshot when the provider does not respond while it is made', async () => {
  cloud.on('GET /images', listOf('images', [imageOf('available')]));
  cloud.on('GET /images', listOf('images', []), 1);
  const body = { image: imageOf('creating'), action: action('running') };
  cloud.on('POST /servers/1/actions/create_image', { status: 201, body });
  cloud.on('GET /actions/7', failure(500, 'server_error'));
  cloud.on('GET /images/8', image('available'));
  assert.is((await provider.createSnapshot('1', { labels, description: 'd' }, signal)).id, '8');
  assert.not(cloud.calls.includes('DELETE /images/8'));
});

test('delete deletes machines and keys with the labels, also locked ones and those that others delete', async () => {
  const servers = keepServers([serverOf(), serverOf({ id: 2 })]);
  const keys = [{ id: 5, name: 'k', public_key: 'ssh-ed25519 AA', labels }];
  cloud.on('GET /ssh_keys', () => listOf('ssh_keys', keys));
  cloud.on('DELETE /servers/1', () => {
    servers.length = 0;
    return { status: 200, body: { action: action('success') } };
  });
  cloud.on('DELETE /servers/1', failure(423, 'locked'), 2);
  cloud.on('DELETE /ssh_keys/5', () => {
    keys.length = 0;
    return { status: 204 };
  });
  await provider.delete(labels, signal);
  await provider.delete(labels, signal);
  const deletions = cloud.calls.filter((call) => call.startsWith('DELETE'));
  assert.equal(deletions, [...Array(3).fill('DELETE /servers/1'), 'DELETE /servers/2', 'DELETE /ssh_keys/5']);
});

test('delete reports a machine that is still listed, and refuses labels that select everything', async () => {
  keepServers([serverOf()]);
  cloud.on('GET /ssh_keys', listOf('ssh_keys', []));
  cloud.on('DELETE /servers/1', done);
  const error = await errorOf(provider.delete(labels, signal));
  assert.is(error.kind, 'unavailable');
  assert.match(error.problem, 'slipway-r');
  cloud.received.length = 0;
  assert.is((await errorOf(provider.delete({}, signal))).kind, 'invalid');
  assert.equal(cloud.calls, []);
});

test('ensureKey keeps a key with another comment, and replaces another key', async () => {
  const key = { id: 5, name: 'k', public_key: 'ssh-ed25519 AAAA old comment', labels };
  cloud.on('GET /ssh_keys', listOf('ssh_keys', [key]));
  cloud.on('DELETE /ssh_keys/5', { status: 204 });
  cloud.on('POST /ssh_keys', { status: 201, body: { ssh_key: { ...key, id: 6 } } });
  const wanted = { name: 'k', labels, publicKey: 'ssh-ed25519 AAAA new\n' };
  assert.is(await provider.ensureKey(wanted, signal), '5');
  assert.equal(posts(), []);
  assert.is(await provider.ensureKey({ ...wanted, publicKey: 'ssh-ed25519 BBBB' }, signal), '6');
  assert.equal(posts()[0]?.body, { name: 'k', labels, public_key: 'ssh-ed25519 BBBB' });
});

test('ensureFirewall keeps equal rules in another order, and sets others', async () => {
  const rules = [
    { direction: 'in', protocol: 'icmp', port: null, source_ips: ['::/0', '0.0.0.0/0'] },
    { direction: 'in', protocol: 'tcp', port: '443', source_ips: ['0.0.0.0/0'] },
  ];
  cloud.on('GET /firewalls', listOf('firewalls', [{ id: 6, name: 'f', labels, rules }]));
  cloud.on('POST /firewalls/6/actions/set_rules', allDone);
  const tcp = { protocol: 'tcp', ports: '443', sources: ['0.0.0.0/0'] } as const;
  const icmp = { protocol: 'icmp', sources: ['0.0.0.0/0', '::/0'] } as const;
  assert.is(await provider.ensureFirewall({ name: 'f', labels, rules: [tcp, icmp] }, signal), '6');
  assert.equal(posts(), []);
  await provider.ensureFirewall({ name: 'f', labels, rules: [tcp] }, signal);
  assert.equal(posts()[0]?.body, {
    rules: [{ direction: 'in', protocol: 'tcp', source_ips: ['0.0.0.0/0'], port: '443' }],
  });
});

test('deleteFirewall resolves when there is none, and can be retried while a machine uses it', async () => {
  await provider.deleteFirewall('6', signal);
  cloud.on('DELETE /firewalls/6', failure(409, 'resource_in_use'));
  assert.ok((await errorOf(provider.deleteFirewall('6', signal))).retryable);
});

test.run();
