/** Conformance cases of creating and updating: rejections with their messages, and the values that the server sets. */
import * as assert from 'uvu/assert';
import type { Cases } from './suite.js';
import type { Json, RequestOptions } from './target.js';

interface Refusal {
  promise: string;
  method: string;
  path: (at: { configMaps: string; widgets: string; secrets: string }) => string;
  body?: Json;
  options?: RequestOptions;
  code: number;
  reason?: string;
  message: string;
  /** The details of the Status, if the case is about them. */
  details?: Json;
}

/** Requests that both servers must reject. `%ns` stands for the namespace of the run, and `%group` for its group. */
const REFUSALS: readonly Refusal[] = [
  {
    promise: 'a missing object is 404 with its resource and name',
    ...{ method: 'GET', path: (at) => `${at.configMaps}/none`, code: 404, reason: 'NotFound' },
    message: 'configmaps "none" not found',
    details: { name: 'none', kind: 'configmaps' },
  },
  {
    promise: 'a missing custom object is 404 with its group',
    ...{ method: 'GET', path: (at) => `${at.widgets}/none`, code: 404, reason: 'NotFound' },
    message: 'widgets.%group "none" not found',
    details: { name: 'none', group: '%group', kind: 'widgets' },
  },
  {
    promise: 'an unknown resource of a served version is 404 as a Status',
    ...{ method: 'GET', path: () => '/api/v1/foos', code: 404, reason: 'NotFound' },
    message: 'the server could not find the requested resource',
  },
  {
    promise: 'a method is 405 when the resource does not have it',
    ...{ method: 'POST', path: (at) => `${at.configMaps}/x`, body: {}, code: 405, reason: 'MethodNotAllowed' },
    message: 'the server does not allow this method on the requested resource',
  },
  {
    promise: 'a creation with a resourceVersion is refused',
    ...{ method: 'POST', path: (at) => at.configMaps, body: { metadata: { name: 'rv', resourceVersion: '1' } } },
    ...{ code: 500, message: 'resourceVersion should not be set on objects to be created' },
  },
  {
    promise: 'an object is refused when its namespace is not that of the URL',
    ...{ method: 'POST', path: (at) => at.configMaps, body: { metadata: { name: 'x', namespace: 'other' } } },
    ...{ code: 400, reason: 'BadRequest' },
    message: 'the namespace of the provided object does not match the namespace sent on the request',
  },
  {
    promise: 'a name is required',
    ...{ method: 'POST', path: (at) => at.configMaps, body: { metadata: {} }, code: 422, reason: 'Invalid' },
    message: 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
    details: {
      kind: 'ConfigMap',
      causes: [
        {
          reason: 'FieldValueRequired',
          message: 'Required value: name or generateName is required',
          field: 'metadata.name',
        },
      ],
    },
  },
  {
    promise: 'an object is refused when its kind is not that of the resource',
    ...{ method: 'POST', path: (at) => at.configMaps, code: 400, reason: 'BadRequest' },
    body: { kind: 'Secret', apiVersion: 'v1', metadata: { name: 'b' } },
    message:
      'Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown ' +
      'conversion',
  },
  {
    promise: 'a value of the wrong type is refused in a built-in kind',
    ...{ method: 'POST', path: (at) => at.configMaps, body: { metadata: { name: 'z' }, data: { a: 1 } } },
    ...{ code: 400, reason: 'BadRequest' },
    message:
      'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct ' +
      'field ConfigMap.data of type string',
  },
  {
    promise: 'a creation is 404 when its namespace is missing',
    ...{ method: 'POST', path: () => '/api/v1/namespaces/missing-ns/configmaps', body: { metadata: { name: 'x' } } },
    ...{ code: 404, reason: 'NotFound', message: 'namespaces "missing-ns" not found' },
  },
  {
    promise: 'an update is refused when the name is not that of the URL',
    ...{ method: 'PUT', path: (at) => `${at.configMaps}/a`, body: { metadata: { name: 'b' } } },
    ...{ code: 400, reason: 'BadRequest' },
    message: 'the name of the object (b) does not match the name on the URL (a)',
  },
  {
    promise: 'an update is 404 when the object is missing',
    ...{ method: 'PUT', path: (at) => `${at.configMaps}/none`, body: { metadata: { name: 'none' } } },
    ...{ code: 404, reason: 'NotFound', message: 'configmaps "none" not found' },
  },
  {
    promise: 'dryRun accepts only All',
    ...{ method: 'POST', path: (at) => `${at.configMaps}?dryRun=yes`, body: { metadata: { name: 'x' } } },
    ...{ code: 422, reason: 'Invalid' },
    message: 'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["yes"]: supported values: "All"',
  },
  {
    promise: 'strict validation names every unknown field',
    ...{ method: 'POST', path: (at) => `${at.configMaps}?fieldValidation=Strict`, code: 400, reason: 'BadRequest' },
    body: { metadata: { name: 'z', foo: 1 }, zoo: 1 },
    message:
      'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field ' +
      '"metadata.foo", unknown field "zoo"',
  },
  {
    promise: 'the default namespace may not be deleted',
    ...{ method: 'DELETE', path: () => '/api/v1/namespaces/default', code: 403, reason: 'Forbidden' },
    message: 'namespaces "default" is forbidden: this namespace may not be deleted',
  },
  {
    promise: 'a namespace’s name must be a label',
    ...{ method: 'POST', path: () => '/api/v1/namespaces', body: { metadata: { name: 'A_b' } }, code: 422 },
    reason: 'Invalid',
    message:
      'Namespace "A_b" is invalid: metadata.name: Invalid value: "A_b": a lowercase RFC 1123 label must consist ' +
      "of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. " +
      "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
  },
  {
    promise: 'a Secret must have the keys of its type, and valid key names',
    ...{ method: 'POST', path: (at) => at.secrets, code: 422, reason: 'Invalid' },
    body: { metadata: { name: 's' }, data: { 'a b': 'aaaa' }, type: 'kubernetes.io/tls' },
    message:
      'Secret "s" is invalid: [data[a b]: Invalid value: "a b": a valid config key must consist of alphanumeric ' +
      "characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is " +
      "'[-._a-zA-Z0-9]+'), data[tls.crt]: Required value, data[tls.key]: Required value]",
  },
  {
    promise: 'a Secret’s data must be base64',
    ...{ method: 'POST', path: (at) => at.secrets, body: { metadata: { name: 's' }, data: { a: '@@' } } },
    ...{ code: 400, reason: 'BadRequest' },
    message: 'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 0',
  },
  {
    promise: 'a patch of a custom object can’t be strategic',
    ...{ method: 'PATCH', path: (at) => `${at.widgets}/x`, body: {}, code: 415, reason: 'UnsupportedMediaType' },
    options: { type: 'application/strategic-merge-patch+json' },
    message:
      'the body of the request was in an unknown format - accepted media types include: application/json-patch+json, ' +
      'application/merge-patch+json, application/apply-patch+yaml',
  },
  {
    promise: 'an invalid label selector is refused',
    ...{ method: 'GET', path: (at) => `${at.configMaps}?labelSelector=a%3D%3D%3Db`, code: 400, reason: 'BadRequest' },
    message: "unable to parse requirement: found '=', expected: identifier",
  },
  {
    promise: 'a field selector is refused when the custom object has no such selectable field',
    ...{ method: 'GET', path: (at) => `${at.widgets}?fieldSelector=spec.x%3D1`, code: 400, reason: 'BadRequest' },
    message: 'field label not supported: spec.x',
  },
  {
    promise: 'a resourceVersion is refused when it is not a number',
    ...{ method: 'GET', path: (at) => `${at.configMaps}?resourceVersion=abc`, code: 400, reason: 'BadRequest' },
    message:
      'invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: parsing "abc": invalid ' +
      'syntax',
  },
  {
    promise: 'resourceVersionMatch needs a resourceVersion',
    ...{ method: 'GET', path: (at) => `${at.configMaps}?resourceVersionMatch=Exact`, code: 422, reason: 'Invalid' },
    message:
      'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden ' +
      'unless resourceVersion is provided',
  },
  {
    promise: 'a custom object is validated by its schema, with all errors in one response',
    ...{ method: 'POST', path: (at) => at.widgets, code: 422, reason: 'Invalid' },
    body: { apiVersion: '%group/v1', kind: 'Widget', metadata: { name: 'w' }, spec: { size: 0, color: 'green' } },
    message:
      'Widget.%group "w" is invalid: [spec.size: Invalid value: 0: spec.size in body should be greater than or equal ' +
      'to 1, spec.color: Unsupported value: "green": supported values: "red", "blue", <nil>: Invalid value: null: ' +
      'some validation rules were not checked because the object was invalid; correct the existing errors to ' +
      'complete validation]',
  },
  {
    promise: 'a custom object must have its kind',
    ...{ method: 'POST', path: (at) => at.widgets, body: {}, code: 400, reason: 'BadRequest' },
    message: "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in '{}' ({})",
  },
];

/** Sorts the errors of a message, because the real server iterates over maps in random order. */
function errorsOf(message: string | undefined): string[] | undefined {
  const [, head = '', list] = /^(.*? is invalid: )\[(.*)\]$/s.exec(message ?? '') ?? [];
  if (list === undefined) return message === undefined ? undefined : [message];
  return [head, ...list.split(/, (?=[^\s"',]+: )/).sort()];
}

export const writes: Cases = (test, fixture) => {
  const { target, namespace, group, configMap, widget } = fixture;
  const filled = (value: Json): Json =>
    value && JSON.parse(JSON.stringify(value).replaceAll('%group', group).replaceAll('%ns', namespace));

  for (const { promise, method, path, body, options, code, reason, message, details } of REFUSALS) {
    test(promise, async () => {
      const answer = await target.send(method, path(fixture), filled(body), options);
      assert.equal(errorsOf(answer.body?.message), errorsOf(filled(message)));
      assert.is(answer.code, code);
      assert.is(answer.body.code, code);
      assert.is(answer.body.reason, reason);
      assert.is(answer.body.kind, 'Status');
      if (details) assert.equal(answer.body.details, filled(details));
    });
  }

  test('a created object has uid, resourceVersion, creation time and managed fields', async () => {
    const { code, body } = await target.send('POST', fixture.configMaps, configMap('made', { data: { a: '1' } }));
    assert.is(code, 201);
    assert.match(body.metadata.uid, /^[0-9a-f-]{36}$/);
    assert.match(body.metadata.resourceVersion, /^\d+$/);
    assert.match(body.metadata.creationTimestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    const [{ time: _, ...managed }] = body.metadata.managedFields;
    assert.equal(managed, {
      ...{ manager: 'conformance', operation: 'Update', apiVersion: 'v1', fieldsType: 'FieldsV1' },
      fieldsV1: { 'f:data': { '.': {}, 'f:a': {} } },
    });
    const again = await target.send('POST', fixture.configMaps, configMap('made'));
    assert.is(again.code, 409);
    assert.is(again.body.message, 'configmaps "made" already exists');
  });

  test('generateName generates a name', async () => {
    const { body } = await target.send('POST', fixture.configMaps, { metadata: { generateName: 'gen-' } });
    assert.match(body.metadata.name, /^gen-[bcdfghjklmnpqrstvwxz2456789]{5}$/);
  });

  test('a dry run returns the result of the write, and writes nothing', async () => {
    const { code } = await target.send('POST', `${fixture.configMaps}?dryRun=All`, configMap('dry'));
    assert.is(code, 201);
    assert.is((await target.send('GET', `${fixture.configMaps}/dry`)).code, 404);
  });

  test('unknown fields are dropped with a warning', async () => {
    const path = `${fixture.widgets}?fieldValidation=Warn`;
    const { headers, body } = await target.send('POST', path, widget('warned', { size: 1, nope: true }));
    assert.is(headers.warning, '299 - "unknown field \\"spec.nope\\""');
    assert.equal(body.spec, { size: 1, color: 'red' });
  });

  test('an update of an old version is a conflict, and one of the latest version is written', async () => {
    const { body: first } = await target.send('POST', fixture.widgets, widget('updated'));
    const path = `${fixture.widgets}/updated`;
    const next = await target.send('PUT', path, { ...first, spec: { size: 2 } });
    assert.is(next.code, 200);
    assert.is(next.body.metadata.generation, 2);
    const stale = await target.send('PUT', path, { ...first, spec: { size: 3 } });
    assert.is(stale.code, 409);
    assert.is(
      stale.body.message,
      `Operation cannot be fulfilled on widgets.${group} "updated": the object has been modified; please apply your ` +
        'changes to the latest version and try again',
    );
    const { resourceVersion: _, ...metadata } = first.metadata;
    const blind = await target.send('PUT', path, { ...first, metadata });
    assert.is(blind.code, 422);
    assert.is(
      blind.body.message,
      `widgets.${group} "updated" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an ` +
        'update',
    );
  });

  test('an update that changes nothing keeps the resourceVersion', async () => {
    const { body: first } = await target.send('POST', fixture.widgets, widget('same'));
    const { body: second } = await target.send('PUT', `${fixture.widgets}/same`, first);
    assert.is(second.metadata.resourceVersion, first.metadata.resourceVersion);
  });

  test('status and spec are written separately, and only spec changes the generation', async () => {
    const { body: first } = await target.send(
      'POST',
      fixture.widgets,
      widget('apart', { size: 1 }, { status: { phase: 'x' } }),
    );
    assert.is(first.status, undefined);
    const path = `${fixture.widgets}/apart`;
    const change = { ...first, spec: { size: 9 }, status: { phase: 'up' } };
    const { body: second } = await target.send('PUT', `${path}/status`, change);
    assert.equal([second.spec.size, second.status.phase, second.metadata.generation], [1, 'up', 1]);
    const { body: third } = await target.send('PUT', path, { ...second, spec: { size: 5 }, status: { phase: 'down' } });
    assert.equal([third.spec.size, third.status.phase, third.metadata.generation], [5, 'up', 2]);
  });

  test('a rule on the old value refuses a change with the rule’s message', async () => {
    await target.send('POST', fixture.widgets, widget('ruled', { size: 1, fixed: 'a' }));
    const type = 'application/merge-patch+json';
    const { code, body } = await target.send('PATCH', `${fixture.widgets}/ruled`, { spec: { fixed: 'b' } }, { type });
    assert.is(code, 422);
    assert.is(
      body.message,
      `Widget.${group} "ruled" is invalid: spec.fixed: Invalid value: "string": fixed is immutable`,
    );
  });

  test('stringData becomes data, and an immutable Secret can’t be changed', async () => {
    const { body: first } = await target.send('POST', fixture.secrets, {
      ...{ metadata: { name: 'fixed' }, data: { a: 'aaaa' }, stringData: { a: 'x' }, immutable: true },
    });
    assert.equal([first.data, first.type, first.stringData], [{ a: 'eA==' }, 'Opaque', undefined]);
    const change = { metadata: { name: 'fixed' }, data: { a: 'aaaa' }, type: 'x' };
    const { body } = await target.send('PUT', `${fixture.secrets}/fixed`, change);
    assert.is(
      body.message,
      'Secret "fixed" is invalid: [type: Invalid value: "x": field is immutable, immutable: Forbidden: field is ' +
        'immutable when `immutable` is set, data: Forbidden: field is immutable when `immutable` is set]',
    );
  });

  test('a body is 413 when it exceeds the limit', async () => {
    const raw = `{"metadata":{"name":"big"},"data":{"a":"${'a'.repeat(3_200_000)}"}}`;
    const { code, body } = await target.send('POST', fixture.configMaps, undefined, { raw });
    assert.is(code, 413);
    assert.is(body.message, 'Request entity too large: limit is 3145728');
  });

  test('a write is 401 when its token is wrong', async () => {
    const headers = { authorization: 'Bearer wrong' };
    const { code, body } = await target.send('GET', '/api/v1/namespaces', undefined, { anonymous: true, headers });
    assert.is(code, 401);
    const status = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Failure' };
    assert.equal(body, { ...status, message: 'Unauthorized', reason: 'Unauthorized', code: 401 });
  });
};
