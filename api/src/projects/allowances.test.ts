/** Tests the plans and types that an account may use, and its limit of projects. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';

let api: TestApi;
test.before(async () => {
  const defaults = { plans: ['free'], types: ['shared'], maxProjects: 2, maxMachines: 1 };
  const accounts = { registration: { mode: 'open' }, localOnly: false, setupCode: () => undefined, defaults } as const;
  api = await startTestApi({ accounts, hasMachines: true });
});
test.after(() => api?.close());

const create = (token: string, json: object) => api.call('POST', '/projects', { token, json });
const allow = (email: string, assignment: string) =>
  api.platform.query(`update platform.users set ${assignment} where email = $1`, [email]);

test('an account can use only the installation’s default plans, or those that an administrator chose', async () => {
  const { token, email } = await register(api);
  const refused = await create(token, { name: 'paid', plan: 'pro' });
  assert.equal([refused.status, refused.body.code, refused.body.errors[0].field], [403, 'plan_not_allowed', 'plan']);
  await allow(email, "allowed_plans = '{pro}'");
  assert.is((await create(token, { name: 'paid', plan: 'pro' })).status, 201);
  assert.is((await create(token, { name: 'unpaid' })).body.code, 'plan_not_allowed');
});

test('an account can create only projects of its allowed types', async () => {
  const { token, email } = await register(api);
  await allow(email, "allowed_types = '{}'");
  const refused = await create(token, { name: 'typed' });
  assert.equal([refused.status, refused.body.errors?.[0].field], [403, 'backend_type'], JSON.stringify(refused.body));
});

test('an account’s limit of projects holds for concurrent requests', async () => {
  const { token, email } = await register(api);
  // Slows each creation down in the database, so that concurrent ones overlap there.
  await api.platform.query(`create function platform.slow() returns trigger language plpgsql
    as $$ begin perform pg_sleep(0.5); return new; end $$`);
  await api.platform.query(
    'create trigger slow before insert on platform.projects for each row execute function platform.slow()',
  );
  const together = await Promise.all([1, 2, 3, 4, 5, 6].map((n) => create(token, { name: `project-${n}` })));
  await api.platform.query('drop function platform.slow cascade');
  assert.equal(together.map(({ status }) => status).sort(), [201, 201, 403, 403, 403, 403]);
  assert.is(together.find(({ status }) => status === 403)?.body.code, 'project_limit');
  await allow(email, 'max_projects = 3');
  assert.is((await create(token, { name: 'third-one' })).status, 201);
  assert.is((await create(token, { name: 'fourth-one' })).status, 403);
});

test('an account has no machine before an administrator allows it, and one unless it gets another number', async () => {
  const { token, email } = await register(api);
  const machine = (name: string) => create(token, { name, backend_type: 'dedicated' });
  assert.is((await machine('first-own')).body.code, 'plan_not_allowed');
  await allow(email, "allowed_types = '{shared,dedicated}', max_projects = 9");
  const together = await Promise.all(['first-own', 'second-own'].map(machine));
  assert.equal(together.map(({ status }) => status).sort(), [201, 403]);
  const { code, errors } = together.find(({ status }) => status === 403)?.body ?? {};
  assert.equal([code, errors?.[0].field], ['project_limit', 'backend_type']);
  assert.is((await create(token, { name: 'other' })).status, 201);
  await allow(email, 'max_machines = 2');
  assert.is((await machine('third-own')).status, 201);
  assert.is((await machine('fourth-own')).status, 403);
  await allow(email, 'max_machines = 0');
  assert.match((await machine('fourth-own')).body.detail, 'may have 0 projects with a machine');
});

test('a project counts until its deletion is complete', async () => {
  const { token } = await register(api);
  const { id } = (await create(token, { name: 'leaving' })).body;
  await create(token, { name: 'staying' });
  await api.platform.query('update platform.projects set held_name = null where id = $1', [id]);
  assert.is((await create(token, { name: 'next-one' })).status, 403);
});

test.run();
