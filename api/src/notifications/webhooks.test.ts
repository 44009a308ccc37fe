/** Webhooks of projects over REST, with a real receiver and the reference library of Standard Webhooks. */
import { until } from '@slipway/testing';
import pg from 'pg';
import { Webhook } from 'standardwebhooks';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';
import { type ReceivedMessage, type Receiver, startReceiver } from './receiver.testing.js';

const DAY_MS = 86_400_000;
let aheadMs = 0;
const now = () => new Date(Date.now() + aheadMs);

let api: TestApi;
let receiver: Receiver;
let owner: string;
let other: string;

test.before(async () => {
  receiver = await startReceiver();
  api = await startTestApi({ now, reach: { allowed: ['127.0.0.0/8'] } });
  ({ token: owner } = await register(api));
  ({ token: other } = await register(api));
});
test.after(async () => {
  await api?.close();
  await receiver?.close();
});
test.before.each(() => {
  receiver.messages.splice(0);
  Object.assign(receiver.answer, { status: 204, headers: {} });
});

interface Made {
  id: number;
  ref: string;
}
let count = 0;
async function project(): Promise<Made> {
  count += 1;
  const { body } = await api.call('POST', '/projects', { token: owner, json: { name: `shop-${count}` } });
  return body;
}
const hook = (id: number, json: object, token = owner) => api.call('POST', `/projects/${id}/webhooks`, { token, json });
const webhooks = async (id: number) => (await api.call('GET', `/projects/${id}/webhooks`, { token: owner })).body.items;
const deliveries = async (id: number) =>
  (await api.call('GET', `/projects/${id}/notifications/deliveries`, { token: owner })).body.items;
const sendTest = (id: number) => api.call('POST', `/projects/${id}/notifications/test`, { token: owner });
const received = (most = 1) =>
  until(
    async () => receiver.messages,
    ({ length }) => length >= most,
  );
const verified = (secret: string, { body, headers }: ReceivedMessage) =>
  new Webhook(secret).verify(body, headers as Record<string, string>) as {
    type: string;
    timestamp: string;
    data: Record<string, Record<string, unknown>>;
  };

test('a webhook receives an event with a signature that the reference library verifies', async () => {
  const { id, ref } = await project();
  const made = await hook(id, { url: `${receiver.url}/first?a=b`, events: ['project.healthy'] });
  assert.is(made.status, 201);
  assert.equal(Object.keys(made.body), ['id', 'url', 'events', 'secret']);
  assert.match(made.body.secret, /^whsec_[A-Za-z0-9+/]{43}=$/);
  await api.operator.setStatus(ref, { phase: 'healthy', url: 'http://shop.example.com' });
  const [message] = (await received()) as [ReceivedMessage];
  assert.is(message.path, '/first?a=b');
  const { type, timestamp, data } = verified(made.body.secret, message);
  assert.is(type, 'project.healthy');
  assert.ok(Math.abs(Date.parse(timestamp) - Date.now()) < DAY_MS);
  assert.equal(data, { project: { id, ref, name: `shop-${count}` }, url: 'http://shop.example.com' });
  assert.not(JSON.stringify(await webhooks(id)).includes(made.body.secret.slice(6)));
  const rows = await api.onPlatform('select secret from platform.notification_channels where project_id = $1', [id]);
  assert.not(String(rows[0]?.secret).includes(made.body.secret.slice(6)));
  const [delivery] = await until(
    async () => deliveries(id),
    ([first]) => first?.status === 'delivered',
  );
  assert.equal([delivery.event, delivery.channel, delivery.webhook_id], ['project.healthy', 'webhook', made.body.id]);
  assert.is(delivery.event_id, message.headers['webhook-id']);
  assert.equal([delivery.attempts.length, delivery.attempts[0].status], [1, 204]);
});

test('a webhook gets only the types of events that it names', async () => {
  const { id, ref } = await project();
  await hook(id, { url: `${receiver.url}/none`, events: ['deploy.failed'] });
  await hook(id, { url: `${receiver.url}/one`, events: ['project.healthy', 'deploy.failed'] });
  await api.operator.setStatus(ref, { phase: 'healthy' });
  await received();
  await api.restart();
  await sendTest(id);
  await received(3);
  assert.equal(receiver.messages.map(({ path }) => path).toSorted(), ['/none', '/one', '/one']);
});

test('a rotated secret signs at once, and the former one for another day', async () => {
  const { id } = await project();
  const { body } = await hook(id, { url: receiver.url, events: ['deploy.failed'] });
  const rotated = await api.call('POST', `/projects/${id}/webhooks/${body.id}/rotate`, { token: owner });
  assert.is(rotated.status, 200);
  assert.is.not(rotated.body.secret, body.secret);
  await sendTest(id);
  const [message] = (await received()) as [ReceivedMessage];
  for (const secret of [body.secret, rotated.body.secret]) {
    assert.is(verified(secret, message).type, 'notification.test');
  }
  aheadMs += DAY_MS + 1000;
  await sendTest(id);
  const last = (await received(2)).at(-1) as ReceivedMessage;
  aheadMs = 0;
  assert.is(String(last.headers['webhook-signature']).split(' ').length, 1);
});

test('stored secrets are encrypted with the current key after a restart with another one', async () => {
  const { id } = await project();
  const { body } = await hook(id, { url: receiver.url, events: ['deploy.failed'] });
  const secretOf = async () =>
    String(
      (await api.onPlatform('select secret from platform.notification_channels where id = $1', [body.id]))[0]?.secret,
    );
  const before = await secretOf();
  const { keys } = api.settings.encryptionKeys;
  Object.assign(api.settings.encryptionKeys, {
    current: 'b',
    keys: { ...keys, b: Buffer.alloc(32, 2).toString('base64') },
  });
  await api.restart();
  assert.ok(before.startsWith('v1:a:'));
  await until(secretOf, (secret) => secret.startsWith('v1:b:'));
  await sendTest(id);
  const [message] = (await received()) as [ReceivedMessage];
  assert.is(verified(body.secret, message).type, 'notification.test');
});

test('a failed message is sent again with the same id, and what waited follows at once', async () => {
  const { id } = await project();
  const { body } = await hook(id, { url: receiver.url, events: ['deploy.failed'] });
  receiver.answer.status = 500;
  await sendTest(id);
  await received();
  const [failing] = await until(
    async () => webhooks(id),
    ([first]) => first.failing_since !== null,
  );
  assert.is(failing.last_error, 'the receiver answered 500');
  receiver.answer.status = 200;
  aheadMs += 7_000;
  await received(2);
  aheadMs = 0;
  const ids = receiver.messages.map(({ headers }) => headers['webhook-id']);
  assert.is(ids[0], ids[1]);
  assert.is(verified(body.secret, receiver.messages[1] as ReceivedMessage).type, 'notification.test');
  const [works] = await until(
    async () => webhooks(id),
    ([first]) => first.failing_since === null,
  );
  assert.is(works.last_error, null);
  const [{ attempts }] = await deliveries(id);
  assert.equal(
    attempts.map(({ status, error }: { status: number; error: string }) => [status, error]),
    [
      [500, 'the receiver answered 500'],
      [200, null],
    ],
  );
});

test('a channel that fails for five days is switched off, and a test switches it on', async () => {
  const { id } = await project();
  await hook(id, { url: receiver.url, events: ['deploy.failed'] });
  receiver.answer.status = 500;
  await sendTest(id);
  await received();
  await until(
    async () => webhooks(id),
    ([first]) => first.failing_since !== null,
  );
  aheadMs += 5 * DAY_MS;
  const [off] = await until(
    async () => webhooks(id),
    ([first]) => first.disabled_at !== null,
  );
  assert.ok(off.failing_since);
  const [delivery] = await deliveries(id);
  assert.is(delivery.status, 'failed');
  receiver.answer.status = 204;
  assert.is((await sendTest(id)).body.channels.length, 1);
  const [on] = await until(
    async () => webhooks(id),
    ([first]) => first.failing_since === null,
  );
  aheadMs = 0;
  assert.is(on.disabled_at, null);
});

test('410 switches a webhook off at once', async () => {
  const { id } = await project();
  await hook(id, { url: receiver.url, events: ['deploy.failed'] });
  receiver.answer.status = 410;
  await sendTest(id);
  await until(
    async () => webhooks(id),
    ([first]) => first.disabled_at !== null,
  );
});

test('a redirect is not followed', async () => {
  const { id } = await project();
  await hook(id, { url: `${receiver.url}/start`, events: ['deploy.failed'] });
  Object.assign(receiver.answer, { status: 302, headers: { location: `${receiver.url}/inside` } });
  await sendTest(id);
  const [hooked] = await until(
    async () => webhooks(id),
    ([first]) => first.failing_since !== null,
  );
  assert.is(hooked.last_error, 'the receiver answered 302; redirects are not followed');
  assert.equal(
    receiver.messages.map(({ path }) => path),
    ['/start'],
  );
});

test('an invalid webhook is refused with the name of the member', async () => {
  const { id } = await project();
  const refusals: [object, string][] = [
    [{ url: 'ftp://example.com', events: ['deploy.failed'] }, 'url'],
    [{ url: 'http://example.com/plain', events: ['deploy.failed'] }, 'url'],
    [{ url: 'https://user:password@example.com/', events: ['deploy.failed'] }, 'url'],
    [{ url: 'https://exa mple.com/', events: ['deploy.failed'] }, 'url'],
    [{ url: 'https://example.com/\r\nX-Header: 1', events: ['deploy.failed'] }, 'url'],
    [{ url: `https://example.com/${'a'.repeat(2048)}`, events: ['deploy.failed'] }, 'url'],
    [{ url: 'https://example.com/', events: [] }, 'events'],
    [{ url: 'https://example.com/', events: ['account.signed_in'] }, 'events.0'],
  ];
  for (const [json, field] of refusals) {
    const { status, body } = await hook(id, json);
    assert.equal([status, body.errors?.[0]?.field], [400, field], JSON.stringify(json));
  }
  assert.equal(await webhooks(id), []);
});

test('a project has at most 20 webhooks, also by requests at once', async () => {
  const { id } = await project();
  const json = { url: 'https://example.com/', events: ['deploy.failed'] };
  const statuses = (await Promise.all(Array.from({ length: 24 }, () => hook(id, json)))).map(({ status }) => status);
  assert.is(statuses.filter((status) => status === 201).length, 20);
  assert.is(statuses.filter((status) => status === 403).length, 4);
});

test('another account finds neither the project nor its webhooks', async () => {
  const { id } = await project();
  const { body } = await hook(id, { url: receiver.url, events: ['deploy.failed'] });
  const paths: [string, string, object?][] = [
    ['GET', 'webhooks'],
    ['POST', 'webhooks', { url: 'https://example.com/', events: ['deploy.failed'] }],
    ['DELETE', `webhooks/${body.id}`],
    ['POST', `webhooks/${body.id}/rotate`],
    ['POST', 'notifications/test'],
    ['GET', 'notifications/deliveries'],
  ];
  for (const [method, path, json] of paths) {
    const { status } = await api.call(method, `/projects/${id}/${path}`, { token: other, ...(json && { json }) });
    assert.is(status, 404, path);
  }
  const { id: neighbour } = (await api.call('POST', '/projects', { token: other, json: { name: 'mine' } })).body;
  for (const [method, path] of paths.slice(2, 4)) {
    assert.is((await api.call(method, `/projects/${neighbour}/${path}`, { token: other })).status, 404);
  }
  assert.is((await webhooks(id)).length, 1);
});

test('a former owner whose request waits for a transfer creates no webhook', async () => {
  const { id } = await project();
  const transfer = new pg.Client({ ...api.cluster.postgres.admin(), database: 'platform' });
  await transfer.connect();
  try {
    await transfer.query('begin');
    await transfer.query('update platform.projects set owner_id = (select max(id) from platform.users) where id = $1', [
      id,
    ]);
    const response = hook(id, { url: `${receiver.url}/former`, events: ['deploy.failed'] });
    await until(
      () => api.onPlatform("select from pg_stat_activity where wait_event_type = 'Lock'"),
      ({ length }) => length > 0,
    );
    await transfer.query('commit');
    assert.is((await response).status, 404);
  } finally {
    await transfer.end();
  }
  assert.equal(await api.onPlatform('select from platform.notification_channels where project_id = $1', [id]), []);
});

test('a deleted webhook gets nothing', async () => {
  const { id } = await project();
  const { body } = await hook(id, { url: receiver.url, events: ['deploy.failed'] });
  assert.is((await api.call('DELETE', `/projects/${id}/webhooks/${body.id}`, { token: owner })).status, 204);
  assert.equal((await sendTest(id)).body.channels, []);
  assert.equal(await deliveries(id), []);
});

test('deliveries are returned in pages, newest first', async () => {
  const { id } = await project();
  await hook(id, { url: receiver.url, events: ['deploy.failed'] });
  for (let sent = 0; sent < 3; sent += 1) await sendTest(id);
  const all = await deliveries(id);
  const page = async (query: string) =>
    (await api.call('GET', `/projects/${id}/notifications/deliveries?${query}`, { token: owner })).body.items;
  const first = await page('limit=2');
  const second = await page(`limit=2&before=${first[1].id}`);
  assert.equal(
    [...first, ...second].map(({ id: each }) => each),
    all.map(({ id: each }: { id: string }) => each),
  );
});

test.run();
