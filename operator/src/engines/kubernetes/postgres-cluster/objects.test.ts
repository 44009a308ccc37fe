import { readSite } from '@slipway/installation';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { markedNamespace } from '../isolation/namespace.js';
import { cloudNativePgObjects, outcomeOfCloudNativePg } from './cloudnative-pg.js';
import type { ClusterRequest } from './cluster.js';
import { parametersOf } from './parameters.js';
import { ownPlace, placeOf, sharedPlace } from './place.js';
import { isSettled, type StatefulSet, statefulSetObjects } from './stateful-set.js';
import { superuserPassword } from './superuser-password.js';

const test = suite('the objects of a Postgres cluster');
const MEBI = 2 ** 20;
const megabytes = (setting: string | undefined) => Number(setting?.replace(/MB$/, ''));

for (const [memory, storage] of [
  ['64Mi', '1Gi'],
  ['192Mi', '1Gi'],
  ['512Mi', '10Gi'],
  ['4Gi', '1Ti'],
] as const) {
  test(`the settings of Postgres leave room in memory and on the volume with ${memory} and ${storage}`, () => {
    const parameters = parametersOf({ memory, storage, shared: true });
    const bytes = { Mi: MEBI, Gi: 2 ** 30, Ti: 2 ** 40 };
    const sizeOf = (text: string) => (Number.parseInt(text, 10) * bytes[text.slice(-2) as keyof typeof bytes]) / MEBI;
    assert.ok(megabytes(parameters.shared_buffers) * 4 <= sizeOf(memory));
    const connections = Number(parameters.max_connections);
    assert.ok(connections === 20 || connections * 5 + megabytes(parameters.shared_buffers) < sizeOf(memory));
    const reserved = Number(parameters.superuser_reserved_connections) + Number(parameters.reserved_connections);
    assert.ok(reserved > connections / 4 && reserved < connections / 2, String(reserved));
    const log = megabytes(parameters.max_slot_wal_keep_size) + megabytes(parameters.max_wal_size);
    assert.ok(log <= sizeOf(storage) / 3, String(log));
    assert.ok(megabytes(parameters.max_wal_size) >= 32);
  });
}

const site = readSite('publicUrl: http://slipway.test');
const request = (more: Partial<ClusterRequest> = {}): ClusterRequest => ({
  place: ownPlace({ ref: 'first', uid: 'uid', retain: false }),
  size: site.sharedDatabase,
  suspended: false,
  password: 'never-in-a-pod',
  site,
  ...more,
});

test('a project has a Postgres in its namespace if its plan has one, and otherwise uses its region’s', () => {
  const project = { ref: 'first', uid: 'uid', region: 'us-east' as const, retain: false };
  assert.equal(placeOf({ ...project, plan: 'free' }, site), { namespace: 'slipway-data', name: 'shared-us-east' });
  assert.equal(placeOf({ ...project, plan: 'pro' }, site), ownPlace(project));
});

test('the log of a server is records of its collector, at the pipes that the container reads', () => {
  const objects = statefulSetObjects(request(), undefined) as unknown as {
    data?: Record<string, string>;
    spec?: { template?: { spec: { containers: [{ command: string[]; volumeMounts: { mountPath: string }[] }] } } };
  }[];
  const settings = objects.map(({ data }) => data?.['postgresql.conf'] ?? '').join('');
  for (const line of ["logging_collector = 'on'", "log_destination = 'jsonlog'", "log_filename = 'server.log'"]) {
    assert.ok(settings.includes(`${line}\n`), line);
  }
  const [, folder = ''] = /^log_directory = '(.*)'$/m.exec(settings) ?? [];
  const container = objects.flatMap(({ spec }) => spec?.template?.spec.containers ?? [])[0];
  assert.ok(
    container?.volumeMounts.some(({ mountPath }) => mountPath === folder),
    folder,
  );
  assert.match(container?.command[2] ?? '', `for log in ${folder}/server.log ${folder}/server.json; do`);
});

test('a superuser’s password is only in the Secret, differs for each cluster, and never changes', () => {
  for (const objects of [statefulSetObjects(request(), undefined), cloudNativePgObjects(request(), undefined)]) {
    const [, ...others] = objects;
    assert.not.match(JSON.stringify(others), /never-in-a-pod/);
  }
  const shared = sharedPlace('eu-central');
  assert.is(superuserPassword('key', shared), superuserPassword('key', shared));
  assert.is.not(superuserPassword('key', shared), superuserPassword('key', sharedPlace('eu-west')));
  assert.is.not(superuserPassword('key', shared), superuserPassword('other', shared));
});

test('a Project owns the objects of its own Postgres, and nobody owns the objects of a shared Postgres', () => {
  for (const { metadata } of statefulSetObjects(request(), undefined)) {
    assert.equal(
      metadata.ownerReferences?.map(({ kind, uid }) => [kind, uid]),
      [['Project', 'uid']],
    );
  }
  for (const { metadata } of statefulSetObjects(request({ place: sharedPlace('eu-west') }), undefined)) {
    assert.is(metadata.ownerReferences, undefined);
  }
});

test('objects with the data of a project that retains it have no owner, so they are not garbage collected', () => {
  const retained = request({ place: ownPlace({ ref: 'first', uid: 'uid', retain: true }) });
  const ownerless = (objects: ReturnType<typeof statefulSetObjects>) =>
    objects.filter(({ metadata }) => metadata.ownerReferences === undefined).map(({ kind }) => kind);
  assert.equal(ownerless(cloudNativePgObjects(retained, undefined)), ['Secret', 'Cluster']);
  assert.equal(ownerless(statefulSetObjects(retained, undefined)), ['Secret']);
  for (const { metadata } of statefulSetObjects(retained, undefined))
    assert.is(metadata.labels?.['slipway.dev/project'], 'first');
  const marked = (retain: boolean) =>
    markedNamespace({ ref: 'first', uid: 'uid', retain }, 'postgres.p-first.svc').metadata.ownerReferences;
  assert.equal([marked(true), marked(false)?.length], [undefined, 1]);
});

test('a StatefulSet keeps its volume claims when a site changes the volume size, which is immutable', () => {
  const setOf = (objects: object[]) => objects.at(-1) as StatefulSet;
  const made = setOf(statefulSetObjects(request(), undefined));
  const larger = request({
    size: { ...site.sharedDatabase, storage: '100Gi' },
    site: { ...site, storageClass: 'fast' },
  });
  const later = setOf(statefulSetObjects(larger, made));
  assert.equal(later.spec?.volumeClaimTemplates, made.spec?.volumeClaimTemplates);
});

test('a cluster is settled once a server is ready, and a suspended cluster once no server is left', () => {
  const set = (status: NonNullable<StatefulSet['status']>): StatefulSet => ({ metadata: { name: 'postgres' }, status });
  assert.not(isSettled(undefined, false));
  assert.not(isSettled(undefined, true));
  assert.not(isSettled(set({ replicas: 1 }), false));
  assert.ok(isSettled(set({ replicas: 1, readyReplicas: 1 }), false));
  assert.not(isSettled(set({ replicas: 1, readyReplicas: 1 }), true));
  assert.ok(isSettled(set({}), true));
});

test('the outcome quotes CloudNativePG until an instance is ready', () => {
  const status = { phase: 'Setting up primary', phaseReason: 'Creating primary instance postgres-1' };
  const outcome = outcomeOfCloudNativePg({ metadata: { name: 'postgres' }, status }, false);
  assert.match(outcome.state === 'progressing' ? outcome.message : '', /Setting up primary: Creating primary instance/);
  const ready = { metadata: { name: 'postgres' }, status: { ...status, readyInstances: 1 } };
  assert.is(outcomeOfCloudNativePg(ready, false).state, 'ready');
  assert.is(outcomeOfCloudNativePg(ready, true).state, 'progressing');
  assert.is(outcomeOfCloudNativePg(undefined, true).state, 'progressing');
});

test.run();
