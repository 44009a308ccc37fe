/**
 * Tests the consistency of concurrent requests: names, limits, Secrets and ids, with a real Kubernetes API and a real
 * Postgres.
 */

import { until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { openPlatformDatabase } from '../database/platform-database.js';
import { register, startTestApi } from '../testing.js';
import { TOKENS_PER_USER } from '../tokens/tokens.service.js';
import { ProjectsRepository } from './projects.repository.js';

const api = await startTestApi({ openedServices: { shared: ['functions'] } });
test.after(() => api.close());

async function owner() {
  const { token, ...rest } = await register(api);
  const call = (method: string, path: string, json?: unknown) =>
    api.call(method, path, { token, ...(json === undefined ? {} : { json }) });
  const create = async (name: string) => (await call('POST', '/projects', { name })).body;
  return { token, call, create, ...rest };
}

test('a name stays taken while its project is being deleted, and is free afterwards', async () => {
  const ann = await owner();
  const { id, ref } = await ann.create('shop');
  await api.operator.patch(ref, { metadata: { finalizers: ['slipway.dev/engine'] } });
  await ann.call('DELETE', `/projects/${id}`);
  const early = await ann.call('POST', '/projects', { name: 'shop' });
  assert.equal([early.status, early.body.code], [409, 'name_taken']);
  assert.match(early.body.detail, /being deleted/);
  await api.operator.patch(ref, { metadata: { finalizers: null } });
  const later = await until(
    () => ann.call('POST', '/projects', { name: 'shop' }),
    ({ status }) => status !== 409,
  );
  assert.is(later.status, 201);
});

test('a deleted Project in a stale cache does not replace the newer Project of its ref', async () => {
  const orm = await openPlatformDatabase(api.settings.databaseUrl, pino({ level: 'silent' }));
  const rows = new ProjectsRepository(orm);
  const newer = { ref: 'again', owner: 'ann@example.com', name: 'again', generation: 1, retained: false };
  const createdAt = new Date().toISOString();
  await rows.adopt({ ...newer, uid: 'the-newer', createdAt }, null);
  const [before] = (await rows.all()).filter(({ ref }) => ref === 'again');
  await rows.adopt({ ...newer, uid: 'the-older', createdAt }, null);
  await rows.adopt({ ...newer, uid: 'the-older', createdAt }, 'the-oldest');
  const [after] = (await rows.all()).filter(({ ref }) => ref === 'again');
  assert.equal([after?.id, after?.uid], [before?.id, 'the-newer']);
  await rows.removeGone(before?.id as number, 'the-older');
  assert.ok(await rows.byId(before?.id as number));
  await rows.adopt({ ...newer, uid: 'the-newest', createdAt }, 'the-newer');
  const [replaced] = (await rows.all()).filter(({ ref }) => ref === 'again');
  assert.is(replaced?.uid, 'the-newest');
  assert.is.not(replaced?.id, before?.id);
  await rows.removeGone(replaced?.id as number, 'the-newest');
  await orm.close();
});

test('concurrent changes of one project’s Secrets lose no acknowledged change', async () => {
  const ann = await owner();
  const { id, ref } = await ann.create('secrets');
  await api.operator.provision(ref);
  for (let round = 0; round < 15; round++) {
    const changes = [
      { env_vars: { ROUND: String(round) } },
      { env_vars: null },
      { env_vars: { ROUND: String(round) } },
    ];
    const answers = await Promise.all(changes.map((change) => ann.call('PATCH', `/projects/${id}`, change)));
    assert.equal(
      answers.map(({ status }) => status),
      [200, 200, 200],
      JSON.stringify(answers.map(({ body }) => body.detail)),
    );
    const { spec } = await api.operator.get(ref);
    const { body } = await ann.call('GET', `/projects/${id}`);
    assert.equal(body.env_vars, spec.env ? { ROUND: String(round) } : {}, `round ${round}`);
  }
});

test('a token with project_ids lists no other token', async () => {
  const ann = await owner();
  const { id } = await ann.create('limited');
  await ann.call('POST', '/tokens', { name: 'of everything' });
  const { body } = await ann.call('POST', '/tokens', { name: 'limited', project_ids: [id] });
  const list = await api.call('GET', '/tokens', { token: body.token });
  assert.equal(
    list.body.map(({ name }: { name: string }) => name),
    ['limited'],
  );
});

test('an account’s limit of tokens holds for concurrent requests', async () => {
  const ann = await owner();
  await ann.call('POST', '/tokens', { name: 'first' });
  await api.platform.query(
    `insert into platform.tokens (user_id, name, hash, hint, scopes)
     select t.user_id, 'many', sha256(convert_to(t.id || 'of' || n, 'UTF8')), '', '{}'
     from generate_series(1, $2::int) n, platform.tokens t join platform.users u on u.id = t.user_id
       where u.email = $1`,
    [ann.email, TOKENS_PER_USER - 2],
  );
  const made = await Promise.all(Array.from({ length: 5 }, () => ann.call('POST', '/tokens', {})));
  assert.equal(made.map(({ status }) => status).sort(), [201, 403, 403, 403, 403]);
});

test('a project’s limit of functions and their unique names hold for concurrent requests', async () => {
  const ann = await owner();
  const { id, ref } = await ann.create('functions');
  await api.operator.provision(ref);
  const create = (name: string) =>
    ann.call('POST', `/projects/${id}/functions`, { name, code: 'export default () => {}' });
  const named = await Promise.all(Array.from({ length: 3 }, () => create('same')));
  assert.equal(named.map(({ status }) => status).sort(), [201, 409, 409]);
  for (let count = 1; count < 99; count++) await create(`f${count}`);
  const made = await Promise.all(['a', 'b', 'c'].map(create));
  assert.equal(made.map(({ status }) => status).sort(), [201, 403, 403]);
});

test.run();
