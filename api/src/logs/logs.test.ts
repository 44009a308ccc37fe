/** Tests the route for logs of a project's services. A small server replaces the data plane. */
import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, type TestApi } from '../testing.js';
import { follow as followLog } from './follow.testing.js';

const socket = path.join(tmpdir(), `slipway-logs-${process.pid}.sock`);
const LINE = { time: '2026-01-05T10:00:00.000Z', level: 'error', message: 'mail not sent', reason: 'EAUTH' };
let answer: { status: number; body: string };
let asked: string[] = [];
const server = createServer((incoming, outgoing) => {
  asked.push(incoming.url ?? '');
  outgoing.writeHead(answer.status).end(answer.body);
});

let api: TestApi;
let person: Awaited<ReturnType<typeof register>>;

test.before(async () => {
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  api = await startTestApi({ projectLogs: { socketPath: socket }, functionsSocket: socket });
  person = await register(api);
});
test.before.each(() => {
  answer = { status: 200, body: JSON.stringify([LINE]) };
  asked = [];
});
test.after(async () => {
  server.close();
  await api?.close();
  rmSync(socket, { force: true });
});

async function makeProject(ref: string, type: 'shared' | 'app' = 'shared') {
  await api.operator.apply(ref, { owner: person.email, type });
  const { body } = await until(
    () => api.call('GET', `/projects?name=${ref}`, { token: person.token }),
    ({ body: found }) => found.length === 1,
  );
  const { id } = body[0] as { id: number };
  return (rest: string, token = person.token) => api.call('GET', `/projects/${id}/logs/${rest}`, { token });
}

test('lines come from the data plane, for the query', async () => {
  const read = await makeProject('logs-one');
  const { status, body } = await read('auth?level=warn&since=2026-01-05T09:00:00Z&limit=7');
  assert.equal([status, body], [200, { items: [LINE] }]);
  assert.equal(asked, [`/logs-one/auth?level=warn&since=${Date.parse('2026-01-05T09:00:00Z')}&limit=7`]);
  await read('rest');
  assert.is(asked[1], '/logs-one/rest?level=info&since=0&limit=100');
});

test('the log of functions has the lines of all of them, by level and time', async () => {
  const read = await makeProject('logs-functions');
  const line = (second: number, level: string, name: string) => ({
    sequence: second,
    time: `2026-01-05T10:00:0${second}.000Z`,
    level,
    version: 3,
    message: `line ${second}`,
    function: name,
  });
  answer = { status: 200, body: JSON.stringify([line(1, 'system', 'a'), line(2, 'error', 'b'), line(3, 'info', 'a')]) };
  const shown = (rest: string) =>
    read(`functions${rest}`).then(({ body }) =>
      body.items.map(({ level, message, ...more }: Record<string, unknown>) => [level, message, more.function]),
    );
  assert.equal(await shown(''), [
    ['info', 'line 1', 'a'],
    ['error', 'line 2', 'b'],
    ['info', 'line 3', 'a'],
  ]);
  assert.equal(await shown('?level=error'), [['error', 'line 2', 'b']]);
  assert.equal(await shown('?since=2026-01-05T10:00:02Z&limit=1'), [['info', 'line 3', 'a']]);
  assert.is(asked[0], '/logs-functions//logs?limit=1000');
});

test('an unknown service, level, time or number is a 400 that names it', async () => {
  const read = await makeProject('logs-two');
  for (const [rest, field] of [
    ['nginx', 'service'],
    ['..%2fother%2fauth', 'service'],
    ['auth?level=all', 'level'],
    ['auth?since=yesterday', 'since'],
    ['auth?since=2026-06-30T23:59:60Z', 'since'],
    ['functions?since=2026-06-30T23:59:60Z', 'since'],
    ['auth?limit=1001', 'limit'],
    ['auth?limit=0', 'limit'],
    ['auth?more=1', 'more'],
  ] as const) {
    const { status, body } = await read(rest);
    assert.equal([status, body.errors?.[0]?.field], [400, field], rest);
  }
  assert.equal(asked, []);
});

test('another account and a project without a database get no lines', async () => {
  const read = await makeProject('logs-three');
  assert.is((await read('auth', (await register(api)).token)).status, 404);
  const { status, body } = await (await makeProject('logs-app', 'app'))('auth');
  assert.equal([status, body.code], [400, 'no_database']);
  assert.equal(asked, []);
});

const follow = (url: string, enough: (text: string) => boolean, headers: Record<string, string> = {}) =>
  followLog(url, enough, { socketPath: api.settings.listen, token: person.token, headers });

const eventsIn = (text: string) =>
  [...text.matchAll(/event: (\w+)\nid: (\S+)\ndata: (.*)\n/g)].map(([, event, id, data]) => [
    event,
    id,
    JSON.parse(data ?? ''),
  ]);

test('a followed log has one event for each line, also of one millisecond, and continues after an id', async () => {
  const ref = 'logs-live';
  await makeProject(ref);
  const { body } = await api.call('GET', `/projects?name=${ref}`, { token: person.token });
  const url = `/projects/${body[0].id}/logs/auth`;
  const line = (message: string, time = LINE.time) => ({ time, level: 'warn', message });
  const ms = Date.parse(LINE.time);
  answer = { status: 200, body: JSON.stringify([line('one'), line('two\n\nevent: forged')]) };
  const first = await follow(url, (text) => text.includes('"two'));
  assert.equal(eventsIn(first.text), [
    ['line', `${ms}-1`, line('one')],
    ['line', `${ms}-2`, line('two\n\nevent: forged')],
  ]);
  const following = follow(url, (text) => text.includes('"four'), { 'last-event-id': `${ms}-1` });
  await until(() => asked.some((path) => path.includes(`since=${ms}&`)), 'the second look');
  const later = '2026-01-05T10:00:01.000Z';
  answer = { status: 200, body: JSON.stringify([line('one'), line('two'), line('three'), line('four', later)]) };
  const rest = eventsIn((await following).text).map(([, id, data]) => [id, data.message]);
  assert.equal(rest, [
    [`${ms}-2`, 'two\n\nevent: forged'],
    [`${ms}-3`, 'three'],
    [`${Date.parse(later)}-1`, 'four'],
  ]);
  assert.is((await follow(url, () => false, { 'last-event-id': '12' })).status, 400);
  assert.is((await follow(`${url}?level=all`, () => false)).status, 400);
});

test('a followed log ends when the project is removed', async () => {
  const ref = 'logs-ending';
  await makeProject(ref);
  const { body } = await api.call('GET', `/projects?name=${ref}`, { token: person.token });
  const following = follow(`/projects/${body[0].id}/logs/auth`, () => false);
  await until(() => asked.length > 1, 'the first look');
  await api.operator.remove(ref);
  const { text } = await following;
  assert.is(eventsIn(text).at(-1)?.[0], 'end');
});

test('a data plane that fails, or does not know the project yet, is no error of the caller', async () => {
  const read = await makeProject('logs-four');
  answer = { status: 404, body: '{}' };
  assert.equal((await read('auth')).body, { items: [] });
  answer = { status: 500, body: '{}' };
  assert.is((await read('auth')).status, 503);
  answer = { status: 200, body: ' '.repeat(2 * 1024 * 1024) };
  assert.is((await read('auth')).status, 503);
});

test.run();
