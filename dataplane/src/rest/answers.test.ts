import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type RestHarness, startRestHarness, type Told } from './testing.js';

const SCHEMA = `
  create schema api;
  grant usage on schema api to anon, authenticated, service_role;
  comment on schema api is E'My API\nAll of it';
  create type mood as enum ('sad', 'happy');
  create table api.things (id int primary key, name varchar(20) default 'x', feels mood, tags text[], made timestamptz default '2020-01-01T00:00:00Z', other int);
  comment on table api.things is E'Things\n\nof all kinds';
  comment on column api.things.name is 'What it is called';
  create table api.parents (id int primary key);
  alter table api.things add constraint to_parent foreign key (other) references api.parents;
  create table api.hidden (id int primary key);
  create function api.visible(a int, b text[] default '{}') returns int language sql stable as 'select 1';
  create function api.invisible() returns int language sql stable as 'select 1';
  revoke execute on function api.invisible() from public;
  grant all on api.things, api.parents to service_role, authenticated;
  grant select (id, name) on api.things to anon;
  insert into api.parents values (1);
  insert into api.things (id, name, tags) values (1, 'one', '{a,"b c"}'), (2, null, null), (3, 'quo"te, comma', '{}');
  create table public.plain (id int primary key, at timestamptz, v text);
  insert into public.plain values (1, '2024-01-01T12:00:00Z', 'a');
  create domain public."image/png" as bytea;
  create domain public."text/plain" as text;
  create domain public."*/*" as text;
  create function public.picture() returns "image/png" language sql stable as $$ select '\\x89504e47'::bytea $$;
  create function public.anything() returns "*/*" language sql stable as $$ select 'any' $$;
  create function public.names_step(state text, next plain) returns "text/plain" language sql immutable as $$ select state || next.v || ';' $$;
  create aggregate public.names_of(plain) (sfunc = names_step, stype = "text/plain", initcond = '');
  create function public.before() returns void language plpgsql as $$ begin
    if current_setting('request.path') = '/forbidden' then raise sqlstate 'PT403' using message = 'not here'; end if;
    perform set_config('app.who', current_user, true); end $$;
  create function public.who() returns text language sql stable as $$ select current_setting('app.who', true) $$;
`;

const test = suite('answers');
let rest: RestHarness;
test.before(async () => {
  rest = await startRestHarness(SCHEMA, { schemas: ['public', 'api'] });
});
test.after(() => rest.close());

const api = { 'accept-profile': 'api', 'content-profile': 'api' };

/** Sets, and waits until an answer shows it. */
async function set(settings: string, shows: () => Promise<boolean>): Promise<void> {
  await rest.sql(`${settings}; notify pgrst, 'reload config'`);
  for (let i = 0; i < 200; i++) {
    if (await shows()) return;
    await rest.ask('GET', '/no_such_thing');
  }
  assert.unreachable(`${settings} did not take effect`);
}
const setting = (name: string, value: string) => `alter role authenticator set pgrst.${name} = '${value}'`;
const reset = (name: string) => `alter role authenticator reset pgrst.${name}`;

test('schemas are chosen by profile, told in Content-Profile, and others are refused', async () => {
  const things = await rest.ask('GET', '/things?select=id&id=eq.1', { headers: api });
  assert.equal([things.status, things.body, things.headers.get('content-profile')], [200, [{ id: 1 }], 'api']);
  const made = await rest.ask('POST', '/things', {
    headers: { ...api, prefer: 'return=representation' },
    body: { id: 50 },
  });
  assert.equal([made.status, made.headers.get('content-profile')], [201, 'api']);
  assert.is((await rest.ask('DELETE', '/things?id=eq.50', { headers: api })).status, 204);
  const refused = await rest.ask('GET', '/things', { headers: { 'accept-profile': 'auth' } });
  assert.equal(
    [refused.status, refused.body],
    [
      406,
      {
        code: 'PGRST106',
        details: null,
        hint: 'Only the following schemas are exposed: public, api',
        message: 'Invalid schema: auth',
      },
    ],
  );
});

test('the owner exposes schemas by pgrst.db_schemas', async () => {
  const found = async () => (await rest.ask('GET', '/things')).status === 200;
  await set(setting('db_schemas', 'api, pg_catalog'), found);
  assert.is((await rest.ask('GET', '/plain', { headers: { 'accept-profile': 'public' } })).status, 406);
  assert.is((await rest.ask('GET', '/pg_class', { headers: { 'accept-profile': 'pg_catalog' } })).status, 406);
  await set(reset('db_schemas'), async () => !(await found()));
});

test('a setting of the database holds where the login has none of its own', async () => {
  const capped = async () => (await rest.ask('GET', '/things', { headers: api })).body.length === 2;
  await set('alter database postgres set pgrst.db_max_rows = 2', capped);
  await set(
    setting('db_max_rows', '1'),
    async () => (await rest.ask('GET', '/things', { headers: api })).body.length === 1,
  );
  await rest.sql('alter database postgres reset pgrst.db_max_rows');
  await set(reset('db_max_rows'), async () => (await rest.ask('GET', '/things', { headers: api })).body.length === 3);
});

test('db_max_rows caps reads, functions and embeds, not counts', async () => {
  const one = async () => (await rest.ask('GET', '/things', { headers: api })).body.length === 1;
  await set(setting('db_max_rows', '1'), one);
  const counted = await rest.ask('GET', '/things?limit=5', { headers: { ...api, prefer: 'count=exact' } });
  assert.equal([counted.status, counted.headers.get('content-range')], [206, '0-0/3']);
  await rest.sql('update api.things set other = 1');
  const embedded = await rest.ask('GET', '/parents?select=things(id)', { headers: api });
  assert.is(embedded.body[0].things.length, 1);
  await set(reset('db_max_rows'), async () => !(await one()));
});

test('csv has a header, quotes as Postgres does, and is empty for no rows', async () => {
  const csv = (path: string) => rest.ask('GET', path, { headers: { ...api, accept: 'text/csv' } });
  const told = await csv('/things?select=id,name,tags&order=id');
  assert.is(told.headers.get('content-type'), 'text/csv; charset=utf-8');
  assert.is(told.text, 'id,name,tags\n1,one,"{a,""b c""}"\n2,,\n3,"quo""te, comma",{}');
  assert.is((await csv('/things?id=eq.99')).text, '\n');
});

test('nulls are stripped when asked, of arrays and of single objects', async () => {
  const ask = async (type: string) => {
    const told = await rest.ask('GET', '/things?select=id,name,feels&id=eq.2', { headers: { ...api, accept: type } });
    return [told.headers.get('content-type'), told.body];
  };
  assert.equal(await ask('application/vnd.pgrst.array+json;nulls=stripped'), [
    'application/vnd.pgrst.array+json; nulls=stripped; charset=utf-8',
    [{ id: 2 }],
  ]);
  assert.equal(await ask('application/vnd.pgrst.object+json;nulls=stripped'), [
    'application/vnd.pgrst.object+json; nulls=stripped; charset=utf-8',
    { id: 2 },
  ]);
  assert.equal((await ask('application/vnd.pgrst.array+json'))[1], [{ id: 2, name: null, feels: null }]);
});

test('geo+json and unknown media types are refused with 406', async () => {
  for (const type of ['application/geo+json', 'unknown/unknown', 'application/vnd.pgrst.plan+json']) {
    const told = await rest.ask('GET', '/plain', { headers: { accept: type } });
    assert.equal([told.status, told.body.code], [406, 'PGRST107'], type);
  }
});

test('a plan is answered when the owner allows it, for reads, writes and functions', async () => {
  const plan = (path: string, type: string, method = 'GET', body?: unknown) =>
    rest.ask(method, path, { headers: { accept: type }, ...(body === undefined ? {} : { body }) });
  await set(
    setting('db_plan_enabled', 'true'),
    async () => (await plan('/plain', 'application/vnd.pgrst.plan')).status === 200,
  );
  const json = await plan(
    '/plain',
    'application/vnd.pgrst.plan+json; for="application/vnd.pgrst.object"; options=verbose|settings',
  );
  assert.is(
    json.headers.get('content-type'),
    'application/vnd.pgrst.plan+json; for="application/vnd.pgrst.object+json"; options=verbose|settings; charset=utf-8',
  );
  assert.ok(json.body[0].Plan['Total Cost'] > 0 && json.body[0].Plan.Output);
  const text = await plan('/plain?id=eq.1', 'application/vnd.pgrst.plan+text; options=analyze');
  assert.match(text.text, /^Aggregate .*actual/);
  assert.is((await plan('/plain', 'application/vnd.pgrst.plan+json', 'POST', { id: 9 })).status, 200);
  assert.equal((await rest.ask('GET', '/plain?id=eq.9')).body, []);
  assert.is((await plan('/rpc/who', 'application/vnd.pgrst.plan+json')).status, 200);
  await set(reset('db_plan_enabled'), async () => (await plan('/plain', 'application/vnd.pgrst.plan')).status === 406);
});

test('media types of a project’s own: domains that functions return and aggregates over rows', async () => {
  const picture = await rest.fetch('/rpc/picture', { headers: { accept: 'image/png' } });
  assert.is(picture.headers.get('content-type'), 'image/png');
  assert.equal([...Buffer.from(await picture.arrayBuffer())], [0x89, 0x50, 0x4e, 0x47]);
  const names = await rest.ask('GET', '/plain', { headers: { accept: 'text/plain' } });
  assert.equal([names.headers.get('content-type'), names.text], ['text/plain', 'a;']);
  assert.is((await rest.ask('GET', '/plain?select=id', { headers: { accept: 'text/plain' } })).status, 406);
  const any = await rest.ask('GET', '/rpc/anything', { headers: { accept: 'app/bingo' } });
  assert.equal([any.headers.get('content-type'), any.text], ['app/bingo', 'any']);
  assert.is((await rest.ask('GET', '/rpc/anything')).headers.get('content-type'), 'application/octet-stream');
});

const applied = (told: Told) => told.headers.get('preference-applied');

test('Prefer: tx ends in rollback only where the owner allows it', async () => {
  const insert = (prefer: string) =>
    rest.ask('POST', '/plain', { body: { id: 7 }, headers: { prefer: `return=representation,${prefer}` } });
  await set(
    setting('db_tx_end', 'commit-allow-override'),
    async () => applied(await rest.ask('GET', '/plain', { headers: { prefer: 'tx=commit' } })) === 'tx=commit',
  );
  const tried = await insert('tx=rollback');
  assert.equal(
    [tried.status, tried.body, applied(tried)],
    [201, [{ id: 7, at: null, v: null }], 'return=representation, tx=rollback'],
  );
  assert.equal((await rest.ask('GET', '/plain?id=eq.7')).body, []);
  const headers = await rest.ask('POST', '/plain', {
    body: { id: 7 },
    headers: { prefer: 'return=headers-only,tx=rollback' },
  });
  assert.is(headers.headers.get('location'), '/plain?id=eq.7');
  await set(reset('db_tx_end'), async () => {
    const told = await rest.ask('GET', '/plain', { headers: { prefer: 'tx=rollback' } });
    return applied(told) === null;
  });
  assert.is((await insert('tx=rollback')).status, 201);
  assert.is((await rest.ask('DELETE', '/plain?id=eq.7')).status, 204);
});

test('Prefer: timezone shows times there; an unknown one is ignored, or refused when strict', async () => {
  const at = (prefer: string) => rest.ask('GET', '/plain?select=at&id=eq.1', { headers: { prefer } });
  const there = await at('timezone=America/Los_Angeles');
  assert.equal([there.body, applied(there)], [[{ at: '2024-01-01T04:00:00-08:00' }], 'timezone=America/Los_Angeles']);
  assert.equal((await at('count=exact')).body, [{ at: '2024-01-01T12:00:00+00:00' }]);
  const unknown = await at('timezone=Jupiter/Red_Spot');
  assert.equal([unknown.status, applied(unknown)], [200, null]);
  const strict = await at('handling=strict, timezone=Jupiter/Red_Spot');
  assert.equal(
    [strict.status, strict.body],
    [
      400,
      {
        code: 'PGRST122',
        details: 'Invalid preferences: timezone=Jupiter/Red_Spot',
        hint: null,
        message: 'Invalid preferences given with handling=strict',
      },
    ],
  );
});

test('Prefer: what was applied is told in Preference-Applied, and unknown ones only refused when strict', async () => {
  const told = (prefer: string) => rest.ask('PATCH', '/plain?id=eq.99', { body: { v: 'b' }, headers: { prefer } });
  assert.is(
    applied(await told('return=minimal, count=exact, missing=default, handling=lenient, max-affected=3, foo=bar')),
    'missing=default, return=minimal, count=exact, handling=lenient',
  );
  assert.is(applied(await told('handling=strict, max-affected=3')), 'handling=strict, max-affected=3');
  assert.is((await told('handling=strict, foo=bar, baz')).body.details, 'Invalid preferences: foo=bar, baz');
});

test('a pre-request function runs first, under the caller’s role, and may refuse', async () => {
  await set(
    setting('db_pre_request', 'public.before'),
    async () => (await rest.ask('GET', '/rpc/who')).body === 'service_role',
  );
  assert.is((await rest.ask('GET', '/rpc/who', { role: 'anon' })).body, 'anon');
  await rest.sql('create table public.forbidden (id int)');
  const forbidden = await rest.ask('GET', '/forbidden');
  assert.equal([forbidden.status, forbidden.body.message], [403, 'not here']);
  await set(reset('db_pre_request'), async () => (await rest.ask('GET', '/rpc/who')).body !== 'service_role');
});

test('the root describes what the caller may use, as OpenAPI 2.0', async () => {
  const root = async (role: 'anon' | 'service_role', headers = api) => rest.ask('GET', '/', { role, headers });
  const told = await root('service_role');
  assert.is(told.headers.get('content-type'), 'application/openapi+json; charset=utf-8');
  const { body } = told;
  assert.equal([body.swagger, body.info.title, body.info.description], ['2.0', 'My API', 'All of it']);
  assert.equal(Object.keys(body.paths), ['/', '/parents', '/things', '/rpc/visible']);
  assert.equal(Object.keys(body.paths['/things']), ['get', 'post', 'patch', 'delete']);
  assert.equal([body.paths['/things'].get.summary, body.paths['/things'].get.description], ['Things', 'of all kinds']);
  const { properties, required } = body.definitions.things;
  assert.equal(required, ['id']);
  assert.equal(properties.id, {
    type: 'integer',
    format: 'integer',
    description: 'Note:\nThis is a Primary Key.<pk/>',
  });
  assert.equal(properties.name, {
    type: 'string',
    format: 'character varying',
    default: 'x',
    maxLength: 20,
    description: 'What it is called',
  });
  assert.equal(properties.feels, { type: 'string', format: 'public.mood', enum: ['sad', 'happy'] });
  assert.equal(properties.tags, { type: 'array', items: { type: 'string' }, format: 'text[]' });
  assert.equal(
    properties.other.description,
    "Note:\nThis is a Foreign Key to `parents.id`.<fk table='parents' column='id'/>",
  );
  assert.equal(body.paths['/rpc/visible'].get.parameters[1], {
    name: 'b',
    in: 'query',
    required: false,
    type: 'string',
    format: 'text[]',
  });
  assert.ok(body.parameters['rowFilter.things.name'] && body.parameters['body.things'] && body.parameters.preferPost);
  const anon = await root('anon');
  assert.equal(Object.keys(anon.body.paths), ['/', '/things', '/rpc/visible']);
  assert.is((await rest.ask('HEAD', '/', { headers: api })).text, '');
  assert.is((await rest.ask('GET', '/', { headers: { accept: 'text/csv' } })).status, 406);
});

test('openapi_mode opens or shuts the root', async () => {
  const paths = async () => Object.keys((await rest.ask('GET', '/', { role: 'anon', headers: api })).body.paths ?? {});
  await set(setting('openapi_mode', 'ignore-privileges'), async () => (await paths()).includes('/hidden'));
  const shut = async () => (await rest.ask('GET', '/')).body.code === 'PGRST126';
  await set(setting('openapi_mode', 'disabled'), shut);
  await set(reset('openapi_mode'), async () => !(await shut()));
});

test('client_error_verbosity=minimal leaves out details and hints', async () => {
  const keys = async () => Object.keys((await rest.ask('GET', '/no_such_thing')).body).length;
  await set(setting('client_error_verbosity', 'minimal'), async () => (await keys()) === 2);
  await set(reset('client_error_verbosity'), async () => (await keys()) === 4);
});

test('counts are exact, planned or estimated; offsets beyond the end are 416', async () => {
  const count = (path: string, prefer: string) => rest.ask('HEAD', path, { headers: { ...api, prefer } });
  assert.is((await count('/things', 'count=exact')).headers.get('content-range'), '0-2/3');
  assert.is((await count('/things?id=gt.1', 'count=estimated')).headers.get('content-range'), '0-1/2');
  assert.match((await count('/things', 'count=planned')).headers.get('content-range') ?? '', /^0-2\/\d+$/);
  const beyond = await rest.ask('GET', '/things?offset=9', { headers: { ...api, prefer: 'count=exact' } });
  assert.equal([beyond.status, beyond.body.code], [416, 'PGRST103']);
  const ranged = await rest.ask('GET', '/things?select=id&order=id', { headers: { ...api, range: '1-' } });
  assert.equal([ranged.status, ranged.headers.get('content-range')], [200, '1-2/*']);
});

test.run();
