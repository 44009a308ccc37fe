import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { errorText, invalid, validateCustomResourceDefinition, validateObjectMeta } from './index.js';
import { changed, definition, REJECTED_DEFINITIONS, REJECTED_METADATA } from './rejected-objects.js';

test('a CustomResourceDefinition is rejected with the errors in the table', () => {
  for (const { definition: made, refused } of REJECTED_DEFINITIONS) {
    assert.equal(validateCustomResourceDefinition(made).map(errorText).sort(), refused, JSON.stringify(made.spec));
  }
});

test('a CustomResourceDefinition must have exactly one storage version', () => {
  const none = changed(({ spec }) => Object.assign(spec.versions[0] ?? {}, { storage: false }));
  assert.match(validateCustomResourceDefinition(none).map(errorText).join(), 'must have exactly one version marked');
});

test('group, names and scope of a CustomResourceDefinition are immutable', () => {
  const after = changed(({ spec }) => Object.assign(spec, { scope: 'Namespaced' }));
  assert.equal(validateCustomResourceDefinition(after, definition()).map(errorText), [
    'spec.scope: Invalid value: "Namespaced": field is immutable',
  ]);
});

test('metadata is rejected with the errors in the table', () => {
  for (const { metadata, refused } of REJECTED_METADATA) {
    const errors = validateObjectMeta({ namespace: 'default', ...metadata }, { namespaced: true });
    assert.equal(errors.map(errorText).sort(), refused, JSON.stringify(metadata).slice(0, 200));
  }
});

test('a 422 names the object, and each cause once', () => {
  const error = { type: 'FieldValueRequired' as const, field: 'spec.a', detail: '' };
  assert.equal(invalid({ group: 'x.dev', kind: 'Thing' }, 'a', [error]), {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: 'Thing.x.dev "a" is invalid: spec.a: Required value',
    reason: 'Invalid',
    details: {
      name: 'a',
      group: 'x.dev',
      kind: 'Thing',
      causes: [{ reason: 'FieldValueRequired', message: 'Required value', field: 'spec.a' }],
    },
    code: 422,
  });
});

test.run();
