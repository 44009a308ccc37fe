/** Conformance cases of deletion: preconditions, finalizers, owners, namespaces and definitions. */
import * as assert from 'uvu/assert';
import { widgets as definition } from './definition.js';
import type { Cases } from './suite.js';
import type { Json } from './target.js';

const MERGE = { type: 'application/merge-patch+json' };

export const deletion: Cases = (test, fixture) => {
  const { target, configMap, widget, configMaps, widgets, group } = fixture;
  const untilDeleted = (path: string) => target.until(path, ({ code }) => code === 404);
  const owned = (name: string, owner: Json, more: Json = {}) =>
    configMap(name, { metadata: { name, ownerReferences: [{ ...ownerReference(owner), ...more }] } });
  const ownerReference = ({ apiVersion, kind, metadata: { name, uid } }: Json) => ({ apiVersion, kind, name, uid });

  test('a deletion returns the deleted object', async () => {
    const { body: made } = await target.send('POST', widgets, widget('brief'));
    const { code, body } = await target.send('DELETE', `${widgets}/brief`);
    assert.is(code, 200);
    const details = { name: 'brief', group, kind: 'widgets', uid: made.metadata.uid };
    assert.equal(body, { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details });
  });

  test('a deletion conflicts when a precondition is not met', async () => {
    const { body: made } = await target.send('POST', configMaps, configMap('held'));
    const { uid, resourceVersion } = made.metadata;
    const wrongUid = await target.send('DELETE', `${configMaps}/held`, { preconditions: { uid: '1' } });
    assert.is(wrongUid.code, 409);
    assert.is(
      wrongUid.body.message,
      'Operation cannot be fulfilled on ConfigMap "held": the UID in the precondition (1) does not match the UID in ' +
        `record (${uid}). The object might have been deleted and then recreated`,
    );
    const wrongVersion = await target.send('DELETE', `${configMaps}/held`, { preconditions: { resourceVersion: '1' } });
    assert.is(
      wrongVersion.body.message,
      'Operation cannot be fulfilled on ConfigMap "held": the ResourceVersion in the precondition (1) does not match ' +
        `the ResourceVersion in record (${resourceVersion}). The object might have been modified`,
    );
  });

  test('a finalizer keeps a deleted object until it is removed, and none can be added', async () => {
    const metadata = { name: 'final', finalizers: ['a.b/c'] };
    await target.send('POST', widgets, widget('final', { size: 1 }, { metadata }));
    const { body } = await target.send('DELETE', `${widgets}/final`);
    assert.match(body.metadata.deletionTimestamp, /Z$/);
    assert.equal([body.metadata.deletionGracePeriodSeconds, body.metadata.generation], [0, 2]);
    const more = { metadata: { finalizers: ['a.b/c', 'd.e/f'] } };
    const refused = await target.send('PATCH', `${widgets}/final`, more, MERGE);
    assert.is(refused.code, 422);
    assert.match(refused.body.message, /no new finalizers can be added if the object is being deleted/);
    const freed = await target.send('PATCH', `${widgets}/final`, { metadata: { finalizers: null } }, MERGE);
    assert.is(freed.code, 200);
    assert.is((await target.send('GET', `${widgets}/final`)).code, 404);
  });

  test('deletecollection deletes the selected objects', async () => {
    for (const name of ['many-1', 'many-2']) {
      await target.send('POST', configMaps, configMap(name, { metadata: { name, labels: { many: 'yes' } } }));
    }
    const { body } = await target.send('DELETE', `${configMaps}?labelSelector=many%3Dyes`);
    assert.equal([body.kind, body.items.length], ['ConfigMapList', 2]);
    const { body: left } = await target.send('GET', `${configMaps}?labelSelector=many%3Dyes`);
    assert.equal(left.items, []);
  });

  test('dependents are deleted after their owner', async () => {
    const { body: owner } = await target.send('POST', widgets, widget('owner'));
    await target.send('POST', configMaps, owned('dependent', owner));
    await target.send('DELETE', `${widgets}/owner`);
    await untilDeleted(`${configMaps}/dependent`);
  });

  test('a dependent is deleted when its owner does not exist', async () => {
    const absent = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'absent', uid: '00000000-0000-4000-8000-000000000000' },
    };
    await target.send('POST', configMaps, owned('abandoned', absent));
    await untilDeleted(`${configMaps}/abandoned`);
  });

  test('orphaned dependents stay and lose their owner reference', async () => {
    const { body: owner } = await target.send('POST', widgets, widget('parent'));
    await target.send('POST', configMaps, owned('orphan', owner));
    // The collector of the real server gets dependents from its own watch, with a delay.
    await target.until(`${configMaps}/orphan`, ({ code }) => code === 200);
    await target.send('DELETE', `${widgets}/parent`, { propagationPolicy: 'Orphan' });
    await untilDeleted(`${widgets}/parent`);
    const { body } = await target.until(`${configMaps}/orphan`, (answer) => !answer.body.metadata?.ownerReferences);
    assert.is(body.metadata.name, 'orphan');
  });

  test('foreground deletion deletes the owner last', async () => {
    const { body: owner } = await target.send('POST', widgets, widget('last'));
    await target.send('POST', configMaps, owned('first', owner, { blockOwnerDeletion: true }));
    const { body } = await target.send('DELETE', `${widgets}/last`, { propagationPolicy: 'Foreground' });
    assert.equal(body.metadata.finalizers, ['foregroundDeletion']);
    await untilDeleted(`${configMaps}/first`);
    await untilDeleted(`${widgets}/last`);
  });

  test('a terminating namespace accepts no new objects, and all its objects are deleted', async () => {
    const name = `${target.run}-doomed`;
    await target.send('POST', '/api/v1/namespaces', { metadata: { name } });
    const inside = `/api/v1/namespaces/${name}/configmaps`;
    await target.send('POST', inside, configMap('stays', { metadata: { name: 'stays', finalizers: ['a.b/c'] } }));
    await target.send('POST', inside, configMap('goes'));
    const { body } = await target.send('DELETE', `/api/v1/namespaces/${name}`);
    assert.is(body.status.phase, 'Terminating');
    const refused = await target.send('POST', inside, configMap('late'));
    assert.is(refused.code, 403);
    assert.is(
      refused.body.message,
      `configmaps "late" is forbidden: unable to create new content in namespace ${name} because it is being ` +
        'terminated',
    );
    assert.equal(refused.body.details.causes, [
      { reason: 'NamespaceTerminating', message: `namespace ${name} is being terminated`, field: 'metadata.namespace' },
    ]);
    await untilDeleted(`${inside}/goes`);
    const { body: held } = await target.until(`/api/v1/namespaces/${name}`, (answer) =>
      answer.body.status.conditions?.some(
        ({ type, status }: Json) => type === 'NamespaceFinalizersRemaining' && status === 'True',
      ),
    );
    const condition = held.status.conditions.find(({ type }: Json) => type === 'NamespaceFinalizersRemaining');
    assert.is(
      condition.message,
      'Some content in the namespace has finalizers remaining: a.b/c in 1 resource instances',
    );
    await target.send('PATCH', `${inside}/stays`, { metadata: { finalizers: null } }, MERGE);
    await untilDeleted(`/api/v1/namespaces/${name}`);
  });

  test('a deleted definition deletes its objects', async () => {
    const other = `other.${group}`;
    const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
    await target.send('POST', definitions, definition(other));
    const path = `${definitions}/widgets.${other}`;
    const { body } = await target.until(path, (answer) =>
      answer.body.status.conditions?.some(({ type, status }: Json) => type === 'Established' && status === 'True'),
    );
    assert.equal(body.status.storedVersions, ['v1']);
    const objects = `/apis/${other}/v1/namespaces/${fixture.namespace}/widgets`;
    await target.until(objects, ({ code }) => code === 200);
    await target.send('POST', objects, { ...widget('x'), apiVersion: `${other}/v1` });
    await target.send('DELETE', path);
    await untilDeleted(path);
    await untilDeleted(objects);
  });
};
