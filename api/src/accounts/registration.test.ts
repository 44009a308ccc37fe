/** Tests registration under each policy, and the registration of the first administrator. */
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startMailbox } from '../mail/mailbox.testing.js';
import type { AccountSettings } from '../settings/settings.js';
import { startTestApi, type TestApi } from '../testing.js';

const SETUP_CODE = 'the setup code of this installation';
const password = 'correct horse';
const mailbox = await startMailbox();
let api: TestApi;
let people = 0;
const address = (domain = 'example.com') => `somebody${people++}@${domain}`;

const configure = (accounts: Partial<AccountSettings>) => Object.assign(api.settings.accounts, accounts);
const register = (email: string, code?: string) =>
  api.call('POST', '/auth/register', { json: { email, password, ...(code === undefined ? {} : { code }) } });
const mailedCode = async (email: string) => /invite_[\w-]+/.exec((await mailbox.next(email, 'Invitation')).text)?.[0];
const sql = (text: string, values: unknown[] = []) => api.platform.query(text, values);
/** Retries if background work of the API and the truncation deadlock. */
async function emptyTables(attempts = 5): Promise<void> {
  await sql('truncate platform.users, platform.invitations cascade').catch((error: { code?: string }) => {
    if (error.code !== DEADLOCK || attempts === 1) throw error;
    return emptyTables(attempts - 1);
  });
}
const DEADLOCK = '40P01';
const reset = async () => {
  await emptyTables();
  configure({ registration: { mode: 'invite' }, localOnly: false, setupCode: () => SETUP_CODE });
};
/** Slows each registration down in the database, so that concurrent ones overlap there. */
async function withSlowRegistrations<T>(work: () => Promise<T>): Promise<T> {
  await sql(`create function platform.slow() returns trigger language plpgsql
    as $$ begin perform pg_sleep(0.5); return new; end $$`);
  await sql('create trigger slow before insert on platform.users for each row execute function platform.slow()');
  try {
    return await work();
  } finally {
    await sql('drop function platform.slow cascade');
  }
}
/** Registers the first administrator. */
const administrator = async () => (await register(address(), SETUP_CODE)).body.token as string;
const invite = async (token: string, json: object = {}) =>
  (await api.call('POST', '/admin/invitations', { token, json })).body as { id: number; code: string };

test.before(async () => {
  api = await startTestApi({ mail: mailbox.settings });
});
test.before.each(reset);
test.after(async () => {
  await api?.close();
  await mailbox.close();
});

test('a loopback platform with open registration makes the first account administrator, and no other', async () => {
  configure({ registration: { mode: 'open' }, localOnly: true });
  const together = await withSlowRegistrations(() => Promise.all([1, 2, 3].map(() => register(address()))));
  assert.equal(
    together.map(({ status }) => status),
    [201, 201, 201],
  );
  assert.is(together.filter(({ body }) => body.user.administrator).length, 1);
  assert.is((await register(address())).body.user.administrator, false);
});

test('open registration away from loopback makes no account administrator without the setup code', async () => {
  configure({ registration: { mode: 'open' } });
  assert.is((await register(address())).body.user.administrator, false);
  assert.is((await register(address(), SETUP_CODE)).body.user.administrator, true);
});

for (const mode of ['invite', 'closed'] as const) {
  test(`${mode} registration rejects an account without a code, and a wrong code`, async () => {
    configure({ registration: { mode } });
    for (const code of [undefined, '', 'no such code', `${SETUP_CODE} `]) {
      const { status, body } = await register(address(), code);
      assert.equal([status, body.code], [403, 'registration_refused'], String(code));
    }
    assert.is((await sql('select from platform.users')).rowCount, 0);
  });
}

test('the setup code registers one administrator, also when it is used twice at once', async () => {
  assert.equal((await api.call('GET', '/auth/registration')).body, { registration: 'invite', setup_required: true });
  const together = await withSlowRegistrations(() => Promise.all([1, 2, 3].map(() => register(address(), SETUP_CODE))));
  assert.equal(together.map(({ status }) => status).sort(), [201, 403, 403]);
  assert.is((await register(address(), SETUP_CODE)).status, 403);
  assert.equal((await api.call('GET', '/auth/registration')).body, { registration: 'invite', setup_required: false });
});

test('a rejected registration gets the same response for an address that has an account', async () => {
  const taken = address();
  await register(taken, SETUP_CODE);
  for (const registration of [
    { mode: 'closed' },
    { mode: 'invite' },
    { mode: 'domains', domains: ['corp.example'] },
  ] as const) {
    configure({ registration });
    const [known, unknown] = [await register(taken), await register(address())];
    assert.is(known.status, 403);
    assert.equal(known.body, unknown.body, registration.mode);
  }
});

test('an address of a listed mail domain registers once with a mailed code', async () => {
  configure({ registration: { mode: 'domains', domains: ['corp.example'] } });
  const requested = await register('Ann@Corp.Example');
  assert.equal([requested.status, requested.body.code], [403, 'registration_code_mailed']);
  const code = await mailedCode('ann@corp.example');
  assert.is((await register('bob@corp.example', code)).status, 403);
  const registered = await register('ann@corp.example', code);
  assert.equal([registered.status, registered.body.user.administrator], [201, false]);
  assert.is((await register('ann@corp.example', code)).status, 403);
});

test('an address of a listed mail domain gets the same response whether or not it has an account', async () => {
  configure({ registration: { mode: 'domains', domains: ['corp.example'] } });
  await register('carl@corp.example');
  await register('carl@corp.example', await mailedCode('carl@corp.example'));
  const [known, unknown] = [await register('carl@corp.example'), await register(address('corp.example'))];
  assert.equal([known.status, known.body], [unknown.status, unknown.body]);
});

test('an address of a subdomain of a listed mail domain, or of another domain, gets no code', async () => {
  configure({ registration: { mode: 'domains', domains: ['corp.example'] } });
  const others = ['sub.corp.example', 'evilcorp.example', 'corp.example.org'].map(address);
  for (const other of others) assert.is((await register(other)).body.code, 'registration_refused', other);
  assert.is((await sql('select from platform.invitations where email = any ($1)', [others])).rowCount, 0);
});

test('a further request for a code keeps earlier codes valid, and a fourth request sends no mail', async () => {
  configure({ registration: { mode: 'domains', domains: ['corp.example'] } });
  await register('dora@corp.example');
  const first = await mailedCode('dora@corp.example');
  for (let again = 0; again < 5; again += 1) await register('dora@corp.example');
  await until(
    () => sql('select from platform.invitations where email = $1', ['dora@corp.example']),
    ({ rowCount }) => rowCount === 3,
  );
  assert.is((await register('dora@corp.example', first)).status, 201);
});

test('a network can request codes for a few addresses only, and another network has its own limit', async () => {
  configure({ registration: { mode: 'domains', domains: ['corp.example'] } });
  const others = (sender: string) =>
    sql(
      `insert into platform.invitations (hash, email, network, expires_at)
       select sha256(($1 || n)::bytea), n || '@corp.example', $1, now() + interval '1 hour'
         from generate_series(1, 50) n`,
      [sender],
    );
  await register('enno@corp.example');
  await mailedCode('enno@corp.example');
  const { rows } = await sql('select network from platform.invitations where email = $1', ['enno@corp.example']);
  await others('203.0.113.7');
  await register('elsa@corp.example');
  assert.ok(await mailedCode('elsa@corp.example'));
  await others(rows[0].network);
  assert.is((await register('emil@corp.example')).body.code, 'registration_code_mailed');
  // The mail is sent after the response, and requests for one address run in turn: once the second response is here,
  // the first mail was sent or dropped.
  await register('emil@corp.example');
  assert.is((await sql('select from platform.invitations where email = $1', ['emil@corp.example'])).rowCount, 0);
});

test('an invitation for an address is mailed to it', async () => {
  const { code } = await invite(await administrator(), { email: 'eve@example.com' });
  assert.is(await mailedCode('eve@example.com'), code);
});

test('an invitation registers one account, also when many requests use it at once', async () => {
  const token = await administrator();
  const { code } = await invite(token);
  const together = await withSlowRegistrations(() => Promise.all([1, 2, 3, 4].map(() => register(address(), code))));
  assert.equal(together.map(({ status }) => status).sort(), [201, 403, 403, 403]);
  assert.is(together.find(({ status }) => status === 201)?.body.user.administrator, false);
  assert.is((await register(address(), code)).status, 403);
});

test('an invitation for an address stays usable after another address tried it', async () => {
  const { code } = await invite(await administrator(), { email: ' Ann@Example.com' });
  assert.is((await register('bob@example.com', code)).status, 403);
  assert.is((await register('ann@example.com', code)).status, 201);
});

test('an invitation stays usable after an address that has an account tried it', async () => {
  const taken = address();
  const { token } = (await register(taken, SETUP_CODE)).body;
  const { code } = await invite(token);
  assert.is((await register(taken, code)).status, 409);
  assert.is((await register(address(), code)).status, 201);
});

test('an invitation that expired or was revoked registers nobody', async () => {
  const token = await administrator();
  const [expired, revoked] = [await invite(token), await invite(token)];
  await sql("update platform.invitations set expires_at = now() - interval '1 second' where id = $1", [expired.id]);
  assert.is((await api.call('DELETE', `/admin/invitations/${revoked.id}`, { token })).status, 200);
  for (const { code } of [expired, revoked]) assert.is((await register(address(), code)).status, 403);
});

test('an invitation works where registration is closed', async () => {
  const { code } = await invite(await administrator());
  configure({ registration: { mode: 'closed' } });
  assert.is((await register(address(), code)).status, 201);
});

test('the code of an invitation is stored only as a hash, and no list returns it', async () => {
  const token = await administrator();
  const { code } = await invite(token);
  const { rows } = await sql('select row_to_json(i)::text as text, hash from platform.invitations i');
  assert.not.match(rows[0].text, code);
  assert.is(rows[0].hash.length, 32);
  assert.not.match(JSON.stringify((await api.call('GET', '/admin/invitations', { token })).body), code);
});

test.run();
