/**
 * Tests snapshots, restores and other sizes on real machines, at the address that SLIPWAY_TEST_CLOUD_URL names. An
 * operator is killed by closing its engine at a line of the work; the next one starts over what it left.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineOutcome, EngineProject, MachineAnswers, MachineRequests } from '../../../capabilities/index.js';
import { cloudUrl, type Fault, FaultBed, isFailed, LIMITS } from './faults.testing.js';

if (!cloudUrl) console.log('# skipped: SLIPWAY_TEST_CLOUD_URL names no server of the cloud provider’s API');
const maintenance = suite('maintenance of machines');
const only = process.argv[2];
/** A name as the argument of this file runs the cases that contain it. */
const test = (name: string, work: () => Promise<void>) => {
  const timed = async () => {
    const begun = performance.now();
    await work();
    console.log(`# ${((performance.now() - begun) / 1000).toFixed(1)} s: ${name}`);
  };
  if (cloudUrl && (only === undefined || name.includes(only))) maintenance(name, timed);
  else maintenance.skip(name, timed);
};

let bed: FaultBed;
/** A machine that boots after its work is not silent, also on a computer that is busy. */
const PATIENT = { ...LIMITS, silence: 30_000 };
maintenance.before(async () => {
  if (!cloudUrl) return;
  bed = await FaultBed.start();
  await bed.machines.close();
  bed.startOperator(PATIENT);
});
maintenance.after(() => bed?.close());

const CREATE = /^POST \/servers$/;
const CREATE_IMAGE = /\/actions\/create_image$/;
const CHANGE_TYPE = /\/actions\/change_type$/;
const LIST_IMAGES = /^GET \/images$/;

async function sql(project: EngineProject, statement: string): Promise<string> {
  const password = (await bed.record(project))?.superuserPassword;
  const command = 'psql -XAtq -h /run/slipway/postgres -U slipway -d postgres -v ON_ERROR_STOP=1';
  return bed.sh(project, `PGPASSWORD=${password} ${command} <<'END'\n${statement}\nEND`);
}

/** Returns a project whose machine runs, with one row. */
async function running(ref: string): Promise<EngineProject> {
  const project = await bed.project(ref);
  await bed.drive(project);
  await sql(project, "CREATE TABLE notes (text text); INSERT INTO notes VALUES ('first')");
  return project;
}

const rows = (project: EngineProject) => sql(project, 'SELECT text FROM notes ORDER BY text');
const wanting = (project: EngineProject, machine: MachineRequests, more: Partial<EngineProject> = {}) => ({
  ...project,
  ...more,
  machine: { ...project.machine, ...machine },
});

/** Drives the project until its answers are as wanted. */
async function answered(
  project: EngineProject,
  isWanted: (answers: MachineAnswers) => boolean,
  patienceMs = 120_000,
): Promise<MachineAnswers> {
  let answers: MachineAnswers = {};
  const look = async () => {
    await bed.drive(project, () => true);
    answers = (await bed.machines.ensure(project)).answers ?? {};
    return answers;
  };
  return until(look, isWanted, patienceMs).catch((error: unknown) => {
    throw new Error(`${(error as Error).message}; the answers are ${JSON.stringify(answers)}`);
  });
}

const messageOf = (outcome: EngineOutcome) => ('message' in outcome ? outcome.message : '');
const isRestored = (number: number) => (answers: MachineAnswers) => answers.restore?.number === number;

/** Returns a project with the snapshot `one` of its first row, and a second row. */
async function withSnapshot(ref: string): Promise<EngineProject> {
  const wanted = wanting(await running(ref), { snapshots: { one: {} } });
  await answered(wanted, isComplete('one'));
  await bed.drive(wanted);
  await sql(wanted, "INSERT INTO notes VALUES ('second')");
  return wanted;
}

async function isAsInSnapshot(project: EngineProject): Promise<void> {
  await bed.drive(project);
  assert.is(await rows(project), 'first');
  assert.is((await bed.record(project))?.restoring, undefined);
  assert.is((await images(project)).length, 1);
}

const stateOf = ({ snapshots }: MachineAnswers, name: string) => snapshots?.find((each) => each.name === name)?.state;
const isComplete = (name: string) => (answers: MachineAnswers) => stateOf(answers, name) === 'complete';

async function images(project: EngineProject): Promise<{ id: number; status: string }[]> {
  const selector = encodeURIComponent(`slipway.dev/uid==${project.uid}`);
  const response = await bed.call('GET', `/images?type=snapshot&label_selector=${selector}`);
  return ((await response.json()) as { images: { id: number; status: string }[] }).images;
}

const typeOf = async (project: EngineProject) => (await bed.server(project)).server_type.name;

async function restarted(): Promise<void> {
  await bed.machines.close();
  bed.startOperator(PATIENT);
}

async function removed(project: EngineProject): Promise<void> {
  await bed.remove(project);
  assert.equal(await bed.left(project), []);
  assert.is(await bed.record(project), undefined);
  assert.is(bed.most(project), 1);
}

test('a snapshot is made once, the machine serves again, and a name that is removed is deleted', async () => {
  const project = await running('snap');
  const { id } = await bed.server(project);
  assert.equal((await bed.machines.ensure(project)).answers, { snapshots: [] });
  assert.is(bed.requests.filter(({ name, text }) => LIST_IMAGES.test(name) && text.includes(project.uid)).length, 0);
  const wanted = wanting(project, { snapshots: { 'before-upgrade': { description: 'for the test' } } });
  const seen: string[] = [];
  await bed.drive(wanted, (outcome) => {
    if ('message' in outcome) seen.push(outcome.message);
    return seen.length > 0;
  });
  assert.ok(seen.includes('making the snapshot before-upgrade; the machine is off'), seen.join('\n'));
  const answers = await answered(wanted, isComplete('before-upgrade'));
  assert.match(answers.snapshots?.[0]?.createdAt ?? '', /^\d{4}-/);
  await bed.drive(wanted);
  assert.is(await rows(project), 'first');
  await restarted();
  await bed.drive(wanted);
  await answered(wanted, isComplete('before-upgrade'));
  await sleep(5_000);
  assert.is(bed.actions(id, 'create_image'), 1);
  assert.is(bed.actions(id, 'shutdown'), 1);
  const lists = () => bed.requests.filter(({ name, text }) => LIST_IMAGES.test(name) && text.includes(project.uid));
  const before = lists().length;
  await sleep(5_000);
  assert.is(lists().length, before, 'a complete snapshot costs no request in each look');
  await answered(project, ({ snapshots }) => snapshots?.length === 0);
  assert.equal(await images(project), []);
  await removed(project);
});

test('a snapshot is made after failed attempts, between which the machine serves', async () => {
  const project = await running('snap-fails');
  bed.inject(project, { match: CREATE_IMAGE, times: 2, status: 422, code: 'invalid_input' });
  const wanted = wanting(project, { snapshots: { one: {} } });
  const failed = await answered(wanted, (answers) => stateOf(answers, 'one') === 'failed');
  assert.match(failed.snapshots?.[0]?.message ?? '', 'invalid_input');
  await bed.drive(wanted);
  await answered(wanted, isComplete('one'));
  await bed.drive(wanted);
  assert.is(await rows(project), 'first');
  assert.is((await images(project)).length, 1);
  await removed(wanted);
});

test('a snapshot that waits for the provider leaves the machine on', async () => {
  const project = await running('snap-waits');
  const { id } = await bed.server(project);
  bed.inject(project, { match: LIST_IMAGES, times: 3, status: 401, code: 'unauthorized' });
  const wanted = wanting(project, { snapshots: { one: {} } });
  const parts = async () => (await bed.machines.ensure(wanted)).parts;
  await until(parts, (list) =>
    list.some(({ condition, outcome }) => condition === 'MachineMaintained' && isFailed(outcome)),
  );
  assert.is(bed.actions(id, 'shutdown'), 0);
  await answered(wanted, isComplete('one'));
  await removed(wanted);
});

test('an operator that is killed while it makes a snapshot is followed by one that completes it', async () => {
  const project = await running('snap-kill');
  const { id } = await bed.server(project);
  const kills: Record<string, () => boolean> = {
    shutdown: () => bed.actions(id, 'shutdown') > 0,
    image: () => bed.actions(id, 'create_image') > 0,
  };
  let wanted = project;
  for (const [name, isReached] of Object.entries(kills)) {
    bed.requests.length = 0;
    wanted = wanting(wanted, { snapshots: { ...wanted.machine?.snapshots, [name]: {} } });
    await bed.drive(wanted, isReached);
    await restarted();
    await answered(wanted, isComplete(name));
    await bed.drive(wanted);
    assert.is(await rows(project), 'first');
  }
  bed.inject(project, { match: CREATE_IMAGE, times: 1, cut: true });
  wanted = wanting(wanted, { snapshots: { ...wanted.machine?.snapshots, cut: {} } });
  await answered(wanted, isComplete('cut'));
  await bed.drive(wanted);
  assert.is((await images(project)).length, 3);
  await removed(wanted);
});

test('a suspended project gets its snapshot and its size without a boot', async () => {
  const project = await running('off');
  const { id } = await bed.server(project);
  const off = wanting(project, {}, { suspended: true });
  const suspended = async () => {
    await bed.machines.ensure(off);
    return (await bed.server(project)).status === 'off';
  };
  await until(suspended, 'the machine is off', 60_000);
  const wanted = wanting(off, { snapshots: { one: {} }, resize: { number: 1 } }, { plan: 'pro' });
  await answered(wanted, (answers) => isComplete('one')(answers) && answers.resize?.number === 1);
  assert.is(await typeOf(project), 'cpx32');
  assert.is(bed.actions(id, 'poweron'), 0);
  await removed(wanted);
});

test('a larger plan changes the type on request, and a smaller disk is refused', async () => {
  const project = await running('size');
  const { id } = await bed.server(project);
  const larger = wanting(project, {}, { plan: 'team' });
  await bed.drive(larger);
  const { size, cores } = (await bed.machines.ensure(larger)).view ?? {};
  assert.equal({ size, cores }, { size: 'cpx11', cores: 2 }, 'a plan alone changes nothing');
  const resized = wanting(larger, { resize: { number: 1 } });
  const up = await answered(resized, ({ resize }) => resize?.number === 1);
  assert.is(up.resize?.error, undefined);
  assert.is(await typeOf(project), 'cpx32');
  await bed.drive(resized);
  const { view } = await bed.machines.ensure(resized);
  assert.equal([view?.type, view?.size, view?.cores, view?.memoryGb], ['cpx32', 'cpx31', 4, 8]);
  assert.is(await rows(project), 'first');
  // The same type needs no downtime.
  const pro = wanting(resized, { resize: { number: 2 } }, { plan: 'pro' });
  await answered(pro, ({ resize }) => resize?.number === 2);
  assert.is((await bed.machines.ensure(pro)).view?.size, 'cpx21');
  const down = wanting(pro, { resize: { number: 3 } }, { plan: 'free' });
  const refused = await answered(down, ({ resize }) => resize?.number === 3);
  assert.match(refused.resize?.error ?? '', /has a disk of 80 GB, and the machine one of 160 GB\. .* fits is pro\./);
  await bed.drive(down);
  assert.is(await typeOf(project), 'cpx32');
  assert.is(bed.actions(id, 'change_type'), 1);
  assert.is(bed.actions(id, 'shutdown'), 1);
  await removed(down);
});

test('a size for which there is no capacity is refused, one that is unavailable is pending', async () => {
  const project = await running('size-faults');
  const { id } = await bed.server(project);
  const isChange = { match: new RegExp(`/servers/${id}${CHANGE_TYPE.source}`), any: true } as const;
  bed.inject(project, { ...isChange, times: 1, status: 412, code: 'resource_unavailable' });
  const first = wanting(project, { resize: { number: 1 } }, { plan: 'pro' });
  const refused = await answered(first, ({ resize }) => resize?.number === 1);
  assert.match(refused.resize?.error ?? '', 'resource_unavailable');
  await bed.drive(first);
  assert.is(await rows(project), 'first');
  await sleep(4_000);
  assert.is(bed.actions(id, 'shutdown'), 1, 'a refused number is not tried again');
  bed.inject(project, { ...isChange, times: 1, status: 503, code: 'service_error' });
  const second = wanting(first, { resize: { number: 2 } });
  const done = await answered(second, ({ resize }) => resize?.number === 2);
  assert.is(done.resize?.error, undefined);
  assert.is(await typeOf(project), 'cpx32');
  await bed.drive(second);
  assert.is(await rows(project), 'first');
  await removed(second);
});

test('an operator that is killed while it changes the size is followed by one that completes it', async () => {
  const project = await running('size-kill');
  const { id } = await bed.server(project);
  let number = 0;
  let wanted = project;
  for (const action of ['shutdown', 'change_type']) {
    bed.requests.length = 0;
    number += 1;
    const plan = number === 1 ? 'pro' : 'enterprise';
    wanted = wanting(wanted, { resize: { number } }, { plan });
    await bed.drive(wanted, () => bed.actions(id, action) > 0);
    await restarted();
    const done = await answered(wanted, ({ resize }) => resize?.number === number);
    assert.is(done.resize?.error, undefined);
    assert.is(await typeOf(project), number === 1 ? 'cpx32' : 'cpx42');
    await bed.drive(wanted);
    assert.is(await rows(project), 'first');
  }
  await removed(wanted);
});

test('a snapshot that is retained is not one of the names, and the names are deleted with the project', async () => {
  const project = await running('retain');
  const wanted = wanting(project, { snapshots: { one: {} } });
  await answered(wanted, isComplete('one'));
  const [named] = await images(project);
  await bed.remove({ ...wanted, retain: true });
  const left = await images(project);
  assert.is(left.length, 1);
  assert.is.not(left[0]?.id, named?.id);
  await bed.call('DELETE', `/images/${left[0]?.id}`);
  assert.equal(await bed.left(project), []);
});

test('a restore replaces the disk by that of the snapshot, and an unknown name changes nothing', async () => {
  const project = await withSnapshot('restore');
  const before = await bed.server(project);
  const identity = 'cat /etc/machine-id /etc/hostname; cat /root/.ssh/authorized_keys | wc -l';
  console.log(`# before: ${await bed.sh(project, identity)}`);
  const unknown = wanting(project, { restore: { number: 1, snapshot: 'two' } });
  const refused = await answered(unknown, isRestored(1));
  assert.match(refused.restore?.error ?? '', /^There is no complete snapshot two\./);
  await bed.drive(unknown);
  assert.is(await rows(project), 'first\nsecond');
  const wanted = wanting(project, { restore: { number: 2, snapshot: 'one' } });
  const seen = new Set<string>();
  await bed.drive(wanted, (outcome) => {
    seen.add(messageOf(outcome));
    return bed.count(CREATE, project) === 2;
  });
  assert.ok([...seen].some((message) => message.startsWith('restoring the snapshot one: ')));
  const answers = await answered(wanted, isRestored(2));
  assert.equal([answers.restore?.error, answers.restore?.snapshot], [undefined, 'one']);
  await isAsInSnapshot(wanted);
  console.log(`# after: ${await bed.sh(project, identity)}`);
  const after = await bed.server(project);
  assert.is.not(after.id, before.id);
  assert.is((await bed.machines.ensure(wanted)).view?.id, String(after.id));
  await restarted();
  await bed.drive(wanted);
  await sleep(4_000);
  assert.is((await bed.server(project)).id, after.id, 'a number is executed once');
  await removed(wanted);
});

test('a machine that was deleted at the provider is restored on request', async () => {
  const project = await withSnapshot('lost');
  const { id } = await bed.server(project);
  await bed.call('DELETE', `/servers/${id}`);
  const lost = await bed.drive(project, isFailed, 90_000);
  assert.match(messageOf(lost), 'POST /projects/{id}/snapshots/one/restore, or delete the project.');
  assert.is((await bed.machines.ensure(project)).answers?.snapshots?.[0]?.state, 'complete');
  const wanted = wanting(project, { restore: { number: 1, snapshot: 'one' } });
  await answered(wanted, isRestored(1));
  await isAsInSnapshot(wanted);
  await removed(wanted);
});

test('an operator that is killed while it restores is followed by one that completes it', async () => {
  const project = await withSnapshot('restore-kill');
  let number = 0;
  const record = async () => (await bed.record(project)) ?? ({} as Record<string, never>);
  const kills: Record<string, (id: number) => Promise<boolean> | boolean> = {
    'the decision is recorded': async () => (await record()).failing === 'restore',
    'the deletion is requested': (id) => bed.requests.some(({ name }) => name === `DELETE /servers/${id}`),
    'the deletion is recorded': async () => (await record()).machineId === undefined,
    'the creation is requested': () => bed.count(CREATE, project) > 0,
    'the creation is recorded': async (id) => ![String(id), undefined].includes((await record()).machineId),
    'the host key is accepted': async (id) => ![String(id), undefined].includes((await record()).pinnedFor),
  };
  for (const [point, isReached] of Object.entries(kills)) {
    const { id } = await bed.server(project);
    await sql(project, "DELETE FROM notes; INSERT INTO notes VALUES ('lost')");
    bed.requests.length = 0;
    number += 1;
    const wanted = wanting(project, { restore: { number, snapshot: 'one' } });
    await bed.drive(wanted, () => true);
    await until(async () => isReached(id), point, 60_000);
    await restarted();
    const current = number;
    const answers = await answered(wanted, isRestored(current));
    assert.is(answers.restore?.error, undefined, point);
    await isAsInSnapshot(wanted);
  }
  await removed(project);
});

test('a restore that fails twice leaves the snapshot, and another number begins anew', async () => {
  const project = await withSnapshot('restore-fails');
  const nossh: Fault = { match: CREATE, times: 2, boot: 'nossh' };
  bed.inject(project, nossh);
  const wanted = wanting(project, { restore: { number: 1, snapshot: 'one' } });
  await bed.drive(wanted, () => true);
  const failed = await bed.drive(wanted, isFailed, 120_000);
  assert.match(messageOf(failed), '2 machines from the snapshot one failed in a row');
  assert.match(messageOf(failed), /The snapshot stays\. .* POST \/projects\/\{id\}\/snapshots\/one\/restore$/);
  const { answers } = await bed.machines.ensure(wanted);
  assert.ok(answers?.restore?.error);
  assert.is(answers?.snapshots?.[0]?.state, 'complete');
  assert.is((await images(project)).length, 1);
  const again = wanting(project, { restore: { number: 2, snapshot: 'one' } });
  await answered(again, isRestored(2));
  await isAsInSnapshot(again);
  await removed(again);
});

test('a restore that the provider refuses for a moment leaves the machine as it is until then', async () => {
  const project = await withSnapshot('restore-waits');
  const { id } = await bed.server(project);
  bed.inject(project, { match: LIST_IMAGES, times: 3, status: 401, code: 'unauthorized' });
  const wanted = wanting(project, { restore: { number: 1, snapshot: 'one' } });
  const problem = async () =>
    (await bed.machines.ensure(wanted)).parts.find(({ condition }) => condition === 'MachineMaintained')?.outcome;
  await until(problem, (outcome) => outcome !== undefined && isFailed(outcome), 30_000);
  assert.is((await bed.server(project)).id, id);
  assert.is(await rows(project), 'first\nsecond');
  await answered(wanted, isRestored(1));
  await isAsInSnapshot(wanted);
  await removed(wanted);
});

maintenance.run();
