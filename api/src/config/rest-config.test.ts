/** Tests the settings of a project's REST over REST, with SQL of the owner as the other client. */
import { ownerRole, REST_SETTINGS } from '@slipway/installation';
import { until } from '@slipway/testing';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Answer, register, startTestApi, type TestApi } from '../testing.js';
import { statements } from './rest-config.service.js';

let api: TestApi;
let person: Awaited<ReturnType<typeof register>>;

test.before(async () => {
  api = await startTestApi();
  person = await register(api);
});
test.after(() => api?.close());

type Change = Record<string, unknown>;
const fieldsOf = ({ body }: Answer) => (body.errors as { field: string }[])?.map(({ field }) => field);

async function makeProject(name: string) {
  const { body } = await api.call('POST', '/projects', { token: person.token, json: { name } });
  const { id, ref } = body as { id: number; ref: string };
  await api.operator.provision(ref);
  await until(
    () => api.call('GET', `/projects/${id}/status`, { token: person.token }),
    (answer) => answer.body.status === 'healthy',
  );
  for (const setting of REST_SETTINGS)
    await api.admin.query(`grant set on parameter "pgrst.${setting}" to "${ownerRole(ref)}"`);
  const url = `/projects/${id}/config/rest`;
  return {
    id,
    ref,
    url,
    read: async () => (await api.call('GET', url, { token: person.token })).body,
    change: (json: Change) => api.call('PATCH', url, { token: person.token, json }),
    sql: (text: string) => api.admin.query(`alter database "p-${ref}" ${text}`),
    stored: async () => {
      const { rows } = await api.admin.query<{ setconfig: string[] }>(
        `select setconfig from pg_db_role_setting where setrole = 0
           and setdatabase = (select oid from pg_database where datname = 'p-${ref}')`,
      );
      return (rows[0]?.setconfig ?? []).sort();
    },
  };
}

test('a change sets, keeps and removes settings of the database, and REST reloads them', async () => {
  const { change, read, stored, ref, sql } = await makeProject('changed');
  const empty = await read();
  assert.equal([empty.db_schemas, empty.db_max_rows, empty.problems], [null, null, []]);
  await sql(`set pgrst.db_tx_end = 'rollback'`);
  const listener = new pg.Client({ ...api.cluster.postgres.admin(), database: `p-${ref}` });
  await listener.connect();
  const reloaded = new Promise((resolve) => listener.on('notification', ({ payload }) => resolve(payload)));
  await listener.query('listen pgrst');
  const odd = `api, "it's \\ $x$ ; odd"`;
  const { status, body } = await change({ db_schemas: odd, db_max_rows: 10, db_aggregates_enabled: true });
  assert.is(status, 200, JSON.stringify(body));
  assert.equal(
    [body.db_schemas, body.db_max_rows, body.db_aggregates_enabled, body.db_tx_end],
    [odd, 10, true, 'rollback'],
  );
  assert.equal(await stored(), [
    'pgrst.db_aggregates_enabled=true',
    'pgrst.db_max_rows=10',
    `pgrst.db_schemas=${odd}`,
    'pgrst.db_tx_end=rollback',
  ]);
  assert.is(await reloaded, 'reload config');
  await listener.end();
  assert.equal(await read(), body);
  const removed = await change({ db_schemas: null, db_max_rows: null, db_aggregates_enabled: false });
  assert.equal([removed.body.db_schemas, removed.body.db_aggregates_enabled], [null, false]);
  assert.equal(await stored(), ['pgrst.db_aggregates_enabled=false', 'pgrst.db_tx_end=rollback']);
});

test('an invalid or unknown member is named, and nothing is written', async () => {
  const { change, stored } = await makeProject('refused');
  for (const [name, value] of [
    ['db_max_rows', -1],
    ['db_max_rows', '10'],
    ['db_max_rows', 1e12],
    ['db_plan_enabled', 'on'],
    ['db_schemas', ' , '],
    ['db_schemas', 'pg_catalog'],
    ['db_schemas', 'a\0b'],
    ['db_schemas', 'x'.repeat(4097)],
    ['db_pre_request', 'a.b.c'],
    ['db_tx_end', 'x'],
    ['openapi_mode', true],
    ['jwt_secret', 'x'],
    ['db_schemas"; drop table x; --', 'x'],
    ['constructor', 'x'],
    ['DB_SCHEMAS', 'public'],
  ] as const) {
    const refused = await change({ db_extra_search_path: 'public', [name]: value });
    assert.equal([refused.status, fieldsOf(refused)], [400, [name]], JSON.stringify(value)?.slice(0, 40));
  }
  assert.equal(await stored(), []);
});

test('settings that SQL wrote stay, and the unknown and invalid ones are listed', async () => {
  const { change, read, sql, stored } = await makeProject('listed');
  await sql(`set pgrst.jwt_secret = 'secret of it'`);
  await sql(`set pgrst.db_max_rows = 'many'`);
  await sql(`set work_mem = '5MB'`);
  const shown = await read();
  assert.equal((shown.problems as { field: string }[]).map(({ field }) => field).sort(), ['db_max_rows', 'jwt_secret']);
  assert.not.match(JSON.stringify(shown), 'secret of it');
  assert.is((await change({ db_plan_enabled: true })).status, 200);
  assert.equal(await stored(), [
    'pgrst.db_max_rows=many',
    'pgrst.db_plan_enabled=true',
    'pgrst.jwt_secret=secret of it',
    'work_mem=5MB',
  ]);
});

test('a version that is no longer current is a 409, and of concurrent changes each takes effect', async () => {
  const { change, read, sql, stored } = await makeProject('versions');
  const { version } = await read();
  const first = await change({ version, db_max_rows: 1 });
  assert.is(first.status, 200, JSON.stringify(first.body));
  assert.is((await change({ version, db_max_rows: 2 })).status, 409);
  await sql('set pgrst.db_max_rows = 3');
  const late = await change({ version: first.body.version, db_max_rows: 4 });
  assert.equal([late.status, fieldsOf(late)], [409, ['version']]);
  const changes = [{ db_max_rows: 5 }, { db_plan_enabled: true }, { openapi_mode: 'disabled' }];
  const bySql = async () => {
    for (let at = 0; at < 20; at++) await sql(`set pgrst.db_pre_request = 'public.f${at}'`).catch(() => at--);
  };
  const [answers] = await Promise.all([Promise.all(changes.map(change)), bySql()]);
  assert.equal(
    answers.map(({ status }) => status),
    [200, 200, 200],
  );
  const expected = ['db_max_rows=5', 'db_plan_enabled=true', 'db_pre_request=public.f19', 'openapi_mode=disabled'];
  assert.equal(
    await stored(),
    expected.map((text) => `pgrst.${text}`),
  );
});

test('statements for settings that have changed since write nothing', async () => {
  const { ref, sql, stored } = await makeProject('outdated');
  await sql('set pgrst.db_max_rows = 7');
  const owner = new pg.Client({
    ...api.cluster.postgres.admin(),
    user: ownerRole(ref),
    password: 'owner',
    database: `p-${ref}`,
  });
  await owner.connect();
  const changes = { db_tx_end: 'rollback' };
  const failure = await owner.query(statements(`p-${ref}`, changes, changes)).catch(({ code }) => code);
  assert.equal([failure, await stored()], ['22012', ['pgrst.db_max_rows=7']]);
  await owner.query(statements(`p-${ref}`, changes, { ...changes, db_max_rows: '7' }));
  assert.equal(await stored(), ['pgrst.db_max_rows=7', 'pgrst.db_tx_end=rollback']);
  await owner.end();
});

test('a change is decided again if SQL changes a setting between the read and the write', async () => {
  const { change, stored, ref } = await makeProject('raced');
  for (const [rows, settings] of [
    [7, { db_tx_end: 'rollback' }],
    [8, { db_plan_enabled: true }],
  ] as const) {
    const client = new pg.Client({ ...api.cluster.postgres.admin(), database: `p-${ref}` });
    await client.connect();
    await client.query(`begin; alter database "p-${ref}" set pgrst.db_max_rows = ${rows}`);
    // The change reads the settings before this transaction commits, and then waits for its lock.
    const waiting = change(settings);
    await until(
      () => api.admin.query(`select from pg_stat_activity where wait_event_type = 'Lock' and datname = 'p-${ref}'`),
      ({ rowCount }) => rowCount === 1,
    );
    await client.query('commit');
    await client.end();
    const { status, body } = await waiting;
    assert.equal([status, body.db_max_rows], [200, rows], JSON.stringify(body));
  }
  assert.equal(await stored(), ['pgrst.db_max_rows=8', 'pgrst.db_plan_enabled=true', 'pgrst.db_tx_end=rollback']);
});

test('only the owner and tokens with the scope have access, and the project must have a running database', async () => {
  const { id, ref, url, change, read } = await makeProject('rights');
  const json = { db_max_rows: 1 };
  const other = await register(api);
  assert.is((await api.call('GET', url, { token: other.token })).status, 404);
  assert.is((await api.call('PATCH', url, { token: other.token, json })).status, 404);
  const by = async (scopes: string[]) => {
    const { body } = await api.call('POST', '/tokens', { token: person.token, json: { name: 'narrow', scopes } });
    const { status } = await api.call('GET', url, { token: body.token });
    return [status, (await api.call('PATCH', url, { token: body.token, json })).status];
  };
  assert.equal(await by(['projects:write', 'database:query']), [403, 403]);
  assert.equal(await by(['config:read']), [200, 403]);
  assert.is((await read()).db_max_rows, null);
  await api.operator.patch(ref, { spec: { suspend: true } });
  const suspended = await until(
    () => change(json),
    ({ status }) => status === 409,
  );
  assert.is(suspended.body.code, 'project_suspended');
  await api.operator.apply('an-app', { owner: person.email, type: 'app' });
  const { body } = await until(
    () => api.call('GET', '/projects?name=an-app', { token: person.token }),
    (answer) => answer.body.length === 1,
  );
  assert.not.equal(body[0].id, id);
  const app = await api.call('GET', `/projects/${body[0].id}/config/rest`, { token: person.token });
  assert.equal([app.status, app.body.code], [400, 'no_database']);
});

test.run();
