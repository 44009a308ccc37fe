/** Events of projects, deploys and accounts, and the messages that mail and Slack get. */
import { selfSigned } from '@slipway/certificates/self-signed.testing.js';
import { API_VERSION, type BuildStatus, type ProjectStatus } from '@slipway/crds';
import { namespaceOf } from '@slipway/installation';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startMailbox } from '../mail/mailbox.testing.js';
import { PROJECT_EVENTS } from '../outbox/events.js';
import { register, startTestApi, type TestApi } from '../testing.js';
import { type Receiver, startReceiver } from './receiver.testing.js';

const MINUTE_MS = 60_000;
let aheadMs = 0;
const now = () => new Date(Date.now() + aheadMs);

let api: TestApi;
let receiver: Receiver;
let slack: Receiver;
let mailbox: Awaited<ReturnType<typeof startMailbox>>;
let owner: { email: string; token: string };

test.before(async () => {
  // The receiver of Slack's messages has a certificate of its own making.
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
  receiver = await startReceiver();
  slack = await startReceiver(await selfSigned('127.0.0.1'));
  mailbox = await startMailbox();
  api = await startTestApi({ now, mail: mailbox.settings, reach: { allowed: ['127.0.0.0/8'] } });
  owner = await register(api);
  await verify(owner.email);
});
test.after(async () => {
  await api?.close();
  await receiver?.close();
  await slack?.close();
  await mailbox?.close();
});
test.after.each(() => {
  aheadMs = 0;
});

const verify = (email: string) =>
  api.onPlatform('update platform.users set email_verified_at = now() where email = $1', [email]);

let count = 0;
interface Made {
  id: number;
  ref: string;
  types(): string[];
  data(type: string): Record<string, Record<string, unknown>>[];
}

/** Creates a project, and a webhook for all of its events. */
async function project(settings: object = {}, { token } = owner): Promise<Made> {
  count += 1;
  const name = `site-${count}`;
  const { body } = await api.call('POST', '/projects', { token, json: { name, ...settings } });
  const path = `/of-${body.id}`;
  const json = { url: receiver.url + path, events: PROJECT_EVENTS };
  assert.is((await api.call('POST', `/projects/${body.id}/webhooks`, { token, json })).status, 201);
  const messages = () => receiver.messages.filter((each) => each.path === path).map(({ body }) => JSON.parse(body));
  return {
    ...{ id: body.id, ref: body.ref },
    types: () => messages().map(({ type }) => type),
    data: (type) => messages().flatMap((each) => (each.type === type ? [each.data] : [])),
  };
}
const change = (id: number, json: object) => api.call('PATCH', `/projects/${id}`, { token: owner.token, json });
const has = (made: Made, type: string) =>
  until(
    async () => made.data(type),
    ({ length }) => length > 0,
  );
const status = (ref: string, value: ProjectStatus) => api.operator.setStatus(ref, value);
const ready = (state: 'True' | 'False', message = 'all services answer', time = now()) => ({
  type: 'Ready',
  status: state,
  reason: state === 'True' ? 'Ready' : 'ServicesDown',
  message,
  lastTransitionTime: time.toISOString(),
});

/** `place`: the ref of the project in whose namespace the Build is. */
async function build(ref: string, name: string, value: BuildStatus, spec: object = {}, place = ref): Promise<void> {
  const { client } = api.operator;
  const namespace = namespaceOf(place);
  await client.create<object>('/api/v1/namespaces', { metadata: { name: namespace } }).catch(() => undefined);
  const path = `/apis/${API_VERSION}/namespaces/${namespace}/builds`;
  const body = { apiVersion: API_VERSION, kind: 'Build', metadata: { name }, spec: { project: ref, ...spec } };
  await client.create<object>(path, body);
  await client.patch(`${path}/${name}/status`, { status: value });
}

test('a project that fails for a minute is reported, and its recovery after another one', async () => {
  const made = await project();
  await status(made.ref, { phase: 'healthy', conditions: [ready('True')] });
  await has(made, 'project.healthy');
  await status(made.ref, { phase: 'error', conditions: [ready('False', 'rest does not answer')] });
  await until(
    () => api.onPlatform('select state from platform.project_health where project_id = $1', [made.id]),
    ([row]) => row?.state === 'suspected',
  );
  aheadMs = MINUTE_MS + 1000;
  const [failing] = await has(made, 'project.failing');
  assert.equal([failing?.reason, failing?.message], ['ServicesDown', 'rest does not answer']);
  await status(made.ref, { phase: 'healthy', conditions: [ready('True')] });
  await until(
    () => api.onPlatform('select state from platform.project_health where project_id = $1', [made.id]),
    ([row]) => row?.state === 'recovering',
  );
  aheadMs += MINUTE_MS + 1000;
  await has(made, 'project.recovered');
  await api.restart();
  assert.equal(made.types(), ['project.healthy', 'project.failing', 'project.recovered']);
});

test('changes while the API was stopped are reported after its start, once', async () => {
  const made = await project();
  const starting = api.restart();
  await status(made.ref, { phase: 'healthy', conditions: [ready('True')] });
  await build(made.ref, 'build-1', { phase: 'Failed', message: 'npm ended with 1', finishedAt: now().toISOString() });
  await starting;
  await has(made, 'deploy.failed');
  await has(made, 'project.healthy');
  await api.restart();
  await api.restart();
  assert.equal(made.types().toSorted(), ['deploy.failed', 'project.healthy']);
});

test('an observation that is older than the recorded one is ignored', async () => {
  const made = await project();
  await status(made.ref, { phase: 'healthy', conditions: [ready('True')] });
  await has(made, 'project.healthy');
  const before = new Date(Date.now() - MINUTE_MS);
  await status(made.ref, { phase: 'error', conditions: [ready('False', 'late', before)] });
  await api.restart();
  const [row] = await api.onPlatform('select state from platform.project_health where project_id = $1', [made.id]);
  assert.is(row?.state, 'healthy');
});

test('a deploy is reported with its commit, branch and duration, and the message of a failure', async () => {
  const made = await project();
  const at = (seconds: number) => new Date(Date.now() + seconds * 1000).toISOString();
  const times = { startedAt: at(-30), finishedAt: at(0) };
  await build(made.ref, 'build-1', { phase: 'Deployed', commit: 'c0ffee', ...times });
  await build(made.ref, 'build-2', { phase: 'Failed', message: 'npm ended with 1', ...times }, { preview: 'next' });
  await build(made.ref, 'build-3', { phase: 'Cancelled', ...times });
  await build(made.ref, 'build-4', { phase: 'Building', startedAt: at(0) });
  await has(made, 'deploy.failed');
  const [deployed] = await has(made, 'deploy.succeeded');
  assert.equal(deployed?.deploy, {
    ...{ id: 'build-1', commit: 'c0ffee', branch: null, is_preview: false, message: null, duration_seconds: 30 },
  });
  const [failed] = made.data('deploy.failed');
  assert.equal(failed?.deploy, {
    ...{ id: 'build-2', commit: null, branch: 'next', is_preview: true, message: 'npm ended with 1' },
    duration_seconds: 30,
  });
  assert.is(made.types().length, 2);
});

test('a build in the namespace of another project is not reported to the project that it names', async () => {
  const made = await project();
  const other = await project();
  const ended = { phase: 'Failed', finishedAt: now().toISOString() } as const;
  await build(made.ref, 'build-forged', { ...ended, message: 'open https://evil.example' }, {}, other.ref);
  await build(made.ref, 'build-1', ended);
  await has(made, 'deploy.failed');
  await api.restart();
  const ids = made.data('deploy.failed').map(({ deploy }) => deploy?.id);
  assert.equal(ids, ['build-1']);
  assert.equal(other.types(), []);
});

test('a build that ended more than a week ago is not reported', async () => {
  const made = await project();
  const finishedAt = new Date(Date.now() - 8 * 24 * 60 * MINUTE_MS).toISOString();
  await build(made.ref, 'build-1', { phase: 'Failed', finishedAt });
  await build(made.ref, 'build-2', { phase: 'Deployed', finishedAt: now().toISOString() });
  await has(made, 'deploy.succeeded');
  assert.equal(made.types(), ['deploy.succeeded']);
});

test('a quota is reported with the used bytes', async () => {
  const made = await project();
  const condition = { ...ready('False'), type: 'DatabaseHasRoom', reason: 'DatabaseNearlyFull' };
  const usage = { database: { used: 450_000_000, limit: 500_000_000 } };
  await status(made.ref, { phase: 'healthy', usage, conditions: [ready('True'), condition] });
  const [warning] = await has(made, 'quota.warning');
  assert.equal([warning?.quota, warning?.used_bytes, warning?.limit_bytes], ['database', 450_000_000, 500_000_000]);
  await status(made.ref, { usage, conditions: [ready('True'), { ...condition, reason: 'DatabaseFull' }] });
  await has(made, 'quota.exceeded');
});

test('the owner gets a mail if email_notifications is true, and a burst is one mail', async () => {
  const made = await project();
  await change(made.id, { email_notifications: true });
  await status(made.ref, { phase: 'healthy', conditions: [ready('True')], url: 'http://shop.example.com' });
  const first = await mailbox.next(owner.email, `The project is healthy: site-${count}`);
  assert.match(first.text, /url: "http:\/\/shop\.example\.com"[\s\S]*email_notifications/);
  for (const name of ['build-1', 'build-2', 'build-3']) {
    await build(made.ref, name, { phase: 'Failed', message: `${name} failed`, finishedAt: now().toISOString() });
  }
  await until(
    async () => made.data('deploy.failed'),
    ({ length }) => length === 3,
  );
  aheadMs = MINUTE_MS + 1000;
  const burst = await mailbox.next(owner.email, `A deploy failed: site-${count} and 2 more`);
  for (const name of ['build-1', 'build-2', 'build-3']) assert.match(burst.text, `"${name} failed"`);
  await change(made.id, { email_notifications: false });
  const { body } = await api.call('POST', `/projects/${made.id}/notifications/test`, { token: owner.token });
  assert.equal(
    body.channels.map(({ channel }: { channel: string }) => channel),
    ['webhook'],
  );
});

test('an owner whose address is not verified gets no mail', async () => {
  const other = await register(api);
  const made = await project({}, other);
  await api.operator.patch(made.ref, { spec: { notifications: { email: true } } });
  await status(made.ref, { phase: 'healthy', conditions: [ready('True')] });
  const path = `/projects/${made.id}/notifications/deliveries`;
  const list = async () => (await api.call('GET', path, { token: other.token })).body.items;
  const mails = async () => (await list()).filter(({ channel }: { channel: string }) => channel === 'mail');
  const [mail] = await until(mails, ([first]) => first !== undefined && first.status !== 'pending');
  assert.equal([mail.status, mail.attempts[0].error], ['skipped', 'the address of the owner is not verified']);
  const subjects = mailbox.subjects(other.email);
  assert.equal(
    subjects.filter((subject) => subject.startsWith('The project')),
    [],
  );
});

test('hostile text of a build changes neither a header nor the format of a message', async () => {
  const made = await project();
  await change(made.id, { email_notifications: true, slack_webhook: `${slack.url}/services/x` });
  const message = '<!channel> <https://evil.example|click> *bold*\r\nBcc: victim@example.com\u202e';
  await build(made.ref, 'build-1', { phase: 'Failed', message, finishedAt: now().toISOString() });
  const mail = await mailbox.next(owner.email, `A deploy failed: site-${count}`);
  assert.not.match(mail.headers, /^bcc/im);
  assert.not.match(mail.text, /^Bcc/m);
  assert.equal(mailbox.subjects('victim@example.com'), []);
  const [sent] = await until(
    async () => slack.messages,
    ({ length }) => length > 0,
  );
  const { text, blocks } = JSON.parse(sent?.body ?? '');
  assert.is(text, `A deploy failed: site-${count}`);
  assert.equal([blocks.length, blocks[0].type, blocks[0].text.type], [1, 'section', 'mrkdwn']);
  assert.not.match(blocks[0].text.text, /[<>\u202e\r]|(?<!\u200b)\*bold|^Bcc/m);
  assert.match(blocks[0].text.text, /&lt;!channel&gt;/);
  assert.is(sent?.path, '/services/x');
});

test('Slack answers 404 for a removed webhook, which switches the channel off', async () => {
  const made = await project();
  await change(made.id, { slack_webhook: `${slack.url}/services/removed` });
  slack.answer.status = 404;
  await build(made.ref, 'build-1', { phase: 'Failed', finishedAt: now().toISOString() });
  await until(
    () =>
      api.onPlatform(
        "select disabled_at from platform.notification_channels where project_id = $1 and kind = 'slack'",
        [made.id],
      ),
    ([row]) => row?.disabled_at instanceof Date,
  );
  slack.answer.status = 200;
});

test('receivers that the former owner chose are removed by a transfer, and get nothing after it', async () => {
  const buyer = await register(api);
  await verify(buyer.email);
  const made = await project();
  receiver.answer.status = 500;
  await build(made.ref, 'build-1', { phase: 'Failed', finishedAt: now().toISOString() });
  await has(made, 'deploy.failed');
  await api.operator.patch(made.ref, { spec: { owner: buyer.email } });
  await until(
    () => api.onPlatform('select id from platform.notification_channels where project_id = $1', [made.id]),
    ({ length }) => length === 0,
  );
  receiver.answer.status = 200;
  const before = made.types().length;
  await build(made.ref, 'build-2', { phase: 'Failed', finishedAt: now().toISOString() });
  await until(
    () => api.onPlatform('select id from platform.notification_events where project_id = $1', [made.id]),
    ({ length }) => length === 2,
  );
  assert.is(made.types().length, before);
});

test('events are recorded and delivered after the clock was a year ahead', async () => {
  const made = await project();
  await change(made.id, { slack_webhook: `${slack.url}/services/clock-${made.id}` });
  const messages = () => slack.messages.filter(({ path }) => path === `/services/clock-${made.id}`);
  aheadMs = 365 * 24 * 60 * MINUTE_MS;
  await status(made.ref, { phase: 'healthy', conditions: [ready('True')] });
  await has(made, 'project.healthy');
  await until(
    async () => messages(),
    ({ length }) => length > 0,
  );
  await api.restart();
  aheadMs = 0;
  await status(made.ref, { phase: 'error', conditions: [ready('False')] });
  await until(
    () => api.onPlatform('select state from platform.project_health where project_id = $1', [made.id]),
    ([row]) => row?.state === 'suspected',
  );
  aheadMs = MINUTE_MS + 1000;
  await has(made, 'project.failing');
  await until(
    async () => messages(),
    ({ length }) => length > 1,
  );
});

test('a mail server that fails for five days ends neither mails to accounts nor those about projects', async () => {
  const account = await register(api);
  await verify(account.email);
  const made = await project({}, account);
  await api.operator.patch(made.ref, { spec: { notifications: { email: true } } });
  const channels = (columns: string) =>
    api.onPlatform(
      `select ${columns} from platform.notification_channels c left join platform.projects p on p.id = c.project_id
         join platform.users u on u.id = coalesce(c.user_id, p.owner_id)
       where c.kind = 'mail' and u.email = $1`,
      [account.email],
    );
  const notify = async (name: string) => {
    const json = { name, scopes: ['projects:read'] };
    assert.is((await api.call('POST', '/tokens', { token: account.token, json })).status, 201);
    await api.call('POST', `/projects/${made.id}/notifications/test`, { token: account.token });
  };
  mailbox.refuse(true);
  await notify('first');
  await until(
    () => channels('c.failing_since'),
    (rows) => rows.length === 2 && rows.every((row) => row.failing_since !== null),
  );
  await api.onPlatform("update platform.notification_channels set failing_since = now() - interval '6 days'");
  aheadMs += 10 * MINUTE_MS;
  await until(
    () => channels('c.failures'),
    (rows) => rows.every((row) => Number(row.failures) > 1),
  );
  mailbox.refuse(false);
  assert.equal(await channels('c.disabled_at'), [{ disabled_at: null }, { disabled_at: null }]);
  aheadMs += 60 * MINUTE_MS;
  await mailbox.next(account.email, 'New personal access token');
});

test('a removed project takes its channels and deliveries with it', async () => {
  const made = await project();
  await status(made.ref, { phase: 'healthy', conditions: [ready('True')] });
  await has(made, 'project.healthy');
  await api.operator.remove(made.ref);
  for (const table of ['notification_channels', 'notification_events', 'project_health']) {
    await until(
      () => api.onPlatform(`select project_id from platform.${table} where project_id = $1`, [made.id]),
      ({ length }) => length === 0,
    );
  }
});

test.run();
