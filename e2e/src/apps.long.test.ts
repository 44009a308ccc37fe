/** Tests projects of type app on one machine, through the public addresses. */
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
  await appRepository(workshop, 'first', { 'app.js': ECHO.replace('version: 1', 'version: 2') });
  const second = await deployed(project);
  assert.equal([second.phase, second.live], ['Deployed', true], second.log);
  await until(async () => (await page(project)).version === 2, 'the second version serves');
  const { body } = await person.call<{ services: Record<string, { up: boolean; status: string }> }>(
    'GET',
    `/projects/${project.id}/status`,
  );
  assert.is(body.services.app?.up, true, JSON.stringify(body));
});

apps.run();
