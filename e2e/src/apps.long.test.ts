/** Tests projects of type app on one machine, through the public addresses. */
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  createApp,
  deployed,
  dockerfileOf,
  echoOf,
  enginesOf,
  leftoversOf,
  openApps,
  page,
  push,
  statusOf,
} from './apps.js';
import { buildEnded } from './deploys.js';
import type { ProjectView } from './management.js';
import { startPlatform } from './platform.js';
import { requestSite } from './site-request.js';

const DEPLOYS = 10;
const REQUESTS_A_SECOND = 50;

const scene = await openApps('token-of-the-owner');
const { own, lacking } = scene;
const { person, workshop } = own;
const apps = suite('apps');
const test = lacking ? apps.skip : apps;

apps.after(() => scene.close());

/** Requests the app 50 times a second while the work lasts. Returns the failed requests. */
async function underLoad({ project_url }: ProjectView, work: () => Promise<void>): Promise<string[]> {
  const failures: string[] = [];
  const pending = new Set<Promise<void>>();
  const ask = async () => {
    const failure = await requestSite(project_url).then(
      ({ status, body }) => (status === 200 ? undefined : `${status}: ${body}`),
      (error: Error) => error.message,
    );
    if (failure !== undefined) failures.push(failure);
  };
  const load = setInterval(() => {
    const asked = ask().finally(() => pending.delete(asked));
    pending.add(asked);
  }, 1000 / REQUESTS_A_SECOND);
  try {
    await work();
    await sleep(2_000);
  } finally {
    clearInterval(load);
  }
  await Promise.all(pending);
  return failures;
}

const logOf = (route: string, query: string, accept = 'text/plain'): Promise<Response> =>
  fetch(`${scene.platform.url}${route}${query}`, { headers: { authorization: `Bearer ${person.token}`, accept } });

let project: ProjectView;

test('a Dockerfile becomes an app at its own origin, and the next version replaces it', async () => {
  project = await createApp(own, 'first');
  assert.is((await requestSite(project.project_url)).status, 503);
  const env_vars = { WORD: 'a "quoted" word', LINES: 'one\ntwo' };
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { env_vars })).status, 200);
  const first = await deployed(own, project);
  assert.equal([first.phase, first.live], ['Deployed', true], first.log);
  await until(() => page(project), 'the app serves');
  const { version, WORD, LINES, PORT } = (await page(project)) ?? {};
  assert.equal([version, WORD, LINES, PORT], [1, 'a "quoted" word', 'one\ntwo', '8080']);
  push(own, 'first', { 'app.js': echoOf(2) });
  const second = await deployed(own, project);
  assert.equal([second.phase, second.live], ['Deployed', true], second.log);
  await until(async () => (await page(project))?.version === 2, 'the second version serves');
  assert.is((await statusOf(person, project)).services.app?.up, true);
});

test('a process that listens elsewhere, or ends, leaves the version before, and the build says why', async () => {
  push(own, 'first', { 'app.js': echoOf(3, 'server.listen(3000);') });
  const elsewhere = await deployed(own, project);
  assert.is(elsewhere.phase, 'Failed');
  assert.match(elsewhere.message, /port 3000 instead of the port in PORT, which is 8080/);
  push(own, 'first', { 'app.js': 'console.error("\\u001b[31mno database"); process.exit(7);' });
  const ended = await deployed(own, project);
  assert.is(ended.phase, 'Failed');
  assert.match(ended.message, /exit code 7\. Its last output: \[31mno database/);
  assert.is((await page(project))?.version, 2);
  const { status, services } = await statusOf(person, project);
  assert.equal([status, services.app?.up], ['healthy', true]);
});

test('a wrong Dockerfile, and none, end the build with the reason', async () => {
  push(own, 'first', { Dockerfile: dockerfileOf('RUN exit 5') });
  const wrong = await deployed(own, project);
  assert.is(wrong.phase, 'Failed');
  assert.match(wrong.message, /A step of the Dockerfile ended with exit code/);
  assert.match(wrong.log, /exit 5/);
  workshop.git(`${workshop.folder}/trees/first`, 'rm', '--quiet', '-f', 'Dockerfile');
  workshop.commit('first');
  const none = await deployed(own, project);
  assert.is(none.phase, 'Failed');
  assert.match(none.message, /has no Dockerfile/);
  push(own, 'first', { Dockerfile: dockerfileOf(), 'app.js': echoOf(2) });
  assert.is((await page(project))?.version, 2);
});

test('changed variables and a restart replace the container without a failed request', async () => {
  const failures = await underLoad(project, async () => {
    const env_vars = { WORD: 'changed' };
    assert.is((await person.call('PATCH', `/projects/${project.id}`, { env_vars })).status, 200);
    await until(async () => (await page(project))?.WORD === 'changed', 'the app has its variable');
    const before = (await statusOf(person, project)).services.app?.started_at;
    assert.is((await person.call('POST', `/projects/${project.id}/compute/restart`)).status, 200);
    await until(async () => (await statusOf(person, project)).services.app?.started_at !== before, 'it started again');
  });
  assert.equal(failures, []);
});

test('a step of a build mounts the variables for builds, and the log has no value of them', async () => {
  const env_vars = [
    { key: 'WORD', value: 'a-token-of-builds', target: 'build' },
    { key: 'LINES', value: 'one\ntwo', target: 'all' },
  ];
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { env_vars })).status, 200);
  const mounts = '--mount=type=secret,id=WORD,required=true --mount=type=secret,id=LINES,target=/etc/lines';
  const reads = 'read -r word </run/secrets/WORD; { read -r one; read -r two; } </etc/lines';
  const step = `RUN ${mounts} ${reads}; echo "the token $word, then $two and $one"`;
  push(own, 'first', { Dockerfile: dockerfileOf(step), 'app.js': echoOf(3) });
  const build = await deployed(own, project);
  assert.is(build.phase, 'Deployed', build.log);
  const headers = { authorization: `Bearer ${person.token}` };
  const log = await (
    await fetch(`${scene.platform.url}/projects/${project.id}/builds/${build.id}/logs`, { headers })
  ).text();
  assert.match(log, /the token \[redacted\], then two and one/);
  assert.not.match(log, /a-token-of-builds/);
  await until(async () => (await page(project))?.version === 3, 'that version serves');
  const { WORD, LINES } = (await page(project)) ?? {};
  assert.equal([WORD, LINES], [undefined, 'one\ntwo']);
  push(own, 'first', { Dockerfile: dockerfileOf(), 'app.js': echoOf(2) });
});

test('ten deploys under 50 requests a second lose no request', async () => {
  const failures = await underLoad(project, async () => {
    for (let version = 10; version < 10 + DEPLOYS; version += 1) {
      push(own, 'first', { 'app.js': echoOf(version) });
      const build = await deployed(own, project);
      assert.is(build.phase, 'Deployed', build.log);
      await until(async () => (await page(project))?.version === version, `version ${version} serves`);
    }
  });
  assert.equal(failures, []);
});

test('a rollback serves the version before', async () => {
  const { body } = await person.call<{ message: string }>('POST', `/projects/${project.id}/compute/rollback`, {});
  const build = await buildEnded(person, project, body.message.split(' ')[0] as string, 60_000);
  assert.is(build.phase, 'Deployed', build.message);
  await until(async () => (await page(project))?.version === 8 + DEPLOYS, 'that version serves');
});

test('a container whose process ends starts again, and the status shows it', async () => {
  await requestSite(project.project_url, '/end').catch(() => undefined);
  await until(async () => (await statusOf(person, project)).services.app?.restarts === 1, 'it has started again');
  await until(() => page(project), 'it serves again');
  assert.is((await statusOf(person, project)).services.app?.last_exit_code, 3);
});

test('a suspended app ends, and a resumed one serves', async () => {
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { suspended: true })).status, 200);
  await until(async () => (await requestSite(project.project_url)).status === 503, 'it refuses requests');
  await until(() => enginesOf(project).length === 0, 'its processes have ended');
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { suspended: false })).status, 200);
  await until(() => page(project), 'it serves again');
});

test('a platform that was stopped has no container, and one that starts again has the same', async () => {
  await scene.platform.stop();
  assert.equal(enginesOf(project), []);
  scene.platform = await startPlatform(scene.platform, scene.settings);
  await until(() => page(project).catch(() => undefined), 'it serves again');
});

test('the output of all containers of an app is read over REST, and followed', async () => {
  const route = `/projects/${project.id}/compute/logs`;
  const body = await logOf(route, '?lines=10000').then((response) => response.text());
  for (const line of [
    'slipway: the container of build-1 starts',
    'version 1',
    'slipway: the container of build-1 serves',
    /the container of build-3 is removed: .* port 3000 instead of the port in PORT/,
    /no database/,
    'slipway: the process ended with exit code 3, and starts again now',
  ]) {
    const pattern = new RegExp(`^\\d{4}-\\S+Z .*${line instanceof RegExp ? line.source : line}.*$`, 'm');
    assert.match(body, pattern);
  }
  assert.is(body.match(/no database/g)?.length, 1, body);
  const last = await logOf(route, '?lines=1').then((response) => response.text());
  const events = (await logOf(route, '?lines=1', 'text/event-stream')).body as ReadableStream<Uint8Array>;
  await requestSite(project.project_url, '/say/hello');
  let text = '';
  for await (const piece of events) {
    text += Buffer.from(piece).toString();
    if (text.includes('/say/hello')) break;
  }
  assert.ok(text.includes(JSON.stringify(last).slice(1, -1)), 'the last line');
});

test('an app that was never deployed leaves nothing on the machine', async () => {
  const never = await createApp(own, 'never');
  assert.is((await person.call('DELETE', `/projects/${never.id}`)).status, 200);
  await person.untilGone(never.id);
  assert.equal(leftoversOf(scene.platform, never), []);
});

test('a deleted app leaves nothing on the machine', async () => {
  assert.is((await person.call('DELETE', `/projects/${project.id}`)).status, 200);
  await person.untilGone(project.id);
  assert.equal(leftoversOf(scene.platform, project), []);
});

apps.run();
