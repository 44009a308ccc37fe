/** Conformance cases of lists, selectors, pages, tables and watches. */
import * as assert from 'uvu/assert';
import type { Cases } from './suite.js';
import type { Json } from './target.js';

const names = (body: Json): string[] => body.items.map((item: Json) => item.metadata.name);
const TABLE = { headers: { accept: 'application/json;as=Table;v=v1;g=meta.k8s.io' } };

export const reads: Cases = (test, fixture) => {
  const { target, configMap, widget, configMaps, widgets } = fixture;
  const labelled = (name: string, labels: Json) => configMap(name, { metadata: { name, labels } });

  test('label selectors select objects, also by sets', async () => {
    for (const [name, labels] of Object.entries({
      s1: { t: 'a', set: 's' },
      s2: { t: 'b', set: 's' },
      s3: { set: 's' },
    })) {
      await target.send('POST', configMaps, labelled(name, labels));
    }
    const cases: Record<string, string[]> = {
      'set=s': ['s1', 's2', 's3'],
      'set=s,t': ['s1', 's2'],
      'set=s,!t': ['s3'],
      'set=s,t=a': ['s1'],
      'set==s,t!=a': ['s2', 's3'],
      'set in (s),t in (a,b)': ['s1', 's2'],
      'set=s,t notin (a)': ['s2', 's3'],
    };
    for (const [selector, expected] of Object.entries(cases)) {
      const { body } = await target.send('GET', `${configMaps}?labelSelector=${encodeURIComponent(selector)}`);
      assert.equal(names(body), expected, selector);
    }
  });

  test('field selectors select objects by name', async () => {
    const { body } = await target.send('GET', `${configMaps}?fieldSelector=metadata.name%3Ds1`);
    assert.equal(names(body), ['s1']);
  });

  test('pages of a list continue after the previous page, at the first page’s revision', async () => {
    const selected = `${configMaps}?labelSelector=set%3Ds&limit=2`;
    const { body: first } = await target.send('GET', selected);
    assert.equal(names(first), ['s1', 's2']);
    await target.send('POST', configMaps, labelled('s4', { set: 's' }));
    const { body: second } = await target.send('GET', `${selected}&continue=${first.metadata.continue}`);
    assert.equal(names(second), ['s3']);
    assert.is(second.metadata.resourceVersion, first.metadata.resourceVersion);
    assert.not(second.metadata.continue);
  });

  test('a table has the definition’s columns', async () => {
    await target.send('POST', widgets, widget('table', { size: 7 }));
    const { body } = await target.send('GET', `${widgets}/table`, undefined, TABLE);
    assert.equal(
      body.columnDefinitions.map(({ name, type }: Json) => [name, type]),
      [
        ['Name', 'string'],
        ['Size', 'integer'],
        ['Ready', 'string'],
        ['Age', 'date'],
      ],
    );
    assert.equal(body.rows[0].cells.slice(0, 3), ['table', 7, null]);
    assert.is(body.rows[0].object.kind, 'PartialObjectMetadata');
  });

  test('tables of built-in kinds have the same columns', async () => {
    const cases: Record<string, string[]> = {
      '/api/v1/namespaces': ['Name', 'Status', 'Age'],
      [configMaps]: ['Name', 'Data', 'Age'],
      [fixture.secrets]: ['Name', 'Type', 'Data', 'Age'],
      '/apis/coordination.k8s.io/v1/leases': ['Name', 'Holder', 'Age'],
      '/apis/apiextensions.k8s.io/v1/customresourcedefinitions': ['Name', 'Created At'],
      '/api/v1/events': [
        ...['Last Seen', 'Type', 'Reason', 'Object', 'Subobject', 'Source', 'Message', 'First Seen', 'Count', 'Name'],
      ],
    };
    for (const [path, expected] of Object.entries(cases)) {
      const { body } = await target.send('GET', path, undefined, TABLE);
      assert.equal(
        body.columnDefinitions.map(({ name }: Json) => name),
        expected,
        path,
      );
    }
  });

  test('a watch sends each change since its version, or first the existing objects when it has none', async () => {
    const { body: list } = await target.send('GET', widgets);
    const selector = 'fieldSelector=metadata.name%3Dwatched';
    const path = `${widgets}?watch=1&resourceVersion=${list.metadata.resourceVersion}&${selector}`;
    const events = await target.watch(
      path,
      (seen) => seen.length === 3,
      async () => {
        const { body } = await target.send('POST', widgets, widget('watched'));
        await target.send('PUT', `${widgets}/watched`, { ...body, spec: { size: 2 } });
        await target.send('DELETE', `${widgets}/watched`);
      },
    );
    assert.equal(
      events.map(({ type, object }) => [type, object.spec.size]),
      [
        ['ADDED', 1],
        ['MODIFIED', 2],
        ['DELETED', 2],
      ],
    );
    const versions = events.map(({ object }) => Number(object.metadata.resourceVersion));
    assert.equal(
      versions,
      [...versions].sort((a, b) => a - b),
    );
    assert.is(new Set(versions).size, 3);
    const again = await target.watch(path, (seen) => seen.length === 3);
    assert.equal(again, events);
  });

  test('a watch reports an object as deleted when it stops matching the selector', async () => {
    const { body: made } = await target.send('POST', configMaps, labelled('leaves', { in: 'yes' }));
    const path = `${configMaps}?watch=1&labelSelector=in%3Dyes&resourceVersion=${made.metadata.resourceVersion}`;
    const events = await target.watch(
      path,
      (seen) => seen.length === 1,
      () => target.send('PUT', `${configMaps}/leaves`, labelled('leaves', { in: 'no' })),
    );
    assert.is(events[0]?.type, 'DELETED');
  });

  test('initial events end with a bookmark that marks their end', async () => {
    const query = 'watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true';
    const path = `${configMaps}?${query}&fieldSelector=metadata.name%3Ds1`;
    const events = await target.watch(path, (seen) => seen.at(-1)?.type === 'BOOKMARK');
    assert.equal(
      events.map(({ type }) => type),
      ['ADDED', 'BOOKMARK'],
    );
    assert.is(events[1]?.object.metadata.annotations['k8s.io/initial-events-end'], 'true');
  });

  test('a watch ends after timeoutSeconds', async () => {
    const events = await target.watch(`${configMaps}?watch=1&timeoutSeconds=1&labelSelector=none%3Dever`, () => false);
    assert.equal(events, []);
  });

  test('discovery names the kinds with their verbs and short names', async () => {
    const { body } = await target.send('GET', `/apis/${fixture.group}/v1`);
    const [main, status] = body.resources;
    assert.equal(
      [main.name, main.singularName, main.namespaced, main.kind, main.shortNames],
      ['widgets', 'widget', true, 'Widget', ['wd']],
    );
    assert.equal([...main.verbs].sort(), [
      'create',
      'delete',
      'deletecollection',
      'get',
      'list',
      'patch',
      'update',
      'watch',
    ]);
    assert.equal([status.name, [...status.verbs].sort()], ['widgets/status', ['get', 'patch', 'update']]);
    const { body: groups } = await target.send('GET', '/apis');
    assert.ok(groups.groups.some(({ name }: Json) => name === fixture.group));
  });

  test('health endpoints answer without a token', async () => {
    for (const path of ['/healthz', '/livez', '/readyz']) {
      const { code, text } = await target.send('GET', path, undefined, { anonymous: true });
      assert.equal([code, text], [200, 'ok'], path);
    }
  });
};
