/** Changes settings of auth and REST over the management API, and checks their effect at the project's URL. */
import { startMailbox } from '@slipway/api/mail/mailbox.testing.js';
import { until } from '@slipway/testing';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Management, type ProjectView } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';

type Lines = { items: Record<'message' | 'level' | 'reason' | 'code' | 'role', string | undefined>[] };

let platform: RunningPlatform;
let person: Management;
let project: ProjectView;

test.before(async () => {
  // The mail server of a test.
  platform = await startPlatform(undefined, { SLIPWAY_ALLOWED_NETWORKS: '127.0.0.1/32' });
  person = await Management.register(platform);
  project = await person.untilHealthy((await person.createProject('settings')).id);
});
test.after(() => platform?.remove());

async function change(service: 'auth' | 'rest', settings: object) {
  const { status, body } = await person.call('PATCH', `/projects/${project.id}/config/${service}`, settings);
  assert.is(status, 200, JSON.stringify(body));
}

async function fetched(path: string, init: RequestInit = {}) {
  const headers = { apikey: project.anon_key ?? '', 'content-type': 'application/json' };
  const response = await platform.network.fetch(`${project.project_url}${path}`, { ...init, headers } as never);
  return { status: response.status, body: (await response.json()) as never };
}

test('a setting of auth takes effect, and its removal restores the default', async () => {
  const signup = async (email: string) =>
    (await fetched('/auth/v1/signup', { method: 'POST', body: JSON.stringify({ email, password: 'a long password' }) }))
      .status;
  assert.is(await signup('ann@example.com'), 200);
  await change('auth', { disable_signup: true });
  await until(
    () => signup('bob@example.com'),
    (status) => status === 422,
  );
  await change('auth', { disable_signup: null });
  await until(
    () => signup('cara@example.com'),
    (status) => status === 200,
  );
});

test('a setting of REST takes effect, and its removal restores the default', async () => {
  await person.query(
    project.id,
    'create table notes as select generate_series(1, 3) as id; grant select on notes to anon',
  );
  const count = async () => ((await fetched('/rest/v1/notes')).body as unknown[]).length;
  await until(count, (rows) => rows === 3);
  await change('rest', { db_max_rows: 2 });
  await until(count, (rows) => rows === 2);
  await change('rest', { db_max_rows: null });
  await until(count, (rows) => rows === 3);
});

test('a test mail arrives at once after the settings, and a wrong password is explained', async () => {
  const mailbox = await startMailbox();
  try {
    const { hostname, port, username, password } = new URL(mailbox.settings.url);
    const send = (to: string) => person.call('POST', `/projects/${project.id}/config/auth/test-mail`, { to });
    const without = await send('ada@example.com');
    assert.equal([without.status, (without.body as { code: string }).code], [422, 'mail_not_sent']);
    await change('auth', {
      smtp_host: hostname,
      smtp_port: Number(port),
      smtp_user: username,
      smtp_pass: password,
      smtp_admin_email: 'noreply@example.com',
    });
    const sent = await send('ada@example.com');
    assert.equal([sent.status, sent.body], [200, { ok: true, to: 'ada@example.com' }]);
    await mailbox.next('ada@example.com', `Test mail of the project ${project.ref}`);
    await change('auth', { smtp_host: '127.0.0.2' });
    const blocked = await send('ada@example.com');
    assert.match((blocked.body as { detail: string }).detail, /^The mail was not sent\. .*SLIPWAY_ALLOWED_NETWORKS/);
    await change('auth', { smtp_host: hostname, smtp_pass: 'wrong' });
    const refused = await send('ada@example.com');
    assert.is(refused.status, 422);
    assert.match((refused.body as { detail: string }).detail, /the server refused: 535/);
    await fetched('/auth/v1/otp', { method: 'POST', body: JSON.stringify({ email: 'ann@example.com' }) });
    const linesOf = async (service: string) =>
      ((await person.call('GET', `/projects/${project.id}/logs/${service}?level=error`)).body as Lines).items;
    const [line] = await until(
      () => linesOf('auth'),
      (lines) => lines.length > 0,
    );
    assert.match(`${line?.message} ${line?.reason}`, /^m\w+ not sent the server refused: 535/);
    assert.not.match(JSON.stringify(await linesOf('auth')), /wrong|mail-canary/);
    assert.equal(await linesOf('rest'), []);
  } finally {
    await change('auth', {
      smtp_host: null,
      smtp_port: null,
      smtp_user: null,
      smtp_pass: null,
      smtp_admin_email: null,
    });
    await mailbox.close();
  }
});

test('errors of a database are in the log of its project alone, without statements and details', async () => {
  const neighbour = await person.untilHealthy((await person.createProject('neighbour')).id);
  const linesOf = async (id: number) =>
    ((await person.call('GET', `/projects/${id}/logs/postgres`)).body as Lines).items;
  await person.query(project.id, 'select 1; select 2');
  const session = new pg.Client({ connectionString: project.db_url });
  await session.connect();
  try {
    await session.query("do $$ begin raise warning 'about % rows', 7; end $$");
    await session.query("alter role nobody_here password 'canary-in-a-statement'").catch(() => undefined);
    await session.query('create table once (secret text primary key)');
    const insert = "insert into once values ('canary-in-a-detail')";
    await session.query(insert);
    await session.query(insert).catch(() => undefined);
  } finally {
    await session.end();
  }
  assert.is((await fetched('/rest/v1/rpc/none_such?select=canary-in-a-query')).status, 404);
  const stranger = new pg.Client({ connectionString: project.db_url.replace(/:[^:@]+@/, ':canary-password@') });
  await stranger.connect().catch(() => undefined);
  const lines = await until(
    () => linesOf(project.id),
    (found) => found.some(({ message }) => message?.startsWith('password authentication failed')),
  );
  const shown = lines.map(({ level, message, code }) => [level, message, code]);
  assert.not.match(JSON.stringify(shown), /multiple commands/);
  const expected = [
    ['warn', 'about 7 rows', '01000'],
    ['error', 'duplicate key value violates unique constraint "once_pkey"', '23505'],
  ];
  for (const line of expected) assert.ok(JSON.stringify(shown).includes(JSON.stringify(line)), JSON.stringify(shown));
  assert.ok(lines.some(({ message, code }) => code === '42704' && message?.includes('nobody_here')));
  assert.ok(lines.every(({ role }) => role !== 'slipway'));
  assert.not.match(JSON.stringify(lines), /canary/);
  assert.equal(await linesOf(neighbour.id), []);
});

test.run();
