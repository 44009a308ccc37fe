/** Tests projects of type app on one machine, through the public addresses. */
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { missingWall } from '@slipway/kaniko-build-wrapper';
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { appRepository, ECHO } from './apps.js';
import { buildEnded, deploy } from './deploys.js';
import { Management, type ProjectView } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { requestSite } from './site-request.js';

const TOKEN = 'token-of-the-owner';
const BUILD_MS = 120_000;

let platform: RunningPlatform;
let person: Management;

const workshop = new Workshop();
const host = await new GitServer(workshop, TOKEN).listen();
platform = await startPlatform(undefined, host.settings);
person = await Management.register(platform);
const { body: types } = await person.call<{ id: string; available: boolean; reason: string | null }[]>(
  'GET',
  '/backend-types',
);
const lacking = missingWall() ?? types.find(({ id }) => id === 'app')?.reason ?? undefined;
if (lacking) console.log(`# skipped: ${lacking}`);
const apps = suite('apps');
const test = lacking ? apps.skip : apps;

apps.after(async () => {
  await platform?.remove();
  host.close();
  workshop.close();
});

async function createApp(name: string): Promise<ProjectView> {
  const project = await person.untilHealthy((await person.createProject(name, undefined, 'app')).id);
  const source = { repo_url: `${host.origin}/${name}.git`, github_token: TOKEN };
  assert.is((await person.call('PATCH', `/projects/${project.id}`, source)).status, 200);
  return project;
}

async function deployed(project: ProjectView) {
  const build = await buildEnded(person, project, await deploy(person, project, 'compute/deploy'), BUILD_MS);
  const { body } = await person.call('GET', `/projects/${project.id}/build-logs`);
  return { ...build, log: JSON.stringify(body) };
}

async function page(project: ProjectView): Promise<{ version: number } & Record<string, unknown>> {
  return JSON.parse((await requestSite(project.project_url)).body);
}

test('a Dockerfile becomes an app at its own origin, and the next version replaces it', async () => {
  await appRepository(workshop, 'first', { 'app.js': ECHO });
  const project = await createApp('first');
  assert.is((await requestSite(project.project_url)).status, 503);
  const env_vars = { WORD: 'a "quoted" word' };
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { env_vars })).status, 200);
  const first = await deployed(project);
  assert.equal([first.phase, first.live], ['Deployed', true], first.log);
  await until(async () => (await requestSite(project.project_url)).status === 200, 'the app serves');
  const { version, WORD } = await page(project);
  assert.equal([version, WORD], [1, 'a "quoted" word']);
  await push('first', ECHO.replace('version: 1', 'version: 2'));
  const second = await deployed(project);
  assert.equal([second.phase, second.live], ['Deployed', true], second.log);
  await until(async () => (await page(project)).version === 2, 'the second version serves');
  const { body } = await person.call<{ services: Record<string, { up: boolean; status: string }> }>(
    'GET',
    `/projects/${project.id}/status`,
  );
  assert.is(body.services.app?.up, true, JSON.stringify(body));
});

interface StatusView {
  status: string;
  message: string;
  services: {
    app?: {
      up: boolean;
      status: string;
      restarts?: number;
      last_exit_code?: number;
      image?: string;
      started_at?: string;
    };
  };
  conditions: { type: string; status: string; reason: string; message: string }[];
}

const statusOf = async (project: ProjectView): Promise<StatusView> =>
  (await person.call<StatusView>('GET', `/projects/${project.id}/status`)).body;

/** Pushes another `app.js`. */
async function push(name: string, app: string): Promise<void> {
  writeFileSync(path.join(workshop.folder, 'trees', name, 'app.js'), app);
  workshop.commit(name);
}

let shared: ProjectView;

test('a process that listens elsewhere, or ends, leaves the version before, and the build says why', async () => {
  await appRepository(workshop, 'second', { 'app.js': ECHO });
  shared = await createApp('second');
  assert.is((await deployed(shared)).phase, 'Deployed');
  await until(async () => (await requestSite(shared.project_url)).status === 200, 'the app serves');
  await push('second', ECHO.replace('process.env.PORT', '3000'));
  const elsewhere = await deployed(shared);
  assert.is(elsewhere.phase, 'Failed');
  assert.match(elsewhere.message, /port 3000 instead of the port in PORT, which is 8080/);
  await push('second', 'console.error("no database"); process.exit(7);');
  const ended = await deployed(shared);
  assert.is(ended.phase, 'Failed');
  assert.match(ended.message, /exit code 7\. Its last output: no database/);
  assert.is((await page(shared)).version, 1);
  const { status, services } = await statusOf(shared);
  assert.equal([status, services.app?.up], ['healthy', true]);
});

test('changed variables and a restart replace the container without a failed request', async () => {
  const failures: string[] = [];
  const load = setInterval(() => {
    requestSite(shared.project_url).then(
      ({ status }) => status === 200 || failures.push(String(status)),
      (error: Error) => failures.push(error.message),
    );
  }, 20);
  try {
    const env_vars = { WORD: 'changed' };
    assert.is((await person.call('PATCH', `/projects/${shared.id}`, { env_vars })).status, 200);
    await until(async () => (await page(shared)).WORD === 'changed', 'the app has its variable');
    const before = (await statusOf(shared)).services.app?.started_at;
    assert.is((await person.call('POST', `/projects/${shared.id}/compute/restart`)).status, 200);
    await until(
      async () => (await statusOf(shared)).services.app?.started_at !== before,
      'the container started again',
    );
    await sleep(2_000);
  } finally {
    clearInterval(load);
  }
  assert.equal(failures, []);
});

test('a container whose process ends starts again, and the status shows it', async () => {
  await push(
    'second',
    ECHO.replace("'node:http');", "'node:http');\nprocess.on('SIGUSR2', () => process.exit(3));").replace(
      'const { PORT',
      "if (request.url === '/end') process.kill(process.pid, 'SIGUSR2');\n  const { PORT",
    ),
  );
  assert.is((await deployed(shared)).phase, 'Deployed');
  await requestSite(shared.project_url, '/end').catch(() => undefined);
  await until(async () => (await statusOf(shared)).services.app?.restarts === 1, 'it has started again');
  await until(async () => (await requestSite(shared.project_url)).status === 200, 'it serves again');
  assert.is((await statusOf(shared)).services.app?.last_exit_code, 3);
});

test('a rollback serves the version before', async () => {
  const { body } = await person.call<{ message: string }>('POST', `/projects/${shared.id}/compute/rollback`, {});
  const build = await buildEnded(person, shared, body.message.split(' ')[0] as string, BUILD_MS);
  assert.is(build.phase, 'Deployed', build.message);
  await until(async () => (await requestSite(shared.project_url, '/end')).status === 200, 'that version serves');
});

test('a suspended app ends, and a resumed one serves', async () => {
  assert.is((await person.call('PATCH', `/projects/${shared.id}`, { suspended: true })).status, 200);
  await until(async () => (await requestSite(shared.project_url)).status === 503, 'it refuses requests');
  await until(() => containersOf(shared).length === 0, 'its processes have ended');
  assert.is((await person.call('PATCH', `/projects/${shared.id}`, { suspended: false })).status, 200);
  await until(async () => (await requestSite(shared.project_url)).status === 200, 'it serves again');
});

test('a deleted app leaves no process, mount, network, group or number', async () => {
  assert.is((await person.call('DELETE', `/projects/${shared.id}`)).status, 200);
  await person.untilGone(shared.id);
  assert.equal(containersOf(shared), []);
  const mounts = readFileSync('/proc/mounts', 'utf8');
  const home = path.join(platform.home, 'apps', shared.ref);
  assert.not.ok(existsSync(home));
  const numbers = readdirSync('/var/lib/slipway-apps').map((name) => readlinkSync(`/var/lib/slipway-apps/${name}`));
  assert.not.ok(numbers.includes(home));
  assert.not.match(mounts, new RegExp(`slipway-${shared.ref}-`));
});

/** Returns the processes of the project's engine, whose arguments name its containers. */
function containersOf({ ref }: ProjectView): string[] {
  const { stdout } = spawnSync('ps', ['-e', '-o', 'args='], { encoding: 'utf8' });
  return stdout.split('\n').filter((line) => line.includes(`slipway-${ref}-`));
}

apps.run();
