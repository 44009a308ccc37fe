/** Schemas of `spec` in a CustomResourceDefinition, and what a real kube-apiserver finds wrong with them. */
import type { JsonObject } from './json-schema.js';

export const SCHEMA_CASES: readonly { spec: JsonObject; refused: string[] }[] = [
  {
    spec: { properties: { a: {} } },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].properties[a].type: Required value: must not be empty for specified object fields',
      'spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields',
    ],
  },
  {
    spec: { type: 'object', properties: { a: { type: 'foo' } } },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].properties[a].type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", "object", "string"',
    ],
  },
  {
    spec: { type: 'array' },
    refused: ['spec.validation.openAPIV3Schema.properties[spec].items: Required value: must be specified'],
  },
  {
    spec: { type: 'object', properties: { a: { type: 'string' } }, additionalProperties: { type: 'string' } },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive',
    ],
  },
  { spec: { type: 'object', additionalProperties: false }, refused: [] },
  {
    spec: { type: 'array', uniqueItems: true, items: { type: 'string' } },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic',
    ],
  },
  {
    spec: { type: 'string', pattern: '[' },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].pattern: Invalid value: "[": must be a valid regular expression, but isn\'t: error parsing regexp: missing closing ]: `[`',
    ],
  },
  {
    spec: { type: 'string', pattern: '(?=a)' },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].pattern: Invalid value: "(?=a)": must be a valid regular expression, but isn\'t: error parsing regexp: invalid or unsupported Perl syntax: `(?=`',
    ],
  },
  {
    spec: { type: 'string', default: 3 },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].default: Invalid value: "integer":  in body must be of type string: "integer"',
    ],
  },
  {
    spec: { type: 'object', properties: { a: { type: 'string' } }, default: { b: 1 } },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].default: Invalid value: {"b":1}: must not have unknown fields',
    ],
  },
  {
    spec: { type: 'string', anyOf: [{ type: 'string' }] },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].anyOf[0].type: Forbidden: must be empty to be structural',
    ],
  },
  {
    spec: { type: 'string', anyOf: [{ description: 'x' }] },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].anyOf[0].description: Forbidden: must be empty to be structural',
    ],
  },
  { spec: { type: 'object', anyOf: [{ properties: { z: { pattern: 'a' } } }] }, refused: [] },
  { spec: { type: 'object', nullable: true }, refused: [] },
  {
    spec: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      items: { type: 'object', properties: { a: { type: 'string' } } },
    },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-list-map-keys: Required value: must not be empty if x-kubernetes-list-type is map',
    ],
  },
  {
    spec: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['z'],
      items: { type: 'object', properties: { a: { type: 'string' } } },
    },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-list-map-keys: Invalid value: ["z"]: entries must all be names of item properties',
    ],
  },
  {
    spec: {
      type: 'array',
      'x-kubernetes-list-type': 'map',
      'x-kubernetes-list-map-keys': ['a'],
      items: { type: 'object', properties: { a: { type: 'string' } } },
    },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property',
    ],
  },
  {
    spec: { type: 'array', 'x-kubernetes-list-type': 'foo', items: { type: 'string' } },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-list-type: Unsupported value: "foo": supported values: "atomic", "set", "map"',
    ],
  },
  {
    spec: { type: 'object', 'x-kubernetes-list-type': 'set' },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].type: Invalid value: "object": must be array if x-kubernetes-list-type is specified',
    ],
  },
  {
    spec: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'object', properties: {} } },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set',
    ],
  },
  {
    spec: { $ref: '#/x' },
    refused: ['spec.validation.openAPIV3Schema.properties[spec].$ref: Forbidden: $ref is not supported'],
  },
  { spec: { type: 'string', 'x-kubernetes-int-or-string': true }, refused: [] },
  {
    spec: { type: 'object', 'x-kubernetes-embedded-resource': true },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields',
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
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.foo == 1","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: undefined field \'foo\'\n | self.foo == 1\n | ....^',
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
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.a","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: cel expression must evaluate to a bool',
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
      'x-kubernetes-validations': [{ rule: 'self.a + 1 == 2' }],
    },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.a + 1 == 2","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:8: found no matching overload for \'_+_\' applied to \'(string, int)\'\n | self.a + 1 == 2\n | .......^',
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
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Required value: rule is not specified',
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
      'x-kubernetes-validations': [{ rule: 'true', fieldPath: '.zz' }],
    },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].fieldPath: Invalid value: ".zz": must be a valid path',
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
      'x-kubernetes-validations': [{ rule: 'self.a.foo()' }],
    },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.a.foo()","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:11: undeclared reference to \'foo\' (in container \'\')\n | self.a.foo()\n | ..........^',
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
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].messageExpression: Invalid value: {"Rule":"true","Message":"","MessageExpression":"1","Reason":null,"FieldPath":"","OptionalOldSelf":null}: messageExpression must evaluate to a string',
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
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].reason: Unsupported value: "Foo": supported values: "FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"',
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
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"unknown","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:1: undeclared reference to \'unknown\' (in container \'\')\n | unknown\n | ^',
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
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.a.matches(\'[\')","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:16: invalid matches argument\n | self.a.matches(\'[\')\n | ...............^',
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
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.l.all(x, x == 1)","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:17: found no matching overload for \'_==_\' applied to \'(string, int)\'\n | self.l.all(x, x == 1)\n | ................^',
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
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.metadata.name==\'\'","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: undefined field \'metadata\'\n | self.metadata.name==\'\'\n | ....^',
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
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].message: Invalid value: " ": must be non-empty if specified',
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
      'x-kubernetes-validations': [{ rule: 'true', message: 'a\nb' }],
    },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].message: Invalid value: "a\\nb": must not contain line breaks',
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
      'x-kubernetes-validations': [{ rule: 'self.metadata.name.size() <= 39' }],
    },
    refused: [
      'spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule: Invalid value: {"Rule":"self.metadata.name.size() \\u003c= 39","Message":"","MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: ERROR: <input>:1:5: undefined field \'metadata\'\n | self.metadata.name.size() <= 39\n | ....^',
    ],
  },
];
