/** Schemas of `spec` in a CustomResourceDefinition, and the errors that a real kube-apiserver reports for them. */
import type { JsonObject } from './json-schema.js';

/** Path of the schema in errors, and path of its first rule. */
const SPEC = 'spec.validation.openAPIV3Schema.properties[spec]';
const RULE = `${SPEC}.x-kubernetes-validations[0]`;

/** Returns a rule as an error prints it. `rule` is escaped for JSON. */
const printed = (rule: string, messageExpression = ''): string =>
  `{"Rule":"${rule}","Message":"","MessageExpression":"${messageExpression}",` +
  '"Reason":null,"FieldPath":"","OptionalOldSelf":null}';

export const SCHEMA_CASES: readonly { spec: JsonObject; refused: string[] }[] = [
  {
    spec: { properties: { a: {} } },
    refused: [
      `${SPEC}.properties[a].type: Required value: must not be empty for specified object fields`,
      `${SPEC}.type: Required value: must not be empty for specified object fields`,
    ],
  },
  {
    spec: { type: 'object', properties: { a: { type: 'foo' } } },
    refused: [
      `${SPEC}.properties[a].type: Unsupported value: ` +
        '"foo": supported values: "array", "boolean", "integer", "number", "object", "string"',
    ],
  },
  {
    spec: { type: 'array' },
    refused: [`${SPEC}.items: Required value: must be specified`],
  },
  {
    spec: { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: { type: 'string' } },
    refused: [`${SPEC}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive`],
  },
  { spec: { type: 'object', additionalProperties: false }, refused: [] },
  {
    spec: { type: 'array', uniqueItems: true, items: { type: 'string' } },
    refused: [
      `${SPEC}.uniqueItems: Forbidden: ` +
        'uniqueItems cannot be set to true since the runtime complexity becomes quadratic',
    ],
  },
  {
    spec: { type: 'string', pattern: '[' },
    refused: [
      `${SPEC}.pattern: Invalid value: ` +
        `"[": must be a valid regular expression, but isn't: error parsing regexp: missing closing ]: \`[\``,
    ],
  },
  {
    spec: { type: 'string', pattern: '(?=a)' },
    refused: [
      `${SPEC}.pattern: Invalid value: ` +
        `"(?=a)": must be a valid regular expression, but isn't: error parsing regexp: invalid or unsupported ` +
        'Perl syntax: `(?=`',
    ],
  },
  {
    spec: { type: 'string', default: 3 },
    refused: [`${SPEC}.default: Invalid value: "integer":  in body must be of type string: "integer"`],
  },
  {
    spec: { type: 'object', properties: { a: { type: 'string' } }, default: { b: 1 } },
    refused: [`${SPEC}.default: Invalid value: {"b":1}: must not have unknown fields`],
  },
  {
    spec: { type: 'string', anyOf: [{ type: 'string' }] },
    refused: [`${SPEC}.anyOf[0].type: Forbidden: must be empty to be structural`],
  },
  {
    spec: { type: 'string', anyOf: [{ description: 'x' }] },
    refused: [`${SPEC}.anyOf[0].description: Forbidden: must be empty to be structural`],
  },
  { spec: { type: 'object', anyOf: [{ properties: { z: { pattern: 'a' } } }] }, refused: [] },
  { spec: { type: 'object', nullable: true }, refused: [] },
  {
    spec: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      items: { type: 'object', properties: { a: { type: 'string' } } },
    },
    refused: [`${SPEC}.x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map`],
  },
  {
    spec: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['z'],
      items: { type: 'object', properties: { a: { type: 'string' } } },
    },
    refused: [`${SPEC}.x-kubernetes-list-map-keys: Invalid value: ["z"]: entries must all be names of item properties`],
  },
  {
    spec: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['a'],
      items: { type: 'object', properties: { a: { type: 'string' } } },
    },
    refused: [
      `${SPEC}.items.properties[a].default: Required value: ` +
        'this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property',
    ],
  },
  {
    spec: { type: 'array', 'x-kubernetes-list-type': 'foo', items: { type: 'string' } },
    refused: [`${SPEC}.x-kubernetes-list-type: Unsupported value: "foo": supported values: "atomic", "set", "map"`],
  },
  {
    spec: { type: 'object', 'x-kubernetes-list-type': 'set' },
    refused: [`${SPEC}.type: Invalid value: "object": must be array if x-kubernetes-list-type is specified`],
  },
  {
    spec: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'object', properties: {} } },
    refused: [
      `${SPEC}.items.x-kubernetes-map-type: Invalid value: ` +
        'null: must be atomic as item of a list with x-kubernetes-list-type=set',
    ],
  },
  {
    spec: { $ref: '#/x' },
    refused: [`${SPEC}.$ref: Forbidden: $ref is not supported`],
  },
  { spec: { type: 'string', 'x-kubernetes-int-or-string': true }, refused: [] },
  {
    spec: { type: 'object', 'x-kubernetes-embedded-resource': true },
    refused: [
      `${SPEC}.properties: Required value: ` +
        'must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields',
    ],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'self.foo == 1' }],
    },
    refused: [
      `${RULE}.rule: Invalid value: ${printed('self.foo == 1')}: ` +
        "compilation failed: ERROR: <input>:1:5: undefined field 'foo'\n | self.foo == 1\n | ....^",
    ],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'self.a' }],
    },
    refused: [`${RULE}.rule: Invalid value: ${printed('self.a')}: cel expression must evaluate to a bool`],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'self.a + 1 == 2' }],
    },
    refused: [
      `${RULE}.rule: Invalid value: ${printed('self.a + 1 == 2')}: ` +
        "compilation failed: ERROR: <input>:1:8: found no matching overload for '_+_' applied to '(string, " +
        "int)'\n | self.a + 1 == 2\n | .......^",
    ],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: '' }],
    },
    refused: [`${RULE}.rule: Required value: rule is not specified`],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'true', fieldPath: '.zz' }],
    },
    refused: [`${RULE}.fieldPath: Invalid value: ".zz": must be a valid path`],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'self.a.foo()' }],
    },
    refused: [
      `${RULE}.rule: Invalid value: ${printed('self.a.foo()')}: ` +
        "compilation failed: ERROR: <input>:1:11: undeclared reference to 'foo' (in container '')\n | " +
        'self.a.foo()\n | ..........^',
    ],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'true', messageExpression: '1' }],
    },
    refused: [
      `${RULE}.messageExpression: Invalid value: ${printed('true', '1')}: messageExpression must evaluate to a string`,
    ],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'true', reason: 'Foo' }],
    },
    refused: [
      `${RULE}.reason: Unsupported value: ` +
        '"Foo": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", ' +
        '"FieldValueRequired"',
    ],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'unknown' }],
    },
    refused: [
      `${RULE}.rule: Invalid value: ${printed('unknown')}: ` +
        "compilation failed: ERROR: <input>:1:1: undeclared reference to 'unknown' (in container '')\n | " +
        'unknown\n | ^',
    ],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: "self.a.matches('[')" }],
    },
    refused: [
      `${RULE}.rule: Invalid value: ${printed("self.a.matches('[')")}: ` +
        "compilation failed: ERROR: <input>:1:16: invalid matches argument\n | self.a.matches('[')\n | " +
        '...............^',
    ],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'self.l.all(x, x == 1)' }],
    },
    refused: [
      `${RULE}.rule: Invalid value: ${printed('self.l.all(x, x == 1)')}: ` +
        "compilation failed: ERROR: <input>:1:17: found no matching overload for '_==_' applied to '(string, " +
        "int)'\n | self.l.all(x, x == 1)\n | ................^",
    ],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: "self.metadata.name==''" }],
    },
    refused: [
      `${RULE}.rule: Invalid value: ${printed("self.metadata.name==''")}: ` +
        "compilation failed: ERROR: <input>:1:5: undefined field 'metadata'\n | self.metadata.name==''\n | ....^",
    ],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'true', message: ' ' }],
    },
    refused: [`${RULE}.message: Invalid value: " ": must be non-empty if specified`],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'true', message: 'a\nb' }],
    },
    refused: [`${RULE}.message: Invalid value: "a\\nb": must not contain line breaks`],
  },
  {
    spec: {
      type: 'object',
      properties: {
        a: { type: 'string' },
        n: { type: 'integer' },
        l: { type: 'array', items: { type: 'string' } },
        m: { type: 'object', additionalProperties: { type: 'string' } },
      },
      'x-kubernetes-validations': [{ rule: 'self.metadata.name.size() <= 39' }],
    },
    refused: [
      `${RULE}.rule: Invalid value: ${printed('self.metadata.name.size() \\u003c= 39')}: ` +
        "compilation failed: ERROR: <input>:1:5: undefined field 'metadata'\n | self.metadata.name.size() <= " +
        '39\n | ....^',
    ],
  },
];
