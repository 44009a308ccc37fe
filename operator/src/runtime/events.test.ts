import { isConflict, type KubeObject } from '@slipway/kubernetes';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { deleteAndWait, silentLog, startTestKubernetes, type TestKubernetes } from '../testing.js';
import { EventRecorder } from './events.js';
import { addFinalizer, hasFinalizer, removeFinalizer } from './finalizers.js';

const EVENTS = '/api/v1/namespaces/default/events';
const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps';

interface EventObject extends KubeObject {
  reason: string;
  count: number;
  message: string;
  involvedObject: { uid: string };
}

const test = suite<{ kubernetes: TestKubernetes; object: KubeObject }>('events and finalizers');

test.before(async (context) => {
  context.kubernetes = await startTestKubernetes();
  context.object = await context.kubernetes.client.create<KubeObject>(CONFIG_MAPS, {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: `events-${process.pid}` },
  });
});
test.after(async ({ kubernetes, object }) => {
  await deleteAndWait(kubernetes.client, `${CONFIG_MAPS}/${object.metadata.name}`);
  await kubernetes.close();
});

const eventsOf = async ({ client }: TestKubernetes, { metadata }: KubeObject) => {
  const { items } = await client.get<{ items: EventObject[] }>(EVENTS);
  return items.filter(({ involvedObject }) => involvedObject.uid === metadata.uid);
};

test('a repeated message raises the count of its Event, and another message is a new Event', async ({
  kubernetes,
  object,
}) => {
  const recorder = new EventRecorder({ client: kubernetes.client, component: 'test', log: silentLog });
  for (let i = 0; i < 3; i++) recorder.record(object, 'Normal', 'Same', 'again');
  recorder.record(object, 'Warning', 'Other', 'once');
  await recorder.close();
  const counts = (await eventsOf(kubernetes, object)).map(({ reason, count }) => `${reason} ${count}`);
  assert.equal(counts.sort(), ['Other 1', 'Same 3']);
});

test('Events of one object are limited in number', async ({ kubernetes, object }) => {
  const recorder = new EventRecorder({ client: kubernetes.client, component: 'test', log: silentLog });
  for (let i = 0; i < 100; i++) recorder.record(object, 'Normal', 'Flood', `message ${i}`);
  await recorder.close();
  const flood = (await eventsOf(kubernetes, object)).filter(({ reason }) => reason === 'Flood');
  assert.is(flood.length, 25);
});

test('an Event is created again when it has expired', async ({ kubernetes, object }) => {
  const recorder = new EventRecorder({ client: kubernetes.client, component: 'test', log: silentLog });
  recorder.record(object, 'Normal', 'Expired', 'kept for an hour');
  await recorder.close();
  for (const { metadata, reason } of await eventsOf(kubernetes, object)) {
    if (reason === 'Expired') await kubernetes.client.delete(`${EVENTS}/${metadata.name}`);
  }
  recorder.record(object, 'Normal', 'Expired', 'kept for an hour');
  await recorder.close();
  const again = (await eventsOf(kubernetes, object)).filter(({ reason }) => reason === 'Expired');
  assert.equal(
    again.map(({ count }) => count),
    [1],
  );
});

test('a finalizer is added beside others, and a concurrent change causes a conflict', async ({
  kubernetes,
  object,
}) => {
  const path = `${CONFIG_MAPS}/${object.metadata.name}`;
  const first = await addFinalizer(kubernetes.client, path, object, 'example.com/one');
  const both = await addFinalizer(kubernetes.client, path, first, 'example.com/two');
  assert.ok(hasFinalizer(both, 'example.com/one') && hasFinalizer(both, 'example.com/two'));
  const stale = await removeFinalizer(kubernetes.client, path, first, 'example.com/one').catch((error) => error);
  assert.ok(isConflict(stale));
  const one = await removeFinalizer(kubernetes.client, path, both, 'example.com/two');
  const none = await removeFinalizer(kubernetes.client, path, one, 'example.com/one');
  assert.equal(none.metadata.finalizers ?? [], []);
});

test.run();
