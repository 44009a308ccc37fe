/**
 * Responses of a real kube-apiserver, as a table of cases. `validate.test.ts` compares it with our code, and
 * `schema.cluster.test.ts` with the real server.
 */
import type { JsonObject, JsonSchema } from './json-schema.js';

export const PROBE_SCHEMA: JsonSchema = {
  type: 'object',
  required: ['spec'],
  properties: {
    spec: {
      type: 'object',
      properties: {
        str: { type: 'string', minLength: 3, maxLength: 5 },
        pat: { type: 'string', pattern: '^[a-z]+$', maxLength: 10 },
        enm: { type: 'string', enum: ['a', 'b'] },
        int: { type: 'integer', minimum: 2, maximum: 5 },
        exc: { type: 'number', minimum: 2, maximum: 5, exclusiveMinimum: true, exclusiveMaximum: true },
        mul: { type: 'number', multipleOf: 2.5 },
        i32: { type: 'integer', format: 'int32' },
        i64: { type: 'integer', format: 'int64' },
        boo: { type: 'boolean' },
        dat: { type: 'string', format: 'date-time' },
        day: { type: 'string', format: 'date' },
        ema: { type: 'string', format: 'email' },
        uri: { type: 'string', format: 'uri' },
        uid: { type: 'string', format: 'uuid' },
        byt: { type: 'string', format: 'byte' },
        ip4: { type: 'string', format: 'ipv4' },
        dur: { type: 'string', format: 'duration' },
        hst: { type: 'string', format: 'hostname' },
        cidr: { type: 'string', format: 'cidr' },
        req: {
          type: 'object',
          required: ['a', 'b'],
          properties: {
            a: { type: 'string' },
            b: { type: 'object', required: ['c'], properties: { c: { type: 'string' } } },
          },
        },
        nul: { type: 'string', nullable: true },
        arr: { type: 'array', minItems: 1, maxItems: 2, items: { type: 'string' } },
        map: { type: 'object', minProperties: 1, maxProperties: 2, additionalProperties: { type: 'integer' } },
        set: { type: 'array', 'x-kubernetes-list-type': 'set', items: { type: 'string' } },
        lmap: {
          type: 'array',
          'x-kubernetes-list-type': 'map',
          'x-kubernetes-list-map-keys': ['name', 'port'],
          items: {
            type: 'object',
            required: ['name'],
            properties: { name: { type: 'string' }, port: { type: 'integer', default: 80 }, v: { type: 'string' } },
          },
        },
        ios: { 'x-kubernetes-int-or-string': true },
        any: { type: 'string', anyOf: [{ pattern: '^a' }, { pattern: '^b' }] },
        one: { type: 'string', oneOf: [{ pattern: '^a' }, { pattern: 'b$' }] },
        all: { type: 'string', allOf: [{ pattern: '^a' }, { minLength: 3 }] },
        not: { type: 'string', not: { pattern: '^a' } },
        emb: { type: 'object', 'x-kubernetes-embedded-resource': true, 'x-kubernetes-preserve-unknown-fields': true },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
        cel: {
          type: 'string',
          'x-kubernetes-validations': [
            { rule: "self.startsWith('a')", message: 'starts with a' },
            { rule: 'self.size() < 5', messageExpression: "'too long: ' + self" },
          ],
        },
        celn: { type: 'string', 'x-kubernetes-validations': [{ rule: "self != 'x'" }] },
        imm: { type: 'string', 'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'is immutable' }] },
        celo: {
          type: 'object',
          properties: {
            min: { type: 'integer' },
            max: { type: 'integer' },
            l: { type: 'array', maxItems: 5, items: { type: 'string', maxLength: 10 } },
          },
          'x-kubernetes-validations': [
            {
              rule: '!has(self.min) || !has(self.max) || self.min <= self.max',
              fieldPath: '.max',
              reason: 'FieldValueForbidden',
              message: 'max is below min',
            },
            { rule: '!has(self.l) || self.l.all(x, self.l.exists_one(y, x == y))', message: 'twice' },
            { rule: '!has(self.l) || self.l[0].size() < 8' },
          ],
        },
      },
    },
  },
};

export interface ProbeCase {
  spec: JsonObject;
  /** All errors of the response, sorted. Absent if the object is accepted. */
  refused?: string[];
  /** True if the response also reports that rules were not checked. */
  rulesSkipped?: true;
  /** The stored object, if it differs from the sent one. */
  stored?: JsonObject;
  /** Paths that are dropped with a warning. */
  unknown?: string[];
}

export const PROBE_CASES: readonly ProbeCase[] = [
  { spec: { str: 'ab' }, refused: ['spec.str: Invalid value: "ab": spec.str in body should be at least 3 chars long'] },
  { spec: { str: 'abcdef' }, refused: ['spec.str: Too long: may not be more than 5 bytes'], rulesSkipped: true },
  {
    spec: { str: 3 },
    refused: ['spec.str: Invalid value: "integer": spec.str in body must be of type string: "integer"'],
    rulesSkipped: true,
  },
  { spec: { str: 'ééé' } },
  { spec: { str: 'éééééé' }, refused: ['spec.str: Too long: may not be more than 5 bytes'], rulesSkipped: true },
  { spec: { pat: 'A1' }, refused: ['spec.pat: Invalid value: "A1": spec.pat in body should match \'^[a-z]+$\''] },
  { spec: { enm: 'c' }, refused: ['spec.enm: Unsupported value: "c": supported values: "a", "b"'], rulesSkipped: true },
  {
    spec: { enm: 3 },
    refused: [
      'spec.enm: Invalid value: "integer": spec.enm in body must be of type string: "integer"',
      'spec.enm: Unsupported value: 3: supported values: "a", "b"',
    ],
    rulesSkipped: true,
  },
  { spec: { int: 1 }, refused: ['spec.int: Invalid value: 1: spec.int in body should be greater than or equal to 2'] },
  { spec: { int: 6 }, refused: ['spec.int: Invalid value: 6: spec.int in body should be less than or equal to 5'] },
  {
    spec: { int: 1.5 },
    refused: [
      'spec.int: Invalid value: "number": spec.int in body must be of type integer: "number"',
      'spec.int: Invalid value: 1.5: spec.int in body should be greater than or equal to 2',
    ],
    rulesSkipped: true,
  },
  {
    spec: { int: 'x' },
    refused: ['spec.int: Invalid value: "string": spec.int in body must be of type integer: "string"'],
    rulesSkipped: true,
  },
  { spec: { int: 3 } },
  { spec: { exc: 2 }, refused: ['spec.exc: Invalid value: 2: spec.exc in body should be greater than 2'] },
  { spec: { exc: 5 }, refused: ['spec.exc: Invalid value: 5: spec.exc in body should be less than 5'] },
  { spec: { mul: 2 } },
  { spec: { i32: 3000000000 } },
  {
    spec: { i64: 1e30 },
    refused: ['spec.i64: Invalid value: "number": spec.i64 in body must be of type integer: "number"'],
    rulesSkipped: true,
  },
  {
    spec: { boo: 'x' },
    refused: ['spec.boo: Invalid value: "string": spec.boo in body must be of type boolean: "string"'],
    rulesSkipped: true,
  },
  {
    spec: { dat: 'x' },
    refused: ['spec.dat: Invalid value: "x": spec.dat in body must be of type date-time: "x"'],
    rulesSkipped: true,
  },
  {
    spec: { dat: '2020-01-01' },
    refused: ['spec.dat: Invalid value: "2020-01-01": spec.dat in body must be of type date-time: "2020-01-01"'],
    rulesSkipped: true,
  },
  {
    spec: { day: 'x' },
    refused: ['spec.day: Invalid value: "x": spec.day in body must be of type date: "x"'],
    rulesSkipped: true,
  },
  {
    spec: { ema: 'x' },
    refused: ['spec.ema: Invalid value: "x": spec.ema in body must be of type email: "x"'],
    rulesSkipped: true,
  },
  {
    spec: { uri: 'x y' },
    refused: ['spec.uri: Invalid value: "x y": spec.uri in body must be of type uri: "x y"'],
    rulesSkipped: true,
  },
  {
    spec: { uri: 'foo' },
    refused: ['spec.uri: Invalid value: "foo": spec.uri in body must be of type uri: "foo"'],
    rulesSkipped: true,
  },
  {
    spec: { uid: 'x' },
    refused: ['spec.uid: Invalid value: "x": spec.uid in body must be of type uuid: "x"'],
    rulesSkipped: true,
  },
  {
    spec: { byt: '!' },
    refused: ['spec.byt: Invalid value: "!": spec.byt in body must be of type byte: "!"'],
    rulesSkipped: true,
  },
  {
    spec: { ip4: 'x' },
    refused: ['spec.ip4: Invalid value: "x": spec.ip4 in body must be of type ipv4: "x"'],
    rulesSkipped: true,
  },
  {
    spec: { dur: 'x' },
    refused: ['spec.dur: Invalid value: "x": spec.dur in body must be of type duration: "x"'],
    rulesSkipped: true,
  },
  {
    spec: { hst: '_' },
    refused: ['spec.hst: Invalid value: "_": spec.hst in body must be of type hostname: "_"'],
    rulesSkipped: true,
  },
  {
    spec: { cidr: 'x' },
    refused: ['spec.cidr: Invalid value: "x": spec.cidr in body must be of type cidr: "x"'],
    rulesSkipped: true,
  },
  { spec: { req: {} }, refused: ['spec.req.a: Required value', 'spec.req.b: Required value'], rulesSkipped: true },
  { spec: { req: { a: 'x', b: {} } }, refused: ['spec.req.b.c: Required value'], rulesSkipped: true },
  {
    spec: { req: 'x' },
    refused: ['spec.req: Invalid value: "string": spec.req in body must be of type object: "string"'],
    rulesSkipped: true,
  },
  { spec: { nul: null } },
  { spec: { str: null }, stored: {} },
  { spec: { req: null }, stored: {} },
  { spec: { arr: [] }, refused: ['spec.arr: Invalid value: 0: spec.arr in body should have at least 1 items'] },
  { spec: { arr: ['a', 'b', 'c'] }, refused: ['spec.arr: Too many: 3: must have at most 2 items'], rulesSkipped: true },
  {
    spec: { arr: [1] },
    refused: ['spec.arr[0]: Invalid value: "integer": spec.arr[0] in body must be of type string: "integer"'],
    rulesSkipped: true,
  },
  {
    spec: { arr: [null] },
    refused: ['spec.arr[0]: Invalid value: "null": spec.arr[0] in body must be of type string: "null"'],
    rulesSkipped: true,
  },
  {
    spec: { arr: {} },
    refused: ['spec.arr: Invalid value: "object": spec.arr in body must be of type array: "object"'],
    rulesSkipped: true,
  },
  { spec: { map: {} }, refused: ['spec.map: Invalid value: 0: spec.map in body should have at least 1 properties'] },
  {
    spec: { map: { a: 1, b: 2, c: 3 } },
    refused: ['spec.map: Too many: 3: must have at most 2 items'],
    rulesSkipped: true,
  },
  {
    spec: { map: { a: 'x' } },
    refused: ['spec.map.a: Invalid value: "string": spec.map.a in body must be of type integer: "string"'],
    rulesSkipped: true,
  },
  {
    spec: { map: { 'a.b': 'x' } },
    refused: ['spec.map.a.b: Invalid value: "string": spec.map.a.b in body must be of type integer: "string"'],
    rulesSkipped: true,
  },
  { spec: { set: ['a', 'b', 'a', 'a'] }, refused: ['spec.set[2]: Duplicate value: "a"'] },
  {
    spec: { lmap: [{ name: 'a' }, { name: 'a' }] },
    refused: ['spec.lmap[1]: Duplicate value: {"name":"a","port":80}'],
  },
  { spec: { lmap: [{ port: 1 }] }, refused: ['spec.lmap[0].name: Required value'], rulesSkipped: true },
  {
    spec: { lmap: [{ name: 'a', port: 80, v: 'x' }, { name: 'b' }, { name: 'a', v: 'y' }] },
    refused: ['spec.lmap[2]: Duplicate value: {"name":"a","port":80}'],
  },
  {
    spec: { ios: true },
    refused: ['spec.ios: Invalid value: "boolean": spec.ios in body must be of type integer,string: "boolean"'],
    rulesSkipped: true,
  },
  {
    spec: { ios: 1.5 },
    refused: ['spec.ios: Invalid value: "number": spec.ios in body must be of type integer,string: "number"'],
    rulesSkipped: true,
  },
  {
    spec: { ios: { a: 1 } },
    refused: ['spec.ios: Invalid value: "object": spec.ios in body must be of type integer,string: "object"'],
    rulesSkipped: true,
  },
  {
    spec: { any: 'c' },
    refused: [
      '<nil>: Invalid value: "": "spec.any" must validate at least one schema (anyOf)',
      'spec.any: Invalid value: "c": spec.any in body should match \'^a\'',
    ],
  },
  {
    spec: { one: 'c' },
    refused: [
      '<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found none valid',
      'spec.one: Invalid value: "c": spec.one in body should match \'^a\'',
    ],
  },
  {
    spec: { one: 'ab' },
    refused: [
      '<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives',
    ],
  },
  {
    spec: { all: 'b' },
    refused: [
      '<nil>: Invalid value: "": "spec.all" must validate all the schemas (allOf). None validated',
      'spec.all: Invalid value: "b": spec.all in body should be at least 3 chars long',
      'spec.all: Invalid value: "b": spec.all in body should match \'^a\'',
    ],
  },
  { spec: { not: 'a' }, refused: ['<nil>: Invalid value: "": "spec.not" must not validate the schema (not)'] },
  {
    spec: { emb: {} },
    refused: ['spec.emb.apiVersion: Required value', 'spec.emb.kind: Required value'],
    rulesSkipped: true,
  },
  { spec: { emb: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'X Y' } } } },
  {
    spec: { emb: { apiVersion: 'v1', kind: '', metadata: { labels: { 'a b': 'c' } } } },
    refused: [
      'spec.emb.kind: Invalid value: "": must not be empty',
      "spec.emb.metadata.labels: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' " +
        "or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', " +
        "regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
    ],
  },
  { spec: { free: { a: { b: null } } } },
  {
    spec: { free: [] },
    refused: ['spec.free: Invalid value: "array": spec.free in body must be of type object: "array"'],
    rulesSkipped: true,
  },
  { spec: { cel: 'b' }, refused: ['spec.cel: Invalid value: "string": starts with a'] },
  { spec: { cel: 'abcdef' }, refused: ['spec.cel: Invalid value: "string": too long: abcdef'] },
  {
    spec: { cel: 'bbbbbbbbb' },
    refused: [
      'spec.cel: Invalid value: "string": starts with a',
      'spec.cel: Invalid value: "string": too long: bbbbbbbbb',
    ],
  },
  { spec: { celn: 'x' }, refused: ['spec.celn: Invalid value: "string": failed rule: self != \'x\''] },
  { spec: { celo: { min: 3, max: 1 } }, refused: ['spec.celo.max: Forbidden: max is below min'] },
  { spec: { celo: { l: ['a', 'a'] } }, refused: ['spec.celo: Invalid value: "object": twice'] },
  {
    spec: { celo: { l: [] } },
    refused: [
      'spec.celo: Invalid value: "object": index out of bounds: 0 evaluating rule: !has(self.l) || self.l[0].size() ' +
        '< 8',
    ],
  },
  {
    spec: { celo: { l: ['aaaaaaaaaa'] }, cel: 'x' },
    refused: [
      'spec.cel: Invalid value: "string": starts with a',
      'spec.celo: Invalid value: "object": failed rule: !has(self.l) || self.l[0].size() < 8',
    ],
  },
  {
    spec: { celo: { min: 'x' }, cel: 'b' },
    refused: ['spec.celo.min: Invalid value: "string": spec.celo.min in body must be of type integer: "string"'],
    rulesSkipped: true,
  },
  {
    spec: { cel: 'b', str: 'x' },
    refused: [
      'spec.cel: Invalid value: "string": starts with a',
      'spec.str: Invalid value: "x": spec.str in body should be at least 3 chars long',
    ],
  },
  {
    spec: { str: 'x', pat: 'X' },
    refused: [
      'spec.pat: Invalid value: "X": spec.pat in body should match \'^[a-z]+$\'',
      'spec.str: Invalid value: "x": spec.str in body should be at least 3 chars long',
    ],
  },
  {
    spec: { cel: 'x', enm: 'x' },
    refused: ['spec.enm: Unsupported value: "x": supported values: "a", "b"'],
    rulesSkipped: true,
  },
  {
    spec: {
      unknown: 1,
      lmap: [{ name: 'a', foo: 1 }],
      emb: { apiVersion: 'v1', kind: 'x', metadata: { foo: 1, name: 'a' }, z: 1 },
      req: { a: '', b: { c: '', d: '' } },
    },
    stored: {
      lmap: [{ name: 'a', port: 80 }],
      emb: { apiVersion: 'v1', kind: 'x', metadata: { name: 'a' }, z: 1 },
      req: { a: '', b: { c: '' } },
    },
    unknown: ['spec.emb.metadata.foo', 'spec.lmap[0].foo', 'spec.req.b.d', 'spec.unknown'],
  },
  { spec: { mul: 2.6 }, refused: ['spec.mul: Invalid value: 2.6: spec.mul in body should be a multiple of 2.5'] },
  { spec: { mul: 3 }, refused: ['spec.mul: Invalid value: 3: spec.mul in body should be a multiple of 2'] },
  { spec: { any: 'ab' } },
  { spec: { one: 'axx' } },
  { spec: { all: 'abc' } },
  {
    spec: { all: 'ab' },
    refused: [
      '<nil>: Invalid value: "": "spec.all" must validate all the schemas (allOf)',
      'spec.all: Invalid value: "ab": spec.all in body should be at least 3 chars long',
    ],
  },
  {
    spec: { map: { a: null } },
    refused: ['spec.map: Invalid value: 0: spec.map in body should have at least 1 properties'],
  },
  { spec: { lmap: [{ name: 'a', port: null }] }, stored: { lmap: [{ name: 'a', port: 80 }] } },
  {
    spec: { set: ['a', null] },
    refused: ['spec.set[1]: Invalid value: "null": spec.set[1] in body must be of type string: "null"'],
    rulesSkipped: true,
  },
  { spec: { celo: { min: null, max: 1 } }, stored: { celo: { max: 1 } } },
  { spec: { cel: null }, stored: {} },
];

/** An API group for this process only, because other processes may use the real server too. */
export const GROUP = `schematest-${process.pid}.slipway.dev`;
export const PROBES = `/apis/${GROUP}/v1/probes`;
const NOT_CHECKED =
  '<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; ' +
  'correct the existing errors to complete validation';

export const probe = (spec: unknown, metadata: JsonObject = { name: 'probe' }): JsonObject => ({
  apiVersion: `${GROUP}/v1`,
  kind: 'Probe',
  metadata,
  spec: structuredClone(spec),
});

/** Returns the errors of a case, sorted. */
export const expected = ({ refused = [], rulesSkipped }: ProbeCase) =>
  [...refused, ...(rulesSkipped ? [NOT_CHECKED] : [])].sort();
