/** Conformance cases of the four kinds of patch. */
import * as assert from 'uvu/assert';
import type { Cases } from './suite.js';

const MERGE = { type: 'application/merge-patch+json' };
const JSON_PATCH = { type: 'application/json-patch+json' };
const STRATEGIC = { type: 'application/strategic-merge-patch+json' };
const APPLY = { type: 'application/apply-patch+yaml' };

export const patches: Cases = (test, fixture) => {
  const { target, configMap, widget } = fixture;
  const path = (name: string) => `${fixture.configMaps}/${name}`;

  test('a merge patch sets fields, removes fields by null, and keeps the rest', async () => {
    await target.send('POST', fixture.configMaps, configMap('merge', { data: { a: '1', b: '2' } }));
    const { code, body } = await target.send('PATCH', path('merge'), { data: { a: null, c: '3' } }, MERGE);
    assert.is(code, 200);
    assert.equal(body.data, { b: '2', c: '3' });
  });

  test('a JSON patch applies its operations in order, or none', async () => {
    await target.send('POST', fixture.configMaps, configMap('json', { data: { a: '1' } }));
    const good = [
      { op: 'test', path: '/data/a', value: '1' },
      { op: 'add', path: '/data/x.y', value: '2' },
      { op: 'move', from: '/data/a', path: '/data/b' },
    ];
    const { body } = await target.send('PATCH', path('json'), good, JSON_PATCH);
    assert.equal(body.data, { 'x.y': '2', b: '1' });
    const bad = [
      { op: 'add', path: '/data/c', value: '1' },
      { op: 'remove', path: '/data/none' },
    ];
    const refused = await target.send('PATCH', path('json'), bad, JSON_PATCH);
    assert.is(refused.code, 422);
    assert.is(refused.body.message, 'the server rejected our request due to an error in our request');
    assert.is((await target.send('GET', path('json'))).body.data?.c, undefined);
  });

  test('a strategic patch merges finalizers and replaces other lists', async () => {
    await target.send(
      'POST',
      fixture.configMaps,
      configMap('strategic', { metadata: { name: 'strategic', finalizers: ['a.b/c'] } }),
    );
    const { body } = await target.send('PATCH', path('strategic'), { metadata: { finalizers: ['d.e/f'] } }, STRATEGIC);
    assert.equal([...body.metadata.finalizers].sort(), ['a.b/c', 'd.e/f']);
    const gone = { metadata: { '$deleteFromPrimitiveList/finalizers': ['a.b/c', 'd.e/f'] } };
    const { body: free } = await target.send('PATCH', path('strategic'), gone, STRATEGIC);
    assert.is(free.metadata.finalizers, undefined);
  });

  test('a patch conflicts when its resourceVersion is old', async () => {
    await target.send('POST', fixture.configMaps, configMap('old'));
    const { code } = await target.send('PATCH', path('old'), { metadata: { resourceVersion: '1' } }, MERGE);
    assert.is(code, 409);
  });

  test('server-side apply creates, owns, conflicts, forces, and drops fields that are no longer applied', async () => {
    const at = (manager: string, force = false) => `${fixture.widgets}/ssa?fieldManager=${manager}&force=${force}`;
    const first = await target.send('PATCH', at('one'), widget('ssa', { size: 1, tags: ['a'] }), APPLY);
    assert.is(first.code, 201);
    const other = await target.send('PATCH', at('two'), widget('ssa', { size: 2 }), APPLY);
    assert.is(other.code, 409);
    assert.is(other.body.message, 'Apply failed with 1 conflict: conflict with "one": .spec.size');
    const forced = await target.send('PATCH', at('two', true), widget('ssa', { size: 2 }), APPLY);
    assert.is(forced.body.spec.size, 2);
    const { body } = await target.send('PATCH', at('one'), widget('ssa', {}), APPLY);
    assert.equal(body.spec, { size: 2, color: 'red' });
  });

  test('server-side apply requires the field manager', async () => {
    const { code, body } = await target.send('PATCH', `${fixture.widgets}/who`, widget('who'), APPLY);
    assert.is(code, 422);
    assert.is(
      body.message,
      'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
    );
  });

  test('an apply that changes nothing keeps the resourceVersion', async () => {
    const at = `${fixture.widgets}/idle?fieldManager=one`;
    const { body: first } = await target.send('PATCH', at, widget('idle'), APPLY);
    const { body: second } = await target.send('PATCH', at, widget('idle'), APPLY);
    assert.is(second.metadata.resourceVersion, first.metadata.resourceVersion);
  });
};
