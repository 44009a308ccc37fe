/**
 * Tests live logs of builds, as server-sent events on real connections. The test writes the log in place of the
 * operator.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { BuildStatus } from '@slipway/crds';
import { BuildLogs, type BuildLogWriter } from '@slipway/sites';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FOLLOWERS } from '../live/followers.js';
import { followLog, type LogReader } from './log-reader.testing.js';
import { buildsPath, type Deploys, type Site, startDeploys } from './testing.js';

const buildsFolder = mkdtempSync(path.join(tmpdir(), 'slipway-builds-'));
const logs = new BuildLogs(path.join(buildsFolder, 'logs'));
let deploys: Deploys;
test.before(async () => {
  deploys = await startDeploys({ buildsFolder });
});
test.after(async () => {
  await deploys.api.close();
  rmSync(buildsFolder, { recursive: true, force: true });
});

const setPhase = ({ ref }: Site, phase: BuildStatus['phase']) =>
  deploys.api.operator.client.patch(`${buildsPath(ref)}/build-1/status`, { status: { phase } });

/** Creates a site with a running build, and the log of that build. */
async function running(): Promise<{ site: Site; log: BuildLogWriter }> {
  const { api, owner } = deploys;
  const site = await deploys.makeSite();
  await api.call('POST', `/projects/${site.id}/deploy`, { token: owner.token });
  await setPhase(site, 'Cloning');
  return { site, log: await logs.write(site.ref, 'build-1', 1024 * 1024) };
}

const follow = (site: Site, headers: Record<string, string> = {}): Promise<LogReader> =>
  followLog(deploys, `/projects/${site.id}/builds/1/logs`, headers);

test('a reader follows the log of a running build to its end, and the last event has the phase', async () => {
  const { site, log } = await running();
  log.append('Cloning', 'commit ä\r\nevent: forged\n\n');
  const reader = await follow(site);
  assert.is(reader.response.headers['content-type'], 'text/event-stream; charset=utf-8');
  await until(() => reader.output.endsWith('forged\n\n'), 'the first output');
  log.append('Building', 'built 🚀\n');
  await until(() => reader.output.endsWith('🚀\n'), 'the next output');
  assert.not.ok(reader.ended);
  log.append('Building', 'last line');
  await log.end();
  await setPhase(site, 'Deployed');
  await until(() => reader.ended, 'the end');
  const all = 'commit ä\r\nevent: forged\n\nbuilt 🚀\nlast line';
  assert.is(reader.output, all);
  const last = reader.events.at(-1);
  assert.equal(last, { event: 'end', id: Buffer.byteLength(all), data: { phase: 'Deployed' } });
  assert.equal([...new Set(reader.events.map(({ event }) => event))], ['log', 'end']);
});

test('a log continues after the byte in Last-Event-ID, or starts over if the log is shorter than that', async () => {
  const { site, log } = await running();
  log.append('Cloning', 'seen ');
  log.append('Building', 'not seen');
  await log.end();
  await setPhase(site, 'Failed');
  const rest = await follow(site, { 'last-event-id': '5' });
  await until(() => rest.ended, 'the end');
  assert.equal([rest.output, rest.events.at(-1)?.data], ['not seen', { phase: 'Failed' }]);
  const anew = await follow(site, { 'last-event-id': '5000' });
  await until(() => anew.ended, 'the end');
  assert.equal([anew.events[0]?.event, anew.output], ['restart', 'seen not seen']);
  for (const id of ['x', '-1', '1e3', '9'.repeat(16)]) {
    assert.is((await follow(site, { 'last-event-id': id })).response.statusCode, 400, id);
  }
});

test('a project has a limited number of followers, and a closed connection frees its place', async () => {
  const { site } = await running();
  const readers = [];
  for (let count = 0; count < FOLLOWERS.ofProject; count += 1) readers.push(await follow(site));
  const refused = await follow(site);
  assert.is(refused.response.statusCode, 429);
  assert.ok(Number(refused.response.headers['retry-after']) > 0);
  assert.is((await follow(site, { accept: 'text/plain' })).response.statusCode, 200, 'plain text has no such limit');
  readers[0]?.response.destroy();
  const next = await until(async () => {
    const reader = await follow(site);
    return reader.response.statusCode === 200 ? reader : undefined;
  }, 'a place');
  for (const { response } of [...readers, next]) response.destroy();
});

test('a reader that reads nothing blocks neither the log, nor other readers, nor the end of the API', async () => {
  const { site, log } = await running();
  const slow = await follow(site);
  slow.response.pause();
  // Pieces of the output end within characters.
  const line = `x${'ä'.repeat(511)}`;
  for (let count = 0; count < 800; count += 1) log.append('Building', line);
  await log.end();
  const quick = await follow(site);
  await until(() => quick.output.length >= 800 * line.length, 'the whole output');
  assert.ok(quick.output === line.repeat(800));
  await deploys.api.restart();
  await until(() => quick.ended, 'the connection is closed');
});

test.run();
