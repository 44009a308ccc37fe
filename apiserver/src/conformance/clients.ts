/** Conformance cases of the important clients: kubectl, and informers of client-node. */
import { CustomObjectsApi, makeInformer } from '@kubernetes/client-node';
import * as assert from 'uvu/assert';
import type { Cases } from './suite.js';
import type { Json } from './target.js';

export const clients: Cases = (test, fixture) => {
  const { target, namespace, group, widget } = fixture;
  const kubectl = async (...args: string[]) => {
    const { code, out, err } = await target.kubectl(['--namespace', namespace, ...args]);
    assert.is(code, 0, `kubectl ${args.join(' ')}: ${err}`);
    return out;
  };
  const apply = async (object: Json, ...args: string[]) => {
    const input = JSON.stringify(object);
    const { code, out, err } = await target.kubectl(['--namespace', namespace, 'apply', ...args, '-f', '-'], { input });
    return { code, out, err };
  };
  const resource = `widgets.${group}`;

  test('kubectl apply creates, changes, keeps and validates an object', async () => {
    const shown = `${resource.replace('widgets', 'widget')}/applied`;
    assert.is((await apply(widget('applied'))).out, `${shown} created\n`);
    assert.is((await apply(widget('applied', { size: 2 }))).out, `${shown} configured\n`);
    assert.is((await apply(widget('applied', { size: 2 }))).out, `${shown} unchanged\n`);
    assert.is(
      (await apply(widget('applied', { size: 3 }), '--server-side', '--force-conflicts')).out,
      `${shown} serverside-applied\n`,
    );
    const { code, err } = await apply(widget('applied', { size: 2, nope: 1 }));
    assert.is(code, 1);
    assert.match(err, 'unknown field "spec.nope"');
  });

  test('kubectl get prints the definition’s columns', async () => {
    const out = await kubectl('get', resource, 'applied');
    assert.match(out, /^NAME +SIZE +READY +AGE\napplied +3 +\S+\n$/);
  });

  test('kubectl label, annotate and patch change the object', async () => {
    await kubectl('label', resource, 'applied', 'team=a');
    await kubectl('annotate', resource, 'applied', 'note=b');
    await kubectl(
      'patch',
      resource,
      'applied',
      '--type',
      'json',
      '-p',
      '[{"op":"replace","path":"/spec/size","value":9}]',
    );
    const object = JSON.parse(await kubectl('get', resource, 'applied', '-o', 'json'));
    assert.equal([object.metadata.labels.team, object.metadata.annotations.note, object.spec.size], ['a', 'b', 9]);
  });

  test('kubectl wait sees the condition that a status patch sets', async () => {
    const waiting = kubectl('wait', '--for=condition=Ready', `${resource}/applied`, '--timeout=30s');
    const status = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}';
    await kubectl('patch', resource, 'applied', '--subresource', 'status', '--type', 'merge', '-p', status);
    assert.match(await waiting, 'condition met');
  });

  test('kubectl describe and explain show the object and its kind', async () => {
    assert.match(await kubectl('describe', resource, 'applied'), /Size: +9/);
    assert.match(await kubectl('explain', `${resource}.spec.size`), /The size of the widget\./);
  });

  test('kubectl edit writes the file that the editor saved', async () => {
    const env = { KUBE_EDITOR: 'sed -i s/size:.9/size:\\ 4/' };
    const { code, out, err } = await target.kubectl(['--namespace', namespace, 'edit', resource, 'applied'], { env });
    assert.is(code, 0, err);
    assert.match(out, 'edited');
    assert.is(JSON.parse(await kubectl('get', resource, 'applied', '-o', 'json')).spec.size, 4);
  });

  test('kubectl edit shows the error of an invalid edit', async () => {
    // If the editor changed the file each time, kubectl would open it again and again.
    const env = { KUBE_EDITOR: 'sed -i "s/size: 4$/size: 0/"' };
    const { code, err } = await target.kubectl(['--namespace', namespace, 'edit', resource, 'applied'], { env });
    assert.is(code, 1);
    assert.match(err, 'is invalid');
  });

  test('kubectl explain shows every field, and the built-in kinds', async () => {
    assert.match(await kubectl('explain', resource, '--recursive'), /size\t<integer> -required-/);
    for (const kind of ['namespace', 'secret', 'configmap', 'event', 'lease', 'customresourcedefinition']) {
      assert.match(await kubectl('explain', kind), /metadata\t<ObjectMeta>/, kind);
    }
  });

  test('kubectl apply only warns of an unknown field when --validate is warn', async () => {
    const { code, err } = await apply(widget('warnedof', { size: 1, nope: 1 }), '--validate=warn');
    assert.is(code, 0, err);
    assert.match(err, 'Warning: unknown field "spec.nope"');
  });

  test('kubectl apply --server-side conflicts with another manager unless it is forced', async () => {
    const by = (manager: string, size: number, ...more: string[]) =>
      apply(widget('rival', { size }), '--server-side', `--field-manager=${manager}`, ...more);
    assert.is((await by('a', 1)).code, 0);
    assert.match((await by('b', 2)).err, 'Apply failed with 1 conflict: conflict with "a": .spec.size');
    assert.is((await by('b', 2, '--force-conflicts')).code, 0);
  });

  test('server-side apply takes over an object of client-side apply, and drops fields no longer applied', async () => {
    await apply(widget('moving', { size: 1, tags: ['a'] }));
    const moved = await apply(widget('moving', { size: 2 }), '--server-side', '--force-conflicts');
    assert.is(moved.code, 0, moved.err);
    const { body } = await target.send('GET', `${fixture.widgets}/moving`);
    assert.equal(body.spec, { size: 2, color: 'red' });
    assert.equal(body.metadata.managedFields.map(({ manager, operation }: Json) => `${manager} ${operation}`).sort(), [
      'kubectl Apply',
      'kubectl-last-applied Apply',
    ]);
  });

  test('kubectl apply --dry-run=server returns the result and stores nothing', async () => {
    await apply(widget('rehearsed'));
    const { out } = await apply(widget('rehearsed', { size: 3 }), '--dry-run=server', '-o=json');
    assert.equal(JSON.parse(out).spec, { size: 3, color: 'red' });
    assert.is((await target.send('GET', `${fixture.widgets}/rehearsed`)).body.spec.size, 1);
  });

  test('kubectl patches and applies built-in kinds', async () => {
    await kubectl('create', 'configmap', 'patched', '--from-literal=a=1');
    await kubectl('patch', 'configmap', 'patched', '-p', '{"data":{"b":"2"}}');
    await apply(fixture.configMap('patched', { data: { c: '3' } }), '--server-side');
    const { body } = await target.send('GET', `${fixture.configMaps}/patched`);
    assert.equal(body.data, { a: '1', b: '2', c: '3' });
  });

  test('kubectl create makes namespaces, secrets and config maps, and delete waits for their removal', async () => {
    const name = `${target.run}-kubectl`;
    await kubectl('create', 'namespace', name);
    await kubectl('create', 'secret', 'generic', 'made', '--from-literal=a=b', '--namespace', name);
    await kubectl('create', 'configmap', 'made', '--from-literal=a=b', '--namespace', name);
    assert.match(await kubectl('get', 'secret', 'made', '--namespace', name), /made +Opaque +1/);
    assert.match(await kubectl('describe', 'namespace', name), 'Active');
    await kubectl('delete', 'namespace', name);
    assert.is((await target.send('GET', `/api/v1/namespaces/${name}`)).code, 404);
  });

  test('kubectl api-resources lists the kind', async () => {
    assert.match(await kubectl('api-resources', '--api-group', group), /widgets +wd +\S+ +true +Widget/);
  });

  test('an informer receives the existing objects and each change', async () => {
    const api = target.config.makeApiClient(CustomObjectsApi);
    const at = { group, version: 'v1', namespace, plural: 'widgets' };
    await target.send('POST', fixture.widgets, widget('informed'));
    const path = `/apis/${group}/v1/namespaces/${namespace}/widgets`;
    const informer = makeInformer<Json>(target.config, path, () => api.listNamespacedCustomObject(at));
    const seen: string[] = [];
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const note = (verb: string) => (object: Json) => {
      if (object.metadata.name !== 'informed') return;
      seen.push(`${verb} ${object.spec.size}`);
      if (verb === 'delete') resolve();
    };
    for (const verb of ['add', 'update', 'delete'] as const) informer.on(verb, note(verb));
    const { promise: added, resolve: onAdded } = Promise.withResolvers<void>();
    informer.on('add', (object: Json) => object.metadata.name === 'informed' && onAdded());
    await informer.start();
    await added;
    const { body } = await target.send('GET', `${fixture.widgets}/informed`);
    await target.send('PUT', `${fixture.widgets}/informed`, { ...body, spec: { size: 2 } });
    await target.send('DELETE', `${fixture.widgets}/informed`);
    await done;
    await informer.stop();
    assert.equal(seen, ['add 1', 'update 2', 'delete 2']);
  });
};
