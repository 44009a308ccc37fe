/** Tests the route that reads the output of an app. The test writes the output in place of the operator. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { AppLogs } from '@slipway/sites';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FOLLOWERS } from '../live/followers.js';
import { type CallOptions, register } from '../testing.js';
import { LOG_BYTES } from './apps.service.js';
import { followLog, type LogReader } from './log-reader.testing.js';
import { type Deploys, type Site, startDeploys } from './testing.js';

const LIMIT = 4 * LOG_BYTES;
const buildsFolder = mkdtempSync(path.join(tmpdir(), 'slipway-app-logs-'));
const logs = new AppLogs(path.join(buildsFolder, 'app-logs'));
let deploys: Deploys;
test.before(async () => {
  deploys = await startDeploys({ buildsFolder });
});
test.after(async () => {
  await deploys.api.close();
  rmSync(buildsFolder, { recursive: true, force: true });
});

const pathOf = ({ id }: Site, query = '') => `/projects/${id}/compute/logs${query}`;
const read = (app: Site, query = '', options: CallOptions = {}) =>
  deploys.api.call('GET', pathOf(app, query), { token: deploys.owner.token, ...options });
const follow = (app: Site, headers: Record<string, string> = {}, query = ''): Promise<LogReader> =>
  followLog(deploys, pathOf(app, query), headers);
const print = ({ ref }: Site, text: string, limit = LIMIT) => logs.append(ref, Buffer.from(text), limit);
const linesTo = (count: number) => Array.from({ length: count }, (_, index) => `line ${index + 1}\n`);

test('the last lines are returned, 200 by default', async () => {
  const app = await deploys.makeApp();
  assert.is((await read(app)).body, '', 'before the first deploy');
  const lines = linesTo(300);
  await print(app, lines.join(''));
  const plain = await read(app);
  assert.is(plain.headers['content-type'], 'text/plain; charset=utf-8');
  assert.is(plain.body, lines.slice(-200).join(''));
  assert.is((await read(app, '?lines=1')).body, 'line 300\n');
  assert.is((await read(app, '?lines=10000')).body, lines.join(''));
  await print(app, 'not yet ended');
  assert.is((await read(app, '?lines=2')).body, 'line 300\nnot yet ended');
  for (const query of ['?lines=0', '?lines=10001', '?lines=x', '?line=3']) {
    assert.is((await read(app, query)).status, 400, query);
  }
});

test('no more than 1 MiB of the last lines is returned', async () => {
  const app = await deploys.makeApp();
  const piece = `${'ä'.repeat(50_000)}\n`;
  for (let count = 0; count < 30; count += 1) await print(app, piece);
  const { body } = await read(app, '?lines=10000');
  const bytes = Buffer.byteLength(body);
  assert.ok(bytes > LOG_BYTES / 2 && bytes <= LOG_BYTES + 2, `${bytes} bytes`);
  assert.is((await read(app, '?lines=2')).body, piece.repeat(2));
});

test('a reader follows the output from its last lines on, until the project is removed', async () => {
  const app = await deploys.makeApp();
  await print(app, linesTo(5).join(''));
  const reader = await follow(app, {}, '?lines=2');
  await until(() => reader.output === 'line 4\nline 5\n', 'the last lines');
  await print(app, 'event: forged\n\n');
  await until(() => reader.output.endsWith('forged\n\n'), 'the next line');
  assert.not.ok(reader.ended);
  await deploys.api.operator.remove(app.ref);
  await until(() => reader.ended, 'the end');
  assert.equal([...new Set(reader.events.map(({ event }) => event))], ['log', 'end']);
});

test('a reader continues after the position in Last-Event-ID, and reads what it missed', async () => {
  const app = await deploys.makeApp();
  await print(app, 'seen not seen\n', 64);
  const rest = await follow(app, { 'last-event-id': '5' });
  await until(() => rest.output === 'not seen\n', 'the rest');
  rest.response.destroy();
  for (const line of linesTo(30)) await print(app, line, 64);
  const late = await follow(app, { 'last-event-id': '5' });
  await until(() => late.output.endsWith('line 30\n'), 'the newest output');
  const [skipped] = late.events;
  const { start } = await logs.kept(app.ref);
  assert.equal(skipped, { event: 'skipped', id: start, data: { bytes: start - 5 } });
  late.response.destroy();
  assert.is((await follow(app, { 'last-event-id': 'x' })).response.statusCode, 400);
});

test('an output is read by its owner alone, and that of an app alone', async () => {
  const app = await deploys.makeApp();
  const site = await deploys.makeSite();
  const stranger = await register(deploys.api);
  assert.is((await read(app, '', { token: stranger.token })).status, 404);
  assert.is((await read(app, '', { token: '' })).status, 401);
  const refused = await read(site);
  assert.equal([refused.status, refused.body.code], [400, 'wrong_type']);
  assert.match(refused.body.detail, '/builds/{buildId}/logs');
  const json = { name: 'narrow', scopes: ['functions:read'] };
  const narrow = (await deploys.api.call('POST', '/tokens', { token: deploys.owner.token, json })).body.token;
  assert.is((await read(app, '', { token: narrow })).status, 403);
});

test('followers of outputs of apps and of builds count together', async () => {
  const app = await deploys.makeApp();
  const readers = [];
  for (let count = 0; count < FOLLOWERS.ofProject; count += 1) readers.push(await follow(app));
  assert.is((await follow(app)).response.statusCode, 429);
  assert.is((await read(app)).status, 200, 'plain text has no such limit');
  for (const { response } of readers) response.destroy();
});

test.run();
