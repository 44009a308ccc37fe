import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { compileSchema, errorText, type JsonSchema, SchemaError } from './index.js';
import { expected, PROBE_CASES, PROBE_SCHEMA, probe } from './probe-cases.js';

const compiled = compileSchema(PROBE_SCHEMA);
const spec = (schema: JsonSchema) => compileSchema({ type: 'object', properties: { spec: schema } });
const texts = (schema: JsonSchema, after: unknown, before?: unknown) =>
  spec(schema)
    .validate({ spec: after }, before === undefined ? undefined : { spec: before })
    .map(errorText);

test('every value is stored, defaulted, pruned or rejected as in the table', () => {
  for (const probeCase of PROBE_CASES) {
    const object = probe(probeCase.spec);
    const unknown = compiled.prune(object);
    compiled.applyDefaults(object);
    const errors = compiled.validate(object).map(errorText).sort();
    assert.equal(errors, expected(probeCase), JSON.stringify(probeCase.spec));
    if (errors.length > 0) continue;
    assert.equal(object.spec, probeCase.stored ?? probeCase.spec);
    assert.equal(unknown, probeCase.unknown ?? [], JSON.stringify(probeCase.spec));
  }
});

const immutable: JsonSchema = {
  type: 'object',
  properties: {
    a: { type: 'string', 'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'a is immutable' }] },
  },
};

test('a transition rule runs only when its value changes', () => {
  assert.equal(texts(immutable, { a: '1' }), []);
  assert.equal(texts(immutable, { a: '2' }, {}), []);
  assert.equal(texts(immutable, { a: '2' }, { a: '1' }), ['spec.a: Invalid value: "string": a is immutable']);
});

test('a transition rule with optionalOldSelf also runs on create', () => {
  const schema: JsonSchema = {
    type: 'string',
    'x-kubernetes-validations': [
      { rule: "oldSelf.hasValue() ? self == oldSelf.value() : self == 'first'", optionalOldSelf: true, message: 'no' },
    ],
  };
  assert.equal(texts(schema, 'first'), []);
  assert.equal(texts(schema, 'second'), ['spec: Invalid value: "string": no']);
  assert.equal(texts(schema, 'second', 'second'), []);
  assert.equal(texts(schema, 'third', 'second'), ['spec: Invalid value: "string": no']);
});

test('an invalid stored value may stay after its schema becomes stricter, but may not be set again', () => {
  const schema: JsonSchema = {
    type: 'object',
    properties: {
      a: { type: 'string', maxLength: 2 },
      b: { type: 'string', 'x-kubernetes-validations': [{ rule: "self != 'bad'", message: 'is bad' }] },
      c: { type: 'string' },
    },
  };
  assert.equal(texts(schema, { a: 'long', b: 'bad', c: '2' }, { a: 'long', b: 'bad', c: '1' }), []);
  assert.equal(texts(schema, { b: 'bad' }, { b: 'good' }), ['spec.b: Invalid value: "string": is bad']);
  assert.is(texts(schema, { a: 'longer' }, { a: 'long' }).length, 2);
});

test('a transition rule compares items of a keyed list with the old items by key', () => {
  const schema: JsonSchema = {
    type: 'array',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['name'],
    items: {
      type: 'object',
      required: ['name'],
      properties: { name: { type: 'string' }, v: { type: 'integer' } },
      'x-kubernetes-validations': [{ rule: 'self.v >= oldSelf.v', message: 'v may only grow' }],
    },
  };
  const before = [
    { name: 'a', v: 1 },
    { name: 'b', v: 5 },
  ];
  assert.equal(
    texts(
      schema,
      [
        { name: 'b', v: 5 },
        { name: 'a', v: 2 },
      ],
      before,
    ),
    [],
  );
  assert.equal(texts(schema, [{ name: 'b', v: 4 }], before), ['spec[0]: Invalid value: "object": v may only grow']);
});

const EXPRESSIONS: readonly [rule: string, value: unknown, holds: boolean][] = [
  ["self.s.matches('^[a-z]+$')", { s: 'abc' }, true],
  ["self.s.matches('^[a-z]+$')", { s: 'a1' }, false],
  ["self.s.split(',').size() == 2 && self.s.split(',').join('-') == 'a-b'", { s: 'a,b' }, true],
  ["self.s.replace('a', 'b') == 'bb' && self.s.upperAscii() == 'AB' && self.s.trim() == self.s", { s: 'ab' }, true],
  ["self.s.find('[0-9]+') == '12' && self.s.findAll('[0-9]+') == ['12', '3']", { s: 'a12b3' }, true],
  ["self.s.substring(1) == 'b' && self.s.indexOf('b') == 1 && self.s.charAt(0) == 'a'", { s: 'ab' }, true],
  [
    'self.l.isSorted() && self.l.sum() == 6 && self.l.min() == 1 && self.l.max() == 3 && self.l.indexOf(2) == 1',
    { l: [1, 2, 3] },
    true,
  ],
  ['self.l.all(x, x > 0) && self.l.exists(x, x == 2) && self.l.exists_one(x, x == 3)', { l: [1, 2, 3] }, true],
  ['self.l.map(x, x * 2).filter(x, x > 2) == [4, 6]', { l: [1, 2, 3] }, true],
  ['sets.contains(self.l, [1, 2]) && !sets.intersects(self.l, [9])', { l: [1, 2, 3] }, true],
  [
    "self.m.all(k, k.startsWith('x')) && self.m['xa'] == '1' && 'xa' in self.m && has(self.m.xa)",
    { m: { xa: '1' } },
    true,
  ],
  ["self.t > timestamp('2024-01-01T00:00:00Z') && self.t.getFullYear() == 2025", { t: '2025-06-01T00:00:00Z' }, true],
  ["self.d > duration('1h')", { d: '90m' }, true],
  [
    "isURL(self.s) && url(self.s).getHost() == 'a.b:8080' && url(self.s).getScheme() == 'http'",
    { s: 'http://a.b:8080/c' },
    true,
  ],
  ['type(self.any) == int ? self.any == 1 : self.any == "one"', { any: 1 }, true],
  ['type(self.any) == int ? self.any == 1 : self.any == "one"', { any: 'one' }, true],
  ['self.n == null', { n: null }, true],
  ['self.__namespace__ == "x" && self.dash__dash__ed == 1', { namespace: 'x', 'dash-ed': 1 }, true],
  ['self.x == 1.5 && double(2) > self.x', { x: 1.5 }, true],
];

test('CEL rules can use the functions of Kubernetes', () => {
  const properties: Record<string, JsonSchema> = {
    s: { type: 'string' },
    l: { type: 'array', items: { type: 'integer' } },
    m: { type: 'object', additionalProperties: { type: 'string' } },
    t: { type: 'string', format: 'date-time' },
    d: { type: 'string', format: 'duration' },
    any: { 'x-kubernetes-int-or-string': true },
    n: { type: 'string', nullable: true },
    namespace: { type: 'string' },
    'dash-ed': { type: 'integer' },
    x: { type: 'number' },
  };
  for (const [rule, value, holds] of EXPRESSIONS) {
    const schema: JsonSchema = { type: 'object', properties, 'x-kubernetes-validations': [{ rule }] };
    const problem = [`spec: Invalid value: "object": failed rule: ${rule}`];
    assert.equal(texts(schema, value), holds ? [] : problem, rule);
  }
});

test('CEL rules at the root can read the name of the object, and no other metadata', () => {
  const rooted = (rule: string) =>
    compileSchema({ type: 'object', 'x-kubernetes-validations': [{ rule, message: 'no' }] });
  const object = { apiVersion: 'a/v1', kind: 'K', metadata: { name: 'abc', labels: { a: 'b' } } };
  assert.equal(rooted('self.metadata.name.size() == 3 && self.kind == "K"').validate(object), []);
  assert.throws(
    () => rooted('self.metadata.labels.size() == 1'),
    (error: Error) => error instanceof SchemaError && error.message.includes("undefined field 'labels'"),
  );
});

test('a CEL rule that iterates without bound ends with an error', () => {
  const rule = 'self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d >= 0))))';
  const schema: JsonSchema = {
    type: 'array',
    items: { type: 'integer' },
    'x-kubernetes-validations': [{ rule }],
  };
  const list = Array.from({ length: 1000 }, (_, index) => index);
  assert.match(texts(schema, list).join(), 'running out of cost budget');
});

test('an exceeded cost budget is reported even when || hides the error', () => {
  const rule = 'self.all(a, self.all(b, self.all(c, a + b + c >= 0))) || true';
  const schema: JsonSchema = { type: 'array', items: { type: 'integer' }, 'x-kubernetes-validations': [{ rule }] };
  const list = Array.from({ length: 1000 }, (_, index) => index);
  assert.match(texts(schema, list).join(), 'running out of cost budget');
});

test('a pattern is matched in time even if a backtracking matcher would hang', () => {
  const evil = `${'a'.repeat(50_000)}!`;
  assert.is(texts({ type: 'string', pattern: '^(a+)+$' }, evil).length, 1);
  const schema: JsonSchema = { type: 'string', 'x-kubernetes-validations': [{ rule: "self.matches('^(a|a)*$')" }] };
  assert.is(texts(schema, evil).length, 1);
  assert.throws(() => compileSchema({ type: 'object', properties: { a: { type: 'string', pattern: '(?=a)' } } }));
});

test.run();
