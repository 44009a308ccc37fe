/**
 * Tests the routes for snapshots, restores and sizes of a dedicated project's machine. The test writes the status in
 * place of the operator. It configures no provider of machines.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { MOST_REQUESTS, MOST_SNAPSHOTS, type ProjectSpec, type ProjectStatus } from '@slipway/crds';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi } from '../testing.js';

const api = await startTestApi();
test.after(() => api.close());

const AT = '2026-11-29T10:00:00.000Z';
const HEALTHY: ProjectStatus = { phase: 'healthy', server: { id: '7', size: 'cpx11' } };
let made = 0;

/** A dedicated project with this status. */
async function machine(status: ProjectStatus = HEALTHY, spec: Partial<ProjectSpec> = {}) {
  const { token, email } = await register(api);
  made += 1;
  const ref = `snap-${process.pid}-${made}`;
  await api.operator.apply(ref, { owner: email, type: 'dedicated', plan: 'team', region: 'eu-central', ...spec });
  await api.operator.setStatus(ref, status);
  const [{ id }] = (
    await until(
      () => api.call('GET', `/projects?name=${ref}`, { token }),
      ({ body }) => body.length === 1 && body[0].status === status.phase,
    )
  ).body;
  const call = (method: string, path: string, json?: unknown, as = token) =>
    api.call(method, `/projects/${id}/${path}`, { token: as, json });
  const snapshot = (name: string, description?: string) => call('POST', 'snapshots', { name, description });
  const requested = async () => (await api.operator.get(ref)).spec.machine ?? {};
  const names = async () => Object.keys((await requested()).snapshots ?? {}).sort();
  /** Answers in place of the operator. Writes read it at once, and reads after a moment. */
  const answer = (machine: NonNullable<ProjectStatus['machine']>) => api.operator.setStatus(ref, { machine });
  return { id: id as number, ref, token, call, snapshot, requested, names, answer };
}
const complete = (name: string) => ({ name, state: 'complete' as const, diskGb: 40, createdAt: AT });
const codeOf = ({ status, body }: { status: number; body: { code?: string } }) => [status, body.code];

test('a snapshot is requested in the spec, and listed as the operator reports it', async () => {
  const own = await machine();
  const waiting = { name: 'a', state: 'waiting', message: null, disk_gb: null, created_at: null };
  const { status, body } = await own.snapshot('a', 'before the import');
  assert.equal([status, body], [202, { ...waiting, description: 'before the import' }]);
  assert.is((await own.snapshot('b-2')).status, 202);
  assert.equal((await own.requested()).snapshots, { a: { description: 'before the import' }, 'b-2': {} });
  const old = { name: 'old', state: 'complete' as const };
  await own.answer({ snapshots: [old, { name: 'a', state: 'creating', message: '40 %', createdAt: AT }] });
  const { items } = await until(
    async () => (await own.call('GET', 'snapshots')).body,
    ({ items: [first] }) => first?.name === 'old',
  );
  assert.equal(items, [
    { ...waiting, name: 'old', description: null, state: 'deleting' },
    { ...waiting, description: 'before the import', state: 'creating', message: '40 %', created_at: AT },
    { ...waiting, name: 'b-2', description: null },
  ]);
});

test('a snapshot with the name of a member of every object is created, restored and deleted', async () => {
  const own = await machine();
  assert.is((await own.call('DELETE', 'snapshots/constructor')).status, 404);
  assert.is((await own.snapshot('constructor')).status, 202);
  assert.equal(await own.names(), ['constructor']);
  await own.answer({ snapshots: [complete('constructor')] });
  assert.is((await own.call('POST', 'snapshots/constructor/restore')).status, 202);
  await own.answer({ snapshots: [complete('constructor')], restore: { number: 1, snapshot: 'constructor', at: AT } });
  assert.is((await own.call('DELETE', 'snapshots/constructor')).status, 204);
  assert.equal(await own.names(), []);
  const [item] = (await own.call('GET', 'snapshots')).body.items;
  assert.equal([item.state, item.description], ['deleting', null]);
});

test('names and descriptions that are not valid are rejected', async () => {
  const own = await machine();
  for (const name of ['', 'A', 'a_b', '-a', 'a-', 'a.b', '__proto__', 'a'.repeat(41), 'a\n', 7, null]) {
    assert.is((await own.call('POST', 'snapshots', { name })).status, 400, JSON.stringify(name));
  }
  for (const description of ['a'.repeat(201), 'a\nb', 7]) {
    assert.is((await own.call('POST', 'snapshots', { name: 'a', description })).status, 400, String(description));
  }
  assert.is((await own.call('POST', 'snapshots', { name: 'a', more: 1 })).status, 400);
  assert.is((await own.call('POST', 'snapshots/A/restore')).status, 400);
  assert.is((await own.call('DELETE', 'snapshots/a%2fb')).status, 400);
  assert.equal(await own.requested(), {});
});

test('a name is taken until the deletion of its snapshot is complete', async () => {
  const own = await machine();
  await own.snapshot('a');
  assert.equal(codeOf(await own.snapshot('a')), [409, 'name_taken']);
  await own.answer({ snapshots: [complete('a')] });
  const { status, body } = await own.call('DELETE', 'snapshots/a');
  assert.equal([status, body], [204, '']);
  assert.equal(codeOf(await own.snapshot('a')), [409, 'name_taken']);
  assert.is((await own.call('DELETE', 'snapshots/a')).status, 204, 'again');
  await own.answer({ snapshots: [] });
  await until(
    () => own.call('GET', 'snapshots'),
    ({ body }) => body.items.length === 0,
  );
  assert.is((await own.call('DELETE', 'snapshots/a')).status, 404);
  assert.is((await own.snapshot('a')).status, 202);
});

test('a snapshot beyond the maximum is a 409 that names the fix, and one that is being deleted counts', async () => {
  const own = await machine();
  const all = Array.from({ length: MOST_SNAPSHOTS }, (_, index) => `s${index}`);
  for (const name of all) assert.is((await own.snapshot(name)).status, 202, name);
  await own.answer({ snapshots: [complete('s0')] });
  const { status, body } = await own.snapshot('more');
  assert.equal([status, body.code], [409, 'snapshot_limit']);
  assert.match(body.detail, 'DELETE /projects/{id}/snapshots/{name}');
  await own.call('DELETE', 'snapshots/s0');
  assert.equal(codeOf(await own.snapshot('more')), [409, 'snapshot_limit']);
  await own.answer({ snapshots: [] });
  assert.is((await own.snapshot('more')).status, 202);
});

test('simultaneous requests for snapshots lose none, and one alone gets each name and the last place', async () => {
  const own = await machine();
  const places = MOST_SNAPSHOTS - 2;
  await own.snapshot('first');
  await own.snapshot('second');
  const same = await Promise.all(Array.from({ length: 5 }, (_, index) => own.snapshot('same', `note ${index}`)));
  assert.equal(same.map(({ status }) => status).sort(), [202, 409, 409, 409, 409]);
  const winner = same.find(({ status }) => status === 202);
  assert.is((await own.requested()).snapshots?.same?.description, winner?.body.description);
  const others = await Promise.all(Array.from({ length: places + 2 }, (_, index) => own.snapshot(`n${index}`)));
  assert.is(others.filter(({ status }) => status === 202).length, places - 1);
  assert.is(others.filter(({ body }) => body.code === 'snapshot_limit').length, 3);
  const written = others.filter(({ status }) => status === 202).map(({ body }) => body.name);
  assert.equal(await own.names(), [...written, 'first', 'same', 'second'].sort());
});

test('a snapshot is created while kubectl and the operator write the Project', async () => {
  const own = await machine();
  let isDone = false;
  const others = (async () => {
    for (let turn = 1; !isDone; turn += 1) {
      await api.operator.patch(own.ref, { spec: { machine: { snapshots: { kubectl: { description: `${turn}` } } } } });
      await api.operator.setStatus(own.ref, { message: `turn ${turn}` });
      await pause(20);
    }
  })();
  const names = ['a', 'b', 'c', 'd', 'e'];
  const answers = await Promise.all(names.map((name) => own.snapshot(name)));
  isDone = true;
  await others;
  assert.equal(
    answers.map(({ status }) => status),
    names.map(() => 202),
    JSON.stringify(answers.map(({ body }) => body)),
  );
  assert.equal(await own.names(), [...names, 'kubectl']);
});

test('simultaneous creations and deletions of a name end as the last success says', async () => {
  const own = await machine();
  for (let turn = 0; turn < 5; turn += 1) {
    const isThere = (await own.names()).includes('a');
    const [created, deleted] = await Promise.all([own.snapshot('a'), own.call('DELETE', 'snapshots/a')]);
    const isLeft = (await own.names()).includes('a');
    const outcome = `${isThere} ${created?.status} ${deleted?.status} ${isLeft}`;
    // Before, creation, deletion, after: in either order.
    const possible = isThere
      ? ['true 409 204 false', 'true 202 204 true']
      : ['false 202 204 false', 'false 202 404 true'];
    assert.ok(possible.includes(outcome), outcome);
  }
});

test('a suspended project is copied, and a project without a machine is not', async () => {
  const suspended = await machine({ ...HEALTHY, phase: 'suspended' }, { suspendedByOwner: true });
  assert.is((await suspended.snapshot('a')).status, 202);
  for (const status of [{ phase: 'provisioning' }, { phase: 'error', message: 'lost' }] as const) {
    const own = await machine(status);
    assert.equal(codeOf(await own.snapshot('a')), [409, 'project_not_ready']);
    assert.equal(codeOf(await own.call('POST', 'resize')), [409, 'project_not_ready']);
    assert.equal(await own.requested(), {});
  }
});

test('a restore is requested by a number, and its end is in the status', async () => {
  const own = await machine(HEALTHY, { machine: { snapshots: { a: {}, b: {} } } });
  const restore = (name: string) => own.call('POST', `snapshots/${name}/restore`);
  const progress = async () => (await own.call('GET', 'status')).body.machine;
  assert.equal(await progress(), { size: 'cpx11', restore: null, resize: null });
  assert.is((await restore('unknown')).status, 404);
  assert.equal(codeOf(await restore('a')), [409, 'snapshot_not_ready']);
  const snapshots = [complete('a'), complete('b')];
  await own.answer({ snapshots });
  const { status, body } = await restore('a');
  assert.equal([status, body], [202, { ok: true, snapshot: 'a' }]);
  assert.equal((await own.requested()).restore, { number: 1, snapshot: 'a' });
  assert.equal((await progress()).restore, { snapshot: 'a', state: 'in_progress', at: null, error: null });
  assert.is((await restore('a')).status, 202);
  assert.is((await own.requested()).restore?.number, 1, 'one restore');
  assert.equal(codeOf(await restore('b')), [409, 'restore_pending']);
  assert.equal(codeOf(await own.call('DELETE', 'snapshots/a')), [409, 'restore_pending']);
  assert.is((await own.call('DELETE', 'snapshots/b')).status, 204);
  await own.answer({ snapshots: [complete('a')], restore: { number: 1, snapshot: 'a', at: AT, error: 'too large' } });
  const failed = await until(progress, ({ restore: seen }) => seen.state === 'failed');
  assert.equal(failed.restore, { snapshot: 'a', state: 'failed', at: AT, error: 'too large' });
  assert.is((await restore('a')).status, 202);
  assert.equal((await own.requested()).restore, { number: 2, snapshot: 'a' });
  await api.operator.setStatus(own.ref, {
    machine: { restore: { number: 2, snapshot: 'a', at: AT, error: null } },
  } as never);
  const done = await until(progress, ({ restore: seen }) => seen.state === 'done');
  assert.equal(done.restore, { snapshot: 'a', state: 'done', at: AT, error: null });
  assert.is((await own.call('DELETE', 'snapshots/a')).status, 204);
});

test('a restore has a number that was not used, also after the largest one', async () => {
  const own = await machine(HEALTHY, { machine: { snapshots: { a: {} } } });
  const answered = (number: number) => ({ snapshots: [complete('a')], restore: { number, snapshot: 'a', at: AT } });
  await own.answer(answered(40));
  await own.call('POST', 'snapshots/a/restore');
  assert.is((await own.requested()).restore?.number, 41);
  await api.operator.patch(own.ref, { spec: { machine: { restore: { number: MOST_REQUESTS, snapshot: 'a' } } } });
  await own.answer(answered(MOST_REQUESTS));
  await own.call('POST', 'snapshots/a/restore');
  assert.is((await own.requested()).restore?.number, 1);
});

test('a lost machine is restored, and a suspended or deleted project is not', async () => {
  const spec = { machine: { snapshots: { a: {} } } };
  const machineStatus = { machine: { snapshots: [complete('a')] } };
  const lost = await machine({ phase: 'error', ...machineStatus }, spec);
  assert.is((await lost.call('POST', 'snapshots/a/restore')).status, 202);
  const suspended = await machine({ ...HEALTHY, phase: 'suspended', ...machineStatus }, { ...spec, suspend: true });
  for (const path of ['snapshots/a/restore', 'resize']) {
    assert.equal(codeOf(await suspended.call('POST', path)), [409, 'project_suspended'], path);
  }
  const own = await machine({ ...HEALTHY, ...machineStatus }, spec);
  await api.operator.patch(own.ref, { metadata: { finalizers: ['example.com/held'] } });
  await api.call('DELETE', `/projects/${own.id}`, { token: own.token });
  const answers = [
    await own.call('POST', 'snapshots/a/restore'),
    await own.call('POST', 'resize'),
    await own.snapshot('b'),
    await own.call('DELETE', 'snapshots/a'),
  ];
  for (const answer of answers) assert.equal(codeOf(answer), [409, 'project_deleting']);
  await api.operator.patch(own.ref, { metadata: { finalizers: null } });
});

test('a resize requests the size of the plan by a number, and its end is in the status', async () => {
  const own = await machine(HEALTHY, { plan: 'free' });
  await api.call('PATCH', `/projects/${own.id}`, { token: own.token, json: { plan: 'pro' } });
  const { status, body } = await own.call('POST', 'resize', { grow_disk: false });
  assert.equal([status, body], [202, { ok: true, size: 'cpx21', grow_disk: false }]);
  assert.equal((await own.requested()).resize, { number: 1, keepDisk: true });
  assert.is((await own.call('GET', 'status')).body.machine.resize.state, 'in_progress');
  assert.equal((await own.call('POST', 'resize')).body, { ok: true, size: 'cpx21', grow_disk: true });
  assert.equal((await own.requested()).resize, { number: 2 });
  await own.answer({ resize: { number: 2, at: AT } });
  const { machine: seen } = await until(
    async () => (await own.call('GET', 'status')).body,
    ({ machine: { resize } }) => resize.state !== 'in_progress',
  );
  assert.equal(seen.resize, { state: 'done', at: AT, error: null });
  assert.is((await own.call('POST', 'resize', { grow_disk: 'yes' })).status, 400);
});

test('simultaneous resizes, restores and snapshots are all in the spec', async () => {
  const own = await machine(HEALTHY, { machine: { snapshots: { a: {} } } });
  await own.answer({ snapshots: [complete('a')] });
  const answers = await Promise.all([
    own.call('POST', 'resize'),
    own.call('POST', 'resize'),
    own.call('POST', 'snapshots/a/restore'),
    own.call('POST', 'snapshots/a/restore'),
    own.snapshot('b'),
  ]);
  for (const { status, body } of answers) assert.is(status, 202, JSON.stringify(body));
  const { resize, restore, snapshots } = await own.requested();
  assert.equal([resize?.number, restore?.number, Object.keys(snapshots ?? {}).sort()], [2, 1, ['a', 'b']]);
});

const ROUTES = [
  ['GET', 'snapshots', undefined],
  ['POST', 'snapshots', { name: 'a' }],
  ['DELETE', 'snapshots/a', undefined],
  ['POST', 'snapshots/a/restore', undefined],
  ['POST', 'resize', undefined],
] as const;

test('projects of other types have no snapshots and no size', async () => {
  const { token } = await register(api);
  for (const backend_type of ['shared', 'frontend']) {
    const json = { name: `a-${backend_type}`, backend_type };
    const { id } = (await api.call('POST', '/projects', { token, json })).body;
    for (const [method, path, body] of ROUTES) {
      const answer = await api.call(method, `/projects/${id}/${path}`, { token, json: body });
      assert.equal(codeOf(answer), [400, 'wrong_type'], `${backend_type} ${path}`);
    }
    const { body } = await api.call('GET', `/projects/${id}/status`, { token });
    assert.is('machine' in body, false);
  }
});

test('another account and a token without the scope change no snapshots', async () => {
  const own = await machine(HEALTHY, { machine: { snapshots: { a: {} } } });
  await own.answer({ snapshots: [complete('a')] });
  const { token: eve } = await register(api);
  const scoped = async (scope: string) =>
    (await api.call('POST', '/tokens', { token: own.token, json: { name: scope, scopes: [scope] } })).body.token;
  const [reads, other] = [await scoped('projects:read'), await scoped('projects:delete')];
  for (const [method, path, body] of ROUTES) {
    assert.is((await own.call(method, path, body, eve)).status, 404, path);
    assert.is((await own.call(method, path, body, other)).status, 403, path);
    if (method === 'GET') assert.is((await own.call(method, path, body, reads)).status, 200);
    else assert.is((await own.call(method, path, body, reads)).status, 403, path);
  }
  assert.equal(await own.requested(), { snapshots: { a: {} } });
});

test.run();
