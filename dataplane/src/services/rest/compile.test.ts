import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { atOnce } from '../../testing/steps.js';
import { Catalogue, type Column, type RelationRow } from './catalogue/catalogue.js';
import type { KeyRow } from './catalogue/keys.js';
import { relate } from './catalogue/relationships.js';
import { restSettings } from './catalogue/settings.js';
import { compile } from './compile.js';
import { apiRequest, outlineOf } from './request/api-request.js';
import { parseBody } from './request/body.js';
import { splitQuery } from './request/query-string.js';
import { rowRange } from './request/range.js';
import { shapeOf } from './request/shape.js';

const test = suite('compile');

const column = (name: string, base = 'text'): Omit<Column, 'number'> => ({
  name,
  type: base,
  base,
  nullable: true,
  default: name === 'd' ? "'x'::text" : null,
  generated: false,
  comment: null,
  labels: null,
  maxLength: null,
  toJson: null,
  fromJson: null,
  fromText: null,
});
const table = (oid: number, name: string, columns: Omit<Column, 'number'>[]): RelationRow => ({
  oid,
  schema: 'public',
  name,
  comment: null,
  isView: false,
  insertable: true,
  updatable: true,
  deletable: true,
  columns: columns.map((each, i) => ({ ...each, number: i + 1 })),
});
const primaryKey = (relation: number): KeyRow => ({
  constraint: `key_${relation}`,
  kind: 'p',
  relation,
  columns: [1],
  foreign: null,
  foreignColumns: null,
});
const settings = restSettings({}, ['public']);
const catalogue = atOnce(
  Catalogue.of(
    {
      relations: [
        table(1, 'a', [column('id', 'int4'), column('d'), column('j', 'jsonb'), column('b_id', 'int4')]),
        table(2, 'b', [column('id', 'int4'), column('name')]),
        table(3, 'we"ird', [column('id', 'int4'), column('q"; drop table a; --')]),
      ],
      keys: [
        ...[1, 2, 3].map(primaryKey),
        { constraint: 'a_b', kind: 'f', relation: 1, columns: [4], foreign: 2, foreignColumns: [1] },
      ],
      views: [],
      functions: [],
      computed: [],
      handlers: [],
      comments: {},
    },
    settings,
  ),
);

function compiled(method: string, path: string, query = '', body?: unknown, headers = {}) {
  const outline = outlineOf(method, path, headers, settings);
  const parameters = splitQuery(query);
  const parsed =
    body === undefined ? undefined : atOnce(parseBody(Buffer.from(JSON.stringify(body)), undefined, false));
  const range = rowRange(parameters, undefined);
  const result = compile(catalogue, apiRequest(outline, { parameters, body: parsed, range }, settings));
  return { ...result, text: result.statement.text, shape: shapeOf(outline, parameters, parsed, range) };
}

test('values become parameters, and a limit becomes a number in the SQL text', () => {
  const { text, statement } = compiled(
    'GET',
    '/a',
    `id=eq.canary1&or=(d.like.canary2*,d.in.(canary3))&j->canary4=gt.canary5&d=fts(canary6).canary7&limit=3`,
  );
  assert.not.match(text, 'canary');
  assert.is(statement.sources.length, 7);
  assert.match(text, / limit 3\b/);
});

test('names become quoted identifiers', () => {
  assert.match(
    compiled('GET', '/a', `select=${encodeURIComponent('"x\\"; drop table a; --"')}`).text,
    '"a"."x""; drop table a; --"',
  );
  assert.match(compiled('GET', '/we%22ird').text, 'from "public"."we""ird" as "we""ird"');
  assert.match(compiled('GET', '/a', 'select=id::evil%20type').text, 'as "evil type"');
  assert.match(compiled('POST', '/we%22ird', '', { 'q"; drop table a; --': 1 }).text, '("q""; drop table a; --")');
});

test('requests that differ only in values share a shape and a statement', () => {
  const one = compiled('GET', '/a', 'id=eq.1&limit=2');
  const other = compiled('GET', '/a', 'id=eq.77&limit=2');
  assert.is(one.shape, other.shape);
  assert.is(one.text, other.text);
  assert.ok(one.reusable);
  const different = [
    'id=eq.1',
    'id=eq.1&limit=5',
    'id=neq.1&limit=2',
    'd=eq.1&limit=2',
    'id=not.eq.1&limit=2',
    'id=eq.1&limit=2&offset=1',
    'id=in.(1)&limit=2',
    'id=in.(2)&limit=2',
  ];
  assert.is(
    new Set([one, ...different.map((query) => compiled('GET', '/a', query))].map(({ shape }) => shape)).size,
    9,
  );
  assert.is.not(compiled('GET', '/a', '', undefined, { accept: 'text/csv' }).shape, compiled('GET', '/a').shape);
});

test('requests whose bodies have different keys have different shapes, unless they list the columns', () => {
  const shapes = (query: string) =>
    [
      [{ id: 1 }, { id: 2 }],
      [{ d: 'x' }, { d: 'y' }],
    ].map((body) => compiled('POST', '/a', query, body).shape);
  assert.is(new Set(shapes('')).size, 2);
  assert.is(new Set(shapes('columns=id')).size, 1);
  const uniform = compiled('POST', '/a', 'columns=id', [{ id: 1 }, { id: 2 }]);
  const mixed = compiled('POST', '/a', 'columns=id', [{ id: 1 }, { d: 'x' }]);
  assert.is.not(uniform.shape, mixed.shape);
});

test('the value of one parameter can’t be split into two', () => {
  const two = compiled('GET', '/a', 'select=id&d=eq.1');
  const one = compiled('GET', '/a', `select=${encodeURIComponent('"id\nd\neq.\u0001"')}`);
  assert.is.not(one.shape, two.shape);
  assert.equal(JSON.parse(one.shape).at(-1), '"id\nd\neq.\u0001"');
});

test('an embedded resource is joined by its key, and an inner join restricts the rows', () => {
  assert.match(
    compiled('GET', '/a', 'select=id,b(name)').text,
    'left join lateral (select row_to_json(r) as body from (select "b"."name" as "name" from "public"."b" as "b" ' +
      'where "a"."b_id" = "b"."id") r) "embed" on true',
  );
  assert.match(compiled('GET', '/b', 'select=a!inner(id)').text, '"embed".body is not null');
});

test('a request of thousands of embedded resources, conditions and orders compiles quickly', () => {
  const names = Array.from({ length: 2_500 }, (_, at) => `n${at}`);
  const query = [
    `select=${names.map((name) => `${name}:b()`).join()}`,
    `or=(${Array.from({ length: 900 }, () => 'z.eq.').join()})`,
    `order=${names.map((name) => `${name}(id)`).join()}`,
  ].join('&');
  const { text } = compiled('GET', '/a', query, undefined, { prefer: 'count=exact' });
  assert.match(text, '"embed_2499"');
});

test('views that show a key under many names have a bounded number of relationships', () => {
  const base = [table(1, 'a', [column('id'), column('b')]), table(2, 'b', [column('id')])];
  const names = Array.from({ length: 60 }, (_, at) => column(`c${at}`));
  const views = Array.from({ length: 60 }, (_, at) => table(100 + at, `v${at}`, names));
  const seenBy = (of: number, number: number): [number, Map<number, Map<number, number[]>>] => [
    of,
    new Map(views.map(({ oid, columns }) => [oid, new Map([[number, columns.map((each) => each.number)]])])),
  ];
  const foreign: KeyRow = { constraint: 'f', kind: 'f', relation: 1, columns: [2], foreign: 2, foreignColumns: [1] };
  const relationships = atOnce(
    relate([...base, ...views], [primaryKey(1), primaryKey(2), foreign], [], new Map([seenBy(1, 2), seenBy(2, 1)])),
  );
  const count = [...base, ...views].reduce((sum, { oid }) => sum + relationships.of(oid).length, 0);
  assert.ok(count > 1_000 && count <= 40_000, String(count));
});

test('a body becomes one parameter, which Postgres expands', () => {
  const insert = compiled('POST', '/a', '', [{ id: 1, d: 'x' }]);
  assert.equal(insert.statement.sources, [{ from: 'body' }]);
  assert.match(
    insert.text,
    'insert into "public"."a" as "a" ("id", "d") select "id", "d" from (select "id", "d" ' +
      'from json_to_recordset($1::json) as _("id" int4, "d" text)) as pgrst_body returning 1',
  );
  const update = compiled('PATCH', '/a', 'id=eq.1', { d: 'y' });
  assert.equal(
    update.statement.sources.map(({ from }) => from),
    ['body', 'query'],
  );
});

test('a write selects only returned columns, so a caller may write columns that it can’t read', () => {
  assert.match(compiled('DELETE', '/a', 'id=eq.1').text, 'returning 1');
  assert.match(
    compiled('DELETE', '/a', 'select=d,b(name)', undefined, { prefer: 'return=representation' }).text,
    'returning "a"."d", "a"."b_id"',
  );
});

test.run();
