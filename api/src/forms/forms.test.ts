/** Forms over REST: entries that arrive at the socket or the port of the API, their limits, and their events. */
import { stat } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { endRequests, listen } from '@slipway/program';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';
import { csvRow } from './csv.js';
import { FORM_QUOTA } from './forms.repository.js';

const DAY_MS = 86_400_000;
const SOCKET = path.join(tmpdir(), `slipway-forms-api-${process.pid}.sock`);
let aheadMs = 0;
const now = () => new Date(Date.now() + aheadMs);

let api: TestApi;
let owner: string;
let other: string;

test.before(async () => {
  api = await startTestApi({ now, forms: { socket: SOCKET } });
  ({ token: owner } = await register(api));
  ({ token: other } = await register(api));
});
test.after(() => api?.close());
const quota = { ...FORM_QUOTA };
test.after.each(() => {
  Object.assign(FORM_QUOTA, quota);
  aheadMs = 0;
});

interface Made {
  id: number;
  ref: string;
}
let count = 0;
async function site(token = owner): Promise<Made> {
  count += 1;
  const json = { name: `site-${count}`, backend_type: 'frontend' };
  const { body } = await api.call('POST', '/projects', { token, json });
  await api.call('PATCH', `/projects/${body.id}`, { token, json: { forms_enabled: true } });
  // Without a channel that receives it, an event of a form is not stored.
  const webhook = { url: 'https://receiver.invalid/', events: ['form.received'] };
  await api.call('POST', `/projects/${body.id}/webhooks`, { token, json: webhook });
  return body;
}

type Fields = [string, unknown][];
const post = (body: unknown) =>
  new Promise<number>((resolve, reject) => {
    const outgoing = request({ socketPath: SOCKET, path: '/entries', method: 'POST', agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    outgoing.on('error', reject);
    outgoing.end(typeof body === 'string' ? body : JSON.stringify(body));
  });
const enter = ({ ref }: Made, fields: Fields, rest: object = {}) =>
  post({ ref, form: 'contact', fields, flagged: null, ...rest });

const at = ({ id }: Made, rest = '') => `/projects/${id}/forms${rest}`;
const get = async (path: string, token = owner) => (await api.call('GET', path, { token })).body;
const entriesOf = async (made: Made, query = '') => (await get(at(made, `/contact/entries${query}`))).items;
const eventsOf = ({ id }: Made, type: string) =>
  api.onPlatform(
    'select key, data from platform.notification_events where project_id = $1 and type = $2 order by key',
    [id, type],
  );

test('only the platform’s account can connect to the socket', async () => {
  assert.is((await stat(SOCKET)).mode & 0o777, 0o600);
});

test('an entry is read over REST with its fields, and its event is added with it', async () => {
  const made = await site();
  const fields: Fields = [
    ['email', 'ada@example.com'],
    ['topic', 'a ? b'],
    ['topic', 'b \\ \' " c'],
    ['n', 1.5],
    ['yes', true],
  ];
  assert.is(await enter(made, fields), 201);
  const data = { email: 'ada@example.com', topic: ['a ? b', 'b \\ \' " c'], n: 1.5, yes: true };
  const [entry, ...more] = await entriesOf(made);
  assert.equal([entry.data, entry.flagged, more], [data, null, []]);
  assert.ok(Math.abs(Date.parse(entry.created_at) - Date.now()) < DAY_MS);
  const list = await get(at(made));
  const form = { name: 'contact', entries: 1, flagged: 0, last_at: entry.created_at, keep_days: null };
  assert.equal(list, { items: [form] });
  const project = { id: made.id, ref: made.ref, name: `site-${count}` };
  const { id, created_at } = entry;
  assert.equal(await eventsOf(made, 'form.received'), [
    { key: `form-entry-${id}`, data: { project, form: 'contact', entry: { id, created_at, data } } },
  ]);
});

test('names such as __proto__ are fields like all others', async () => {
  const made = await site();
  await enter(made, [
    ['__proto__', 'p'],
    ['constructor', 'c'],
    ['toString', 't'],
  ]);
  const { body } = await api.call('GET', at(made, '/contact/entries'), { token: owner });
  const [{ data }] = body.items;
  assert.equal(Object.entries(data), [
    ['__proto__', 'p'],
    ['constructor', 'c'],
    ['toString', 't'],
  ]);
});

test('a flagged entry adds no event, and only the newest ones are kept', async () => {
  const made = await site();
  FORM_QUOTA.flagged = 3;
  await enter(made, [['n', 0]]);
  for (let n = 1; n <= 5; n += 1) assert.is(await enter(made, [['n', n]], { flagged: 'honeypot' }), 201);
  const flagged = await entriesOf(made, '?flagged=true');
  assert.equal(
    flagged.map(({ data, flagged }: { data: { n: number }; flagged: string }) => [data.n, flagged]),
    [5, 4, 3].map((n) => [n, 'honeypot']),
  );
  assert.equal((await entriesOf(made, '?flagged=false')).length, 1);
  assert.equal((await eventsOf(made, 'form.received')).length, 1);
  const [form] = (await get(at(made))).items;
  assert.equal([form.entries, form.flagged], [1, 3]);
});

test('a project without forms, a deleted one and an unknown one accept no entry', async () => {
  const made = await site();
  assert.is(await post({ ref: 'a'.repeat(20), form: 'contact', fields: [['a', 'b']], flagged: null }), 404);
  await api.call('PATCH', `/projects/${made.id}`, { token: owner, json: { forms_enabled: false } });
  await until(async () => (await enter(made, [['a', 'b']])) === 404, 'forms to be off');
});

test('the socket rejects entries that the data plane never sends', async () => {
  const made = await site();
  for (const rest of [
    { form: '../x' },
    { form: 'A' },
    { flagged: 'x' },
    { fields: 'x' },
    { fields: [['a']] },
    { fields: [['a', null]] },
    { fields: [['a', ['b']]] },
    { fields: [['', 'b']] },
    { fields: [['a', 'x\u0000']] },
    { fields: [['a', '\ud800']] },
    { fields: [['n'.repeat(101), 'b']] },
    { fields: Array(101).fill(['a', 'b']) },
  ]) {
    assert.is(await enter(made, [['a', 'b']], rest), 400, JSON.stringify(rest));
  }
  assert.is(await post('{"ref":'), 400);
  assert.equal((await get(at(made))).items, []);
});

test('a full project rejects entries, its owner is notified once a day, and a deletion makes room', async () => {
  const made = await site();
  FORM_QUOTA.entries = 2;
  for (const n of [1, 2]) assert.is(await enter(made, [['n', n]]), 201);
  for (const n of [3, 4]) assert.is(await enter(made, [['n', n]]), 507);
  assert.is(await enter(made, [['n', 5]], { flagged: 'rate_limit' }), 201);
  const [event, ...more] = (await eventsOf(made, 'quota.exceeded')) as { data: Record<string, number> }[];
  assert.equal(more, []);
  const { quota, limit_bytes, used_bytes, used_entries, limit_entries } = event?.data ?? {};
  assert.equal([used_entries, limit_entries], [2, 2]);
  assert.equal([quota, limit_bytes], ['forms', FORM_QUOTA.bytes]);
  assert.ok((used_bytes as number) > 0);
  aheadMs = DAY_MS;
  await enter(made, [['n', 6]]);
  assert.is((await eventsOf(made, 'quota.exceeded')).length, 2);
  const [{ id }] = await entriesOf(made, '?flagged=false');
  const deleted = await api.call('DELETE', at(made, `/contact/entries/${id}`), { token: owner });
  assert.is(deleted.status, 204);
  assert.is(await enter(made, [['n', 7]]), 201);
});

test('bytes, forms and the account’s share are limited too', async () => {
  const { token } = await register(api);
  const [first, second] = [await site(token), await site(token)];
  await enter(first, [['a', 'x'.repeat(1000)]]);
  FORM_QUOTA.bytes = 1500;
  assert.is(await enter(first, [['a', 'x'.repeat(1000)]]), 507);
  Object.assign(FORM_QUOTA, { ...quota, accountEntries: 1 });
  assert.is(await enter(second, [['a', 'b']]), 507);
  Object.assign(FORM_QUOTA, { ...quota, accountBytes: 1300 });
  assert.is(await enter(second, [['a', 'b']]), 507);
  Object.assign(FORM_QUOTA, { ...quota, forms: 1 });
  assert.is(await enter(first, [['a', 'b']], { form: 'another' }), 507);
  assert.is(await enter(first, [['a', 'b']]), 201);
  assert.is(await enter(await site(), [['a', 'b']]), 201);
});

test('concurrent entries keep the limit', async () => {
  const made = await site();
  FORM_QUOTA.entries = 5;
  // The first entry adds rows, for which others would wait.
  await enter(made, [['n', 0]]);
  const statuses = await Promise.all(Array.from({ length: 60 }, (_, n) => enter(made, [['n', n]])));
  assert.is(statuses.filter((status) => status === 201).length, 4);
  assert.is((await entriesOf(made)).length, 5);
});

test('entries are paged from the newest', async () => {
  const made = await site();
  for (let n = 1; n <= 5; n += 1) await enter(made, [['n', n]]);
  const seen: number[] = [];
  for (let before = ''; ; ) {
    const page = await entriesOf(made, `?limit=2${before}`);
    if (page.length === 0) break;
    seen.push(...page.map(({ data }: { data: { n: number } }) => data.n));
    before = `&before=${page.at(-1).id}`;
  }
  assert.equal(seen, [5, 4, 3, 2, 1]);
});

test('a page of large entries has fewer of them', async () => {
  const made = await site();
  const large = '\u0001'.repeat(60_000);
  for (let n = 0; n < 14; n += 1) assert.is(await enter(made, [['large', large]]), 201);
  const page = await entriesOf(made, '?limit=100');
  assert.ok(page.length > 0 && page.length < 14, String(page.length));
  const csv = await api.call('GET', at(made, '/contact/entries.csv'), { token: owner });
  assert.is(csv.body.match(/\r\n/g).length, 15);
});

test('the CSV has all fields of all entries, quoted, and no cell is a formula', async () => {
  const made = await site();
  await enter(made, [
    ['email', 'ada@example.com'],
    ['=cmd()', '=1+1'],
    ['text', 'a "quoted"\r\nline; and, more'],
  ]);
  await enter(made, [
    ['other', '+1'],
    ['email', '@SUM(1)'],
    ['text', '\t=1'],
    ['n', -5],
  ]);
  const { status, headers, body } = await api.call('GET', at(made, '/contact/entries.csv'), { token: owner });
  assert.is(status, 200);
  assert.is(headers['content-type'], 'text/csv; charset=utf-8');
  assert.is(headers['content-disposition'], 'attachment; filename="contact.csv"');
  const [second, first] = await entriesOf(made);
  assert.is(
    body,
    '"id","created_at","flagged","email","\'=cmd()","text","other","n"\r\n' +
      `"${second.id}","${second.created_at}","","'@SUM(1)","","'\t=1","'+1","'-5"\r\n` +
      `"${first.id}","${first.created_at}","","ada@example.com","'=1+1","a ""quoted""\r\nline; and, more","",""\r\n`,
  );
});

test('fields beyond 200 columns share the last column', async () => {
  const made = await site();
  for (let page = 0; page < 3; page += 1) {
    await enter(
      made,
      Array.from({ length: 90 }, (_, at): [string, unknown] => [`f${page}-${at}`, at]),
    );
  }
  const { body } = await api.call('GET', at(made, '/contact/entries.csv'), { token: owner });
  const [header, newest] = body.split('\r\n');
  assert.is(header.split(',').length, 204);
  assert.match(header, /"further fields"$/);
  assert.match(newest, /""f2-89"":89\}"$/);
});

test('every cell that begins as a formula begins with an apostrophe', () => {
  for (const start of ['=', '+', '-', '@', '\t', '\r', '\n']) assert.is(csvRow([`${start}1`]), `"'${start}1"\r\n`);
  assert.is(csvRow([['=1', 2], null, undefined, true]), `"'=1; 2","","","true"\r\n`);
});

test('entries are deleted once they are older than the form keeps them', async () => {
  const made = await site();
  const stays = await site();
  aheadMs = -40 * DAY_MS;
  for (const each of [made, stays]) await enter(each, [['n', 'old']]);
  aheadMs = 0;
  await enter(made, [['n', 'new']]);
  const kept = await api.call('PATCH', at(made, '/contact'), { token: owner, json: { keep_days: 30 } });
  assert.equal([kept.status, kept.body.keep_days], [200, 30]);
  await api.restart();
  await until(async () => (await entriesOf(made)).length === 1, 'the old entry to go');
  assert.is((await entriesOf(made))[0].data.n, 'new');
  assert.is((await entriesOf(stays)).length, 1);
  const [{ entries }] = (await api.onPlatform('select entries from platform.form_usage where project_id = $1', [
    made.id,
  ])) as [{ entries: number }];
  assert.is(entries, 1);
  for (const keep_days of [0, 3651, 1.5, 'x', undefined]) {
    const { status } = await api.call('PATCH', at(made, '/contact'), { token: owner, json: { keep_days } });
    assert.is(status, 400, String(keep_days));
  }
  assert.is(
    (await api.call('PATCH', at(made, '/contact'), { token: owner, json: { keep_days: null } })).body.keep_days,
    null,
  );
});

test('a deleted form has no entries, and its project has room again', async () => {
  const made = await site();
  await enter(made, [['a', 'b']]);
  assert.is((await api.call('DELETE', at(made, '/contact'), { token: owner })).status, 204);
  assert.equal((await get(at(made))).items, []);
  assert.is((await api.call('DELETE', at(made, '/contact'), { token: owner })).status, 404);
  const [usage] = await api.onPlatform(
    'select entries, bytes::integer from platform.form_usage where project_id = $1',
    [made.id],
  );
  assert.equal(usage, { entries: 0, bytes: 0 });
});

test('another account finds no forms, and an entry is deleted only by its own path', async () => {
  const [made, neighbour] = [await site(), await site(other)];
  await enter(made, [['a', 'b']]);
  await enter(neighbour, [['a', 'b']]);
  const [{ id }] = await entriesOf(made);
  const calls: [string, string, object?][] = [
    ['GET', ''],
    ['GET', '/contact/entries'],
    ['GET', '/contact/entries.csv'],
    ['PATCH', '/contact', { keep_days: 1 }],
    ['DELETE', `/contact/entries/${id}`],
    ['DELETE', '/contact'],
  ];
  for (const [method, rest, json] of calls) {
    assert.is((await api.call(method, at(made, rest), { token: other, json })).status, 404, `${method} ${rest}`);
  }
  const crossed = await api.call('DELETE', at(neighbour, `/contact/entries/${id}`), { token: other });
  assert.is(crossed.status, 404);
  assert.is((await entriesOf(made)).length, 1);
  assert.is((await api.call('GET', at(made, '/%2e%2e/entries'), { token: owner })).status, 400);
});

test('the port for entries accepts only the present token, and is closed with the API', async () => {
  const made = await site();
  const probe = createServer();
  const origin = await listen(probe, '127.0.0.1:0');
  let token = 'first'.repeat(8);
  api.settings.forms = { listen: new URL(origin).host, token: () => token };
  assert.is(await api.restart().catch(({ code }) => code), 'EADDRINUSE');
  await endRequests(probe);
  await api.restart();
  const send = async (headers: Record<string, string> = {}, path = '/entries') => {
    const entry = { ref: made.ref, form: 'contact', fields: [['a', 'b']], flagged: null };
    return (await fetch(`${origin}${path}`, { method: 'POST', headers, body: JSON.stringify(entry) })).status;
  };
  const bearer = (value: string) => ({ authorization: `Bearer ${value}` });
  const first = bearer(token);
  assert.equal([await send(), await send(bearer('first')), await send(bearer(''))], [401, 401, 401]);
  assert.equal([await send(first), await send(first, '/health')], [201, 404]);
  token = 'second'.repeat(8);
  assert.equal([await send(first), await send(bearer(token))], [401, 201]);
  assert.is((await entriesOf(made)).length, 2);
  assert.is(await stat(SOCKET).catch(({ code }) => code), 'ENOENT');
  await api.stop();
  assert.is(await send(bearer(token)).catch(({ cause }) => cause.code), 'ECONNREFUSED');
});

test.run();
