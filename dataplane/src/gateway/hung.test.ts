/** Tests a project that hangs the data plane: the exit, the restart, and the pause of the project after the restart. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { hashedRef } from '@slipway/installation';
import { HUNG_EXIT_CODE, readHangs } from '@slipway/program';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { PausedProjects } from '../projects/paused-projects.js';
import { signedKeys } from '../testing/tenant.js';

const LIMIT_MS = 300;
const MINUTE_MS = 60_000;
const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
const record = path.join(folder, 'hangs.json');
const secrets = { bad: 'the secret of a project that hangs', neighbour: 'the secret of its neighbour' };
const children: ChildProcess[] = [];

test.after(() => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(folder, { recursive: true });
});

async function start() {
  const main = fileURLToPath(new URL('./hung.testing.js', import.meta.url));
  const child = fork(main, [record, String(LIMIT_MS), JSON.stringify(secrets)], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  children.push(child);
  let output = '';
  child.stdout?.on('data', (chunk) => {
    output += chunk;
  });
  const [url] = (await once(child, 'message')) as [string];
  const send = async (ref: keyof typeof secrets, target: string, init: RequestInit = {}) => {
    const { anonKey: apikey } = await signedKeys(secrets[ref]);
    return fetch(`${url}/p/${ref}/rest/v1${target}`, { ...init, headers: { apikey } });
  };
  const hang = async (target: string, init?: RequestInit) => {
    const closed = once(child, 'close');
    const [[code]] = await Promise.all([closed, send('bad', target, init).catch(() => undefined)]);
    assert.is(code, HUNG_EXIT_CODE);
    return output;
  };
  return { child, url, send, hang };
}

test('a project that hung the data plane twice gets 503 after the restart, and other projects are served', async () => {
  const first = await start();
  const line = await first.hang('/spin?apikey=canary-of-the-query');
  assert.equal(
    { ...JSON.parse(line), time: 0, pid: 0 },
    {
      ...{ level: 60, time: 0, pid: 0, program: 'dataplane', project: 'bad', operation: 'rest request' },
      ...{ processorSeconds: LIMIT_MS / 1000, exitCode: HUNG_EXIT_CODE, msg: 'program hung' },
    },
  );

  const second = await start();
  assert.is((await second.send('bad', '/')).status, 200);
  await second.hang('/body', { method: 'POST', body: 'canary of the body' });

  const third = await start();
  const refused = await third.send('bad', '/');
  const body = (await refused.json()) as Record<string, string>;
  assert.equal([refused.status, body.code], [503, 'project_paused']);
  assert.match(body.message as string, /^The project is paused until 20.*the data plane stopped.*\(rest request\)\.$/);
  const seconds = Number(refused.headers.get('retry-after'));
  assert.ok(seconds > 500 && seconds <= 600, `${seconds}`);
  assert.match(refused.headers.get('proxy-status') as string, /^slipway; error=project_paused; details="until 20/);
  const ready = (await (await fetch(`${third.url}/readyz`)).json()) as { paused: Record<string, string> };
  assert.equal(Object.keys(ready.paused), [hashedRef('bad')]);
  assert.match(ready.paused[hashedRef('bad')] as string, /^until 20.*, rest request$/);
  const served = await third.send('neighbour', '/', { method: 'POST', body: 'text' });
  assert.equal([served.status, await served.text()], [200, 'served 4']);
  third.child.kill();
});

test('a hang in a later turn is logged without a project, and no project is paused', async () => {
  rmSync(record);
  const { hang } = await start();
  const { project, operation } = JSON.parse(await hang('/late'));
  assert.equal([project, operation], ['', '']);
  assert.equal(readHangs(record), []);
});

test('a start with a corrupt record of hangs pauses no project', async () => {
  for (const text of ['', '{', '[{"at":"now","project":"bad"},null,7]', 'null']) {
    writeFileSync(record, text);
    assert.equal(readHangs(record), []);
  }
});

test('a project is paused for ten minutes after a second hang within an hour', () => {
  const hangsAt = (...minutes: number[]) =>
    minutes.map((minute) => ({ at: minute * MINUTE_MS, project: 'bad', operation: 'rest request' }));
  const isPaused = (hangs: ReturnType<typeof hangsAt>, minute: number) =>
    new PausedProjects(hangs, () => minute * MINUTE_MS).find('bad') !== undefined;
  assert.not(isPaused(hangsAt(100), 100));
  assert.ok(isPaused(hangsAt(100, 160), 169));
  assert.not(isPaused(hangsAt(100, 160), 170));
  assert.not(isPaused(hangsAt(100, 161), 161));
  assert.ok(isPaused(hangsAt(100, 101, 130), 139));
  assert.not(isPaused(hangsAt(100, 101), 99));

  let now = 169 * MINUTE_MS;
  const paused = new PausedProjects(hangsAt(160, 161), () => now);
  assert.equal(paused.find('bad'), { until: 171 * MINUTE_MS, operation: 'rest request' });
  assert.is(paused.find('neighbour'), undefined);
  now = 171 * MINUTE_MS;
  assert.is(paused.find('bad'), undefined);
});

test.run();
