import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type RestHarness, startRestHarness, type TestRequest } from './testing.js';

const SCHEMA = `
  create table items (id int primary key, name text);
  insert into items values (1, 'a'), (2, 'b'), (3, 'c');
  create function add(a int, b int default 10) returns int language sql immutable as 'select a + b';
  create function many(variadic v int[]) returns int language sql immutable
    as 'select coalesce(sum(x), 0)::int from unnest(v) x';
  create function whole_json(json) returns json language sql immutable as 'select $1';
  create function whole_text(text) returns text language sql immutable as 'select upper($1)';
  create function whole_xml(xml) returns text language sql immutable as 'select $1::text';
  create function whole_bytes(bytea) returns int language sql immutable as 'select length($1)';
  create function named_or_whole(a int) returns text language sql as $$ select 'named' $$;
  create function named_or_whole(json) returns text language sql as $$ select 'whole' $$;
  create function over(a int) returns text language sql as $$ select 'a' $$;
  create function over(a int, b text) returns text language sql as $$ select 'ab' $$;
  create function over(c text) returns text language sql as $$ select 'c' $$;
  create function unclear(a int) returns text language sql as $$ select 'int' $$;
  create function unclear(a text) returns text language sql as $$ select 'text' $$;
  create function whole_or_text(json) returns text language sql as $$ select 'json' $$;
  create function whole_or_text(text) returns text language sql as $$ select 'text' $$;
  create function nothing() returns void language sql as '';
  create function nobody() returns items language sql stable as 'select * from items where false';
  create function one() returns items language sql stable as 'select * from items where id = 1';
  create function some_items(lowest int default 0) returns setof items language sql stable
    as 'select * from items where id >= lowest order by id';
  create function a_table(n int) returns table (x int, y text) language sql stable
    as $$ select i, 'y' || i from generate_series(1, n) i $$;
  create function a_record(out p int, out q text) language sql as $$ select 1, 'q' $$;
  create function numbers() returns setof int language sql stable as 'select generate_series(1, 3)';
  create function texts() returns setof text language sql stable as $$ values ('a'), ('b'), ('c') $$;
  create function bare_record() returns record language sql stable as $$ select 1, 'x'::text $$;
  create function bare_records(n int) returns setof record language sql stable
    as $$ select i, 'x'::text from generate_series(1, n) i $$;
  create function cookies() returns json language sql stable as $$ select current_setting('request.cookies')::json $$;
  create function counted(a int default 1) returns json language plpgsql stable as $$ declare n int; begin
    n := coalesce(nullif(current_setting('app.calls', true), '')::int, 0) + 1;
    perform set_config('app.calls', n::text, true), set_config('response.headers', '[{"X-Calls":"' || n || '"}]', true);
    return json_build_object('a', a); end $$;
  create function an_array() returns int[] language sql immutable as 'select array[1,2]';
  create function null_result() returns int language sql immutable as 'select null::int';
  create function defaults(a int, b text default 'B', c int default 3) returns json language sql
    as $$ select json_build_array(a, b, c) $$;
  create function writes_stable() returns int language plpgsql stable
    as $$ begin insert into items values (77, 'x'); return 1; end $$;
  create function writes() returns int language sql volatile as $$ insert into items values (88, 'y') returning id $$;
  create function remove_all() returns setof items language sql volatile as 'delete from items returning *';
  create function is_read_only() returns text language sql stable
    as $$ select current_setting('transaction_read_only') $$;
  create function own_timeout() returns text language sql stable set statement_timeout = '7s'
    as $$ select current_setting('statement_timeout') $$;
  create function says(status text, headers text) returns text language plpgsql as $$ begin
    perform set_config('response.status', status, true), set_config('response.headers', headers, true);
    return 'said'; end $$;
  create function raises(state text, message text, detail text) returns void language plpgsql as $$ begin
    raise exception using errcode = state, message = message, detail = detail, hint = 'a hint'; end $$;
  create function "odd name"("odd arg" int) returns int language sql immutable as 'select $1';
`;

const test = suite('calling');
let rest: RestHarness;
test.before(async () => {
  rest = await startRestHarness(SCHEMA);
});
test.after(() => rest.close());

const CALLS: [method: string, path: string, body: unknown, answer: unknown, headers?: Record<string, string>][] = [
  ['GET', '/rpc/add?a=1', undefined, 11],
  ['GET', '/rpc/add?a=1&b=2', undefined, 3],
  ['POST', '/rpc/add', { a: 1 }, 11],
  ['POST', '/rpc/add?columns=a', { a: 1, b: 2, c: 3 }, 11],
  ['POST', '/rpc/add', 'a=4&b=5', 9, { 'content-type': 'application/x-www-form-urlencoded' }],
  ['GET', '/rpc/many?v=1&v=2&v=3', undefined, 6],
  ['POST', '/rpc/many', { v: [4, 5] }, 9],
  ['POST', '/rpc/whole_json', { any: [1] }, { any: [1] }],
  ['POST', '/rpc/whole_json', [1, 2], [1, 2]],
  ['POST', '/rpc/whole_text', 'shout', 'SHOUT', { 'content-type': 'text/plain' }],
  ['POST', '/rpc/whole_json', { '': 1 }, { '': 1 }],
  ['POST', '/rpc/whole_text', { '': 'x' }, '{"":"X"}'],
  ['POST', '/rpc/whole_or_text', { a: 1 }, 'json'],
  ['POST', '/rpc/whole_or_text', 'x', 'text', { 'content-type': 'text/plain' }],
  ['POST', '/rpc/whole_xml', '<a>1</a>', '<a>1</a>', { 'content-type': 'text/xml' }],
  ['POST', '/rpc/whole_bytes', 'abc', 3, { 'content-type': 'application/octet-stream' }],
  ['POST', '/rpc/named_or_whole', { a: 1 }, 'named'],
  ['POST', '/rpc/named_or_whole', { z: 1 }, 'whole'],
  ['GET', '/rpc/over?a=1', undefined, 'a'],
  ['GET', '/rpc/over?a=1&b=x', undefined, 'ab'],
  ['POST', '/rpc/over', { c: 'x' }, 'c'],
  ['GET', '/rpc/one', undefined, { id: 1, name: 'a' }],
  ['GET', '/rpc/one?select=name', undefined, { name: 'a' }],
  ['GET', '/rpc/some_items?lowest=2&select=id', undefined, [{ id: 2 }, { id: 3 }]],
  ['GET', '/rpc/some_items?name=eq.b&order=id.desc', undefined, [{ id: 2, name: 'b' }]],
  ['POST', '/rpc/some_items?select=id&limit=1&offset=1', { lowest: 1 }, [{ id: 2 }]],
  ['GET', '/rpc/a_table?n=2&y=eq.y2', undefined, [{ x: 2, y: 'y2' }]],
  ['GET', '/rpc/a_record', undefined, { p: 1, q: 'q' }],
  ['GET', '/rpc/numbers', undefined, [1, 2, 3]],
  ['GET', '/rpc/numbers?limit=2&offset=1', undefined, [2, 3]],
  ['POST', '/rpc/numbers?limit=1', {}, [1]],
  ['GET', '/rpc/numbers?pgrst_scalar=gt.1&order=pgrst_scalar.desc', undefined, [3, 2]],
  ['GET', '/rpc/texts?offset=2', undefined, ['c']],
  ['GET', '/rpc/bare_record', undefined, { '?column?': 1, text: 'x' }],
  [
    'POST',
    '/rpc/bare_records',
    { n: 2 },
    [
      { i: 1, text: 'x' },
      { i: 2, text: 'x' },
    ],
  ],
  ['GET', '/rpc/cookies', undefined, {}],
  ['GET', '/rpc/cookies', undefined, { a: '1', b: 'x=y', __proto: 'z' }, { cookie: 'a=1; b=x=y;__proto=z; =' }],
  ['GET', '/rpc/an_array', undefined, [1, 2]],
  ['GET', '/rpc/null_result', undefined, null],
  ['POST', '/rpc/defaults', { a: 1, c: 9 }, [1, 'B', 9]],
  ['GET', '/rpc/is_read_only', undefined, 'on'],
  ['POST', '/rpc/is_read_only', {}, 'on'],
  ['GET', '/rpc/odd%20name?odd%20arg=5', undefined, 5],
];
for (const [method, path, body, answer, headers] of CALLS)
  test(`${method} ${path} ${body === undefined ? '' : JSON.stringify(body)} calls the intended function`, async () => {
    const options: TestRequest = { ...(body === undefined ? {} : { body }), ...(headers ? { headers } : {}) };
    for (let i = 0; i < 2; i++) {
      const response = await rest.ask(method, path, options);
      assert.equal([response.status, response.body], [200, answer], response.text);
    }
  });

test('a function is called once for a request, even if its result is used twice', async () => {
  for (const [method, path, options] of [
    ['POST', '/rpc/counted', { body: { a: 2 } }],
    ['POST', '/rpc/counted', { body: {}, headers: { prefer: 'count=exact' } }],
    ['GET', '/rpc/counted?a=2', {}],
  ] as const)
    assert.is((await rest.ask(method, path, options)).headers.get('x-calls'), '1');
});

test('HEAD calls a function and responds without a body, and a function returning void gives 204', async () => {
  const head = await rest.ask('HEAD', '/rpc/some_items');
  assert.equal([head.status, head.headers.get('content-range'), head.text], [200, '0-2/*', '']);
  assert.equal((await rest.ask('POST', '/rpc/nothing', { body: {} })).status, 204);
});

test('rows of a function are limited and counted like rows of a table', async () => {
  const ranged = await rest.ask('GET', '/rpc/some_items?select=id', {
    headers: { range: '1-1', prefer: 'count=exact' },
  });
  assert.equal([ranged.status, ranged.body, ranged.headers.get('content-range')], [206, [{ id: 2 }], '1-1/3']);
  const scalars = await rest.ask('GET', '/rpc/numbers', { headers: { range: '1-1', prefer: 'count=exact' } });
  assert.equal([scalars.status, scalars.body, scalars.headers.get('content-range')], [206, [2], '1-1/3']);
  const object = { headers: { accept: 'application/vnd.pgrst.object+json' } };
  assert.is((await rest.ask('GET', '/rpc/some_items', object)).body.code, 'PGRST116');
  assert.equal((await rest.ask('GET', '/rpc/some_items?id=eq.2', object)).body, { id: 2, name: 'b' });
});

const REFUSED: [method: string, path: string, body: unknown, status: number, response: object][] = [
  [
    'GET',
    '/rpc/som_items?a=1',
    undefined,
    404,
    {
      code: 'PGRST202',
      message: 'Could not find the function public.som_items(a) in the schema cache',
      details:
        'Searched for the function public.som_items with parameter a, but no matches were found in the schema cache.',
      hint: 'Perhaps you meant to call the function public.some_items',
    },
  ],
  [
    'POST',
    '/rpc/add',
    { z: 1, y: 2 },
    404,
    {
      code: 'PGRST202',
      message: 'Could not find the function public.add(z, y) in the schema cache',
      details:
        'Searched for the function public.add with parameters z, y ' +
        'or with a single unnamed json/jsonb parameter, but no matches were found in the schema cache.',
    },
  ],
  [
    'GET',
    '/rpc/unclear?a=1',
    undefined,
    300,
    {
      code: 'PGRST203',
      message:
        'Could not choose the best candidate function between: public.unclear(a => integer), public.unclear(a => text)',
      details: null,
      hint:
        'Try renaming the parameters or the function itself in the database ' +
        'so function overloading can be resolved',
    },
  ],
  [
    'POST',
    '/rpc/whole_or_text',
    { '': 1 },
    300,
    {
      code: 'PGRST203',
      message:
        'Could not choose the best candidate function between: ' +
        'public.whole_or_text( => json), public.whole_or_text( => text)',
    },
  ],
  ['POST', '/rpc/whole_bytes', { b: 1 }, 404, { code: 'PGRST202' }],
  // `over` has parameters, but none with this name.
  ['POST', '/rpc/over', { noclosealternative: 1 }, 404, { code: 'PGRST202', hint: null }],
  ['POST', '/rpc/add', { e: 1 }, 404, { code: 'PGRST202', hint: null }],
  ['PATCH', '/rpc/add', {}, 405, { code: 'PGRST101', message: 'Cannot use the PATCH method on RPC' }],
  ['GET', '/rpc/writes', undefined, 405, { code: '25006' }],
  ['POST', '/rpc/writes_stable', {}, 400, { code: '0A000' }],
  ['GET', '/rpc/add?a=x', undefined, 400, { code: '22P02' }],
  ['GET', '/rpc/numbers?unknown=eq.1', undefined, 400, { code: '42703' }],
];
for (const [method, path, body, status, response] of REFUSED)
  test(`${method} ${path} is rejected with ${status} and PostgREST's error`, async () => {
    const answer = await rest.ask(method, path, body === undefined ? {} : { body });
    assert.is(answer.status, status, answer.text);
    assert.equal({ ...answer.body, ...response }, answer.body);
  });

test('a text body that no function accepts is rejected with PGRST202', async () => {
  const response = await rest.ask('POST', '/rpc/add', { body: 'x', headers: { 'content-type': 'text/plain' } });
  assert.equal(response.body, {
    code: 'PGRST202',
    message: 'Could not find the function public.add in the schema cache',
    details:
      'Searched for the function public.add with a single unnamed text parameter, ' +
      'but no matches were found in the schema cache.',
    hint: null,
  });
});

test('a function is undone if it writes more rows than max-affected or a single object allows', async () => {
  const strict = { prefer: 'handling=strict,max-affected=2' };
  const response = await rest.ask('POST', '/rpc/remove_all', { body: {}, headers: strict });
  assert.equal(
    [response.status, response.body.code, response.body.details],
    [400, 'PGRST124', 'The query affects 3 rows'],
  );
  const single = await rest.ask('POST', '/rpc/add', { body: { a: 1 }, headers: strict });
  assert.equal([single.status, single.body.code], [400, 'PGRST128']);
  const object = { accept: 'application/vnd.pgrst.object+json' };
  assert.is((await rest.ask('POST', '/rpc/remove_all', { body: {}, headers: object })).body.code, 'PGRST116');
  assert.equal((await rest.ask('GET', '/rpc/some_items?select=id')).body, [{ id: 1 }, { id: 2 }, { id: 3 }]);
});

test('a function’s own statement_timeout applies to the call', async () => {
  assert.is((await rest.ask('GET', '/rpc/own_timeout')).body, '7s');
});

test('response.status and response.headers set the response, and invalid values return 500', async () => {
  const says = (status: string, headers: string) => rest.ask('POST', '/rpc/says', { body: { status, headers } });
  const made = await says('418', '[{"X-One":"1"},{"Cache-Control":"no-store"}]');
  assert.equal(
    [made.status, made.headers.get('x-one'), made.headers.get('cache-control'), made.body],
    [418, '1', 'no-store', 'said'],
  );
  const twice = await says('200', '[{"Set-Cookie":"a=1"},{"Cache-Control":"public"},{"set-cookie":"b=2"}]');
  assert.equal(twice.headers.getSetCookie(), ['a=1', 'b=2']);
  for (const [status, headers, code] of [
    ['blah', '[]', 'PGRST112'],
    ['99', '[]', 'PGRST112'],
    ['200', '{"X":"1"}', 'PGRST111'],
    ['200', '[{"X":1}]', 'PGRST111'],
    ['200', '[{"X":"a\\r\\nSet-Cookie: b"}]', 'PGRST111'],
    ['200', '[{"X y":"a"}]', 'PGRST111'],
  ] as const) {
    const response = await says(status, headers);
    assert.equal([response.status, response.body.code], [500, code], headers);
  }
});

test('raised errors set the status by PTxyz, by PGRST with a whole response, or by SQLSTATE', async () => {
  const raises = (state: string, message: string, detail: string) =>
    rest.ask('POST', '/rpc/raises', { body: { state, message, detail } });
  const teapot = await raises('PT418', 'short', 'stout');
  assert.equal(
    [teapot.status, teapot.body],
    [418, { code: 'PT418', message: 'short', details: 'stout', hint: 'a hint' }],
  );
  const whole = await raises(
    'PGRST',
    '{"code":"X1","message":"m","details":"d","hint":"h"}',
    '{"status":332,"status_text":"My Status","headers":{"X-Header":"v"}}',
  );
  assert.equal(
    [whole.status, whole.headers.get('x-header'), whole.body],
    [332, 'v', { code: 'X1', message: 'm', details: 'd', hint: 'h' }],
  );
  for (const [message, detail] of [
    ['INVALID', '{"status":332,"headers":{}}'],
    ['{"code":"1","message":"m"}', 'INVALID'],
    ['{"code":"1","message":"m"}', '{"status":332,"headers":{"X y":"a"}}'],
    ['{"code":"1","message":"m"}', '{"status":332,"headers":{"X":"a\\r\\nb"}}'],
  ] as const) {
    const response = await raises('PGRST', message, detail);
    assert.equal([response.status, response.body.code], [500, 'PGRST121'], detail);
  }
  assert.is((await raises('P0001', 'm', 'd')).status, 400);
  assert.is((await raises('23505', 'm', 'd')).status, 409);
  assert.is((await raises('42501', 'm', 'd')).status, 403);
});

test('OPTIONS returns the methods of a function, a table and the root', async () => {
  const allow = async (path: string) => (await rest.ask('OPTIONS', path)).headers.get('allow');
  assert.is(await allow('/rpc/add'), 'OPTIONS,GET,HEAD,POST');
  assert.is(await allow('/rpc/writes'), 'OPTIONS,POST');
  assert.is(await allow('/items'), 'OPTIONS,GET,HEAD,POST,PUT,PATCH,DELETE');
  assert.is(await allow('/'), 'OPTIONS,GET,HEAD');
  assert.is((await rest.ask('OPTIONS', '/nowhere')).status, 404);
});

test.run();
