/**
 * Tests a snapshot of a dedicated project and its restore over REST: the services work with the data of the snapshot
 * and the credentials of the present, which were rotated in between.
 */
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { Management, type ProjectView } from './management.js';
import { directly } from './network.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { cloudUrl, TestCloud } from './test-cloud.js';
import { clientOf, TODOS_SQL, usedByTwoPeople } from './todos.js';

const MACHINE_MS = 300_000;

const machines = suite('snapshots of a dedicated project');
const test = cloudUrl ? machines : machines.skip;

let cloud: TestCloud;
let platform: RunningPlatform;
let person: Management;

machines.before(async () => {
  if (!cloudUrl) return;
  cloud = new TestCloud();
  platform = await startPlatform(undefined, { ...cloud.settings, SLIPWAY_HCLOUD_SNAPSHOT: 'off' });
  person = await Management.register(platform);
});
machines.after(async () => {
  await platform?.remove();
  await cloud?.close();
});

interface Status {
  status: string;
  message: string;
  rotations?: Record<string, string>;
  machine: { restore: { state: string; error: string | null } | null };
}

const account = (name: string) => ({ email: `${name}@example.com`, password: `a long password of ${name}` });
const signUp = async (project: ProjectView, name: string) =>
  assert.is((await clientOf(project, directly).auth.signUp(account(name))).error, null);
const signInError = async (project: ProjectView, name: string) =>
  (await clientOf(project, directly).auth.signInWithPassword(account(name))).error?.code;

test('a restore brings back rows and accounts, and keeps credentials that were rotated', async () => {
  const { id } = await person.createProject('own', undefined, 'dedicated');
  const project = await person.untilHealthy(id, MACHINE_MS);
  const statusOf = async () => (await person.call<Status>('GET', `/projects/${id}/status`)).body;
  await person.query(id, `${TODOS_SQL} create table notes (text text); insert into notes values ('first');`);
  await signUp(project, 'before');
  assert.is((await person.call('POST', `/projects/${id}/snapshots`, { name: 'one' })).status, 202);
  const messages = new Set<string>();
  const listed = async () => {
    const { status, message } = await statusOf();
    messages.add(`${status}: ${message}`);
    return (await person.call<{ items: { state: string }[] }>('GET', `/projects/${id}/snapshots`)).body.items[0];
  };
  await until(listed, (item) => item?.state === 'complete', MACHINE_MS);
  assert.ok(messages.has('provisioning: making the snapshot one; the machine is off'), [...messages].join('\n'));
  await person.untilHealthy(id, MACHINE_MS);

  await person.query(id, "insert into notes values ('second')");
  await signUp(project, 'after');
  const what = ['jwt_secret', 'database_passwords'];
  assert.is((await person.call('POST', `/projects/${id}/rotate`, { what })).status, 200);
  const isRotated = ({ rotations }: Status) => what.every((each) => rotations?.[each] === 'done');
  await until(statusOf, isRotated, MACHINE_MS);

  assert.is((await person.call('POST', `/projects/${id}/snapshots/one/restore`)).status, 202);
  await until(statusOf, ({ machine }) => machine.restore?.state === 'done', MACHINE_MS);
  const restored = await person.untilHealthy(id, MACHINE_MS);
  assert.is.not(restored.anon_key, project.anon_key);
  const { rows } = await person.query(id, 'select text from notes order by text');
  assert.equal(rows, [{ text: 'first' }]);
  assert.is(await signInError(restored, 'before'), undefined);
  assert.is(await signInError(restored, 'after'), 'invalid_credentials');
  await usedByTwoPeople(restored, directly);

  await person.call('DELETE', `/projects/${id}`);
  await person.untilGone(id);
  assert.equal(await cloud.list('servers'), []);
  assert.equal(await cloud.list('images'), []);
});

machines.run();
