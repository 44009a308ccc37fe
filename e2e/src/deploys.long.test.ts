/** Tests deploys on one machine, from a real git server to the served page. */
import { readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { API_VERSION, type Build, type Project } from '@slipway/crds';
import { namespaceOf } from '@slipway/installation';
import { missingWall } from '@slipway/kaniko-build-wrapper';
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { withClient } from '@slipway/kubernetes/testing.js';
import { until } from '@slipway/testing';
import { test as always, suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type BuildView, buildEnded, buildsOf, createSite, deliver, deploy } from './deploys.js';
import { followPage, type Page } from './docs-shell.js';
import { Management, type ProjectView } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { processTree } from './processes.js';
import { requestSite } from './site-request.js';

const TOKEN = 'token-of-the-owner';
const missing = missingWall();
const test = suite('deploys on one machine');

let platform: RunningPlatform;
let person: Management;
let workshop: Workshop;
let host: GitServer;

test.before(async () => {
  workshop = new Workshop();
  host = await new GitServer(workshop, TOKEN).listen();
  platform = await startPlatform(undefined, host.settings);
  await Management.register(platform);
  person = await Management.register(platform);
});
test.after(async () => {
  await platform?.remove();
  host?.close();
  workshop?.close();
});

interface Answer {
  status: number;
  body: string;
  robots: string | string[] | undefined;
}

async function page({ project_url }: Pick<ProjectView, 'project_url'>): Promise<Answer> {
  const { status, body, headers } = await requestSite(project_url);
  return { status, body, robots: headers['x-robots-tag'] };
}

const site = (name: string, repository: string): Promise<ProjectView> =>
  createSite(person, name, { repo_url: `${host.origin}/${repository}.git`, github_token: TOKEN });
const ended = (project: ProjectView, name: string): Promise<BuildView> => buildEnded(person, project, name, 60_000);
const deployed = async (project: ProjectView) => ended(project, await deploy(person, project));

const isOperator = (pid: number) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('operator/dist/main.js');

const scripts = (build: string) => ({ name: 'site', version: '1.0.0', scripts: { build } });

test('a repository is cloned, built and served, and the next deploy replaces it at once', async () => {
  const commit = workshop.repository('shop', {
    'package.json': scripts('mkdir -p dist && echo "<h1>$GREETING</h1>" > dist/index.html'),
  });
  const project = await site('shop', 'shop');
  assert.is(
    (await person.call('PATCH', `/projects/${project.id}`, { env_vars: { GREETING: 'one of the shop' } })).status,
    200,
  );
  const first = await deployed(project);
  assert.equal([first.phase, first.commit, first.live], ['Deployed', commit, true], first.message);
  assert.equal(
    first.steps.map(({ name, exit_code }) => [name, exit_code]),
    [
      ['Cloning', 0],
      ['Installing', 0],
      ['Building', 0],
    ],
  );
  await until(async () => (await page(project)).body === '<h1>one of the shop</h1>\n', 'it is served');
  const { body: shown } = await person.call<ProjectView>('GET', `/projects/${project.id}`);
  assert.is(shown.provision_message, 'Deployed');

  workshop.repository('shop', { 'package.json': scripts('mkdir -p dist && echo two > dist/index.html') });
  const second = await deployed(project);
  assert.is(second.phase, 'Deployed', second.message);
  await until(async () => (await page(project)).body === 'two\n', 'the second is served');

  const back = await person.call<{ message: string }>('POST', `/projects/${project.id}/builds/${first.id}/rollback`);
  assert.is((await ended(project, back.body.message.split(' ')[0] as string)).phase, 'Deployed');
  await until(async () => (await page(project)).body.includes('one of the shop'), 'the first is served again');
  assert.equal(
    (await buildsOf(person, project)).filter(({ live }) => live).map(({ name }) => name),
    [first.name],
  );
});

test('a failed build keeps the live site, and its log has the reason without values of variables', async () => {
  workshop.repository('broken', { 'index.html': 'works' });
  const project = await site('broken', 'broken');
  const first = await deployed(project);
  assert.is(first.phase, 'Deployed', first.message);
  await until(async () => (await page(project)).body === 'works', 'it is served');
  const secret = 'a value that nobody may read';
  await person.call('PATCH', `/projects/${project.id}`, { env_vars: { SECRET: secret } });
  workshop.repository('broken', {
    'package.json': scripts('echo "it is $SECRET"; echo broken on purpose >&2; exit 7'),
  });
  const failed = await deployed(project);
  assert.is(failed.phase, 'Failed');
  assert.is(failed.steps.find(({ name }) => name === 'Building')?.exit_code, 7);
  assert.equal(await page(project), { status: 200, body: 'works', robots: undefined });
  type Log = { has_logs: boolean; raw: string; sections: { section: string; content: string }[] };
  const { body: log } = await person.call<Log>('GET', `/projects/${project.id}/build-logs`);
  assert.ok(log.has_logs);
  assert.match(log.raw, /broken on purpose/);
  assert.not.match(log.raw, secret);
  assert.equal(
    log.sections.map(({ section }) => section),
    ['Cloning', 'Installing', 'Building'],
  );
  assert.is(log.sections.map(({ content }) => content).join(''), log.raw);
  const output = await fetch(`${platform.url}/projects/${project.id}/builds/${failed.id}/logs`, {
    headers: { authorization: `Bearer ${person.token}` },
  });
  assert.equal([output.headers.get('content-type'), await output.text()], ['text/plain; charset=utf-8', log.raw]);
  workshop.git(path.join(workshop.folder, 'trees/broken'), 'rm', '--quiet', 'package.json');
  workshop.commit('broken');
  assert.is((await deployed(project)).phase, 'Deployed');
  const after = await person.call<Log>('GET', `/projects/${project.id}/build-logs`);
  assert.equal(after.body, { has_logs: false, raw: '', sections: [] });
});

test('a branch has a preview from its push to its deletion, independent of the site', async () => {
  workshop.repository('branches', { 'index.html': 'the site' });
  const tree = path.join(workshop.folder, 'trees/branches');
  const project = await site('branches', 'branches');
  const { body: full } = await person.call<{ webhook_secret: string }>('GET', `/projects/${project.id}`);
  const push = (branch: string, change: object = {}) =>
    deliver(platform, project, full.webhook_secret, {
      ref: `refs/heads/${branch}`,
      after: workshop.git(tree, 'rev-parse', 'HEAD').trim(),
      ...change,
    });
  assert.match((await push('next')).message, /previews are off/);
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { previews: true })).status, 200);
  await deployed(project);

  workshop.git(tree, 'checkout', '--quiet', '-b', 'feature/next');
  writeFileSync(
    path.join(tree, 'package.json'),
    JSON.stringify(scripts('sleep 3; mkdir dist; cp _headers dist; echo next >dist/index.html')),
  );
  writeFileSync(path.join(tree, '_headers'), '/*\n  X-Robots-Tag: all\n');
  const commit = workshop.commit('branches');
  const queued = (await push('feature/next')).message.split(' ')[0] as string;
  await until(
    async () => (await buildsOf(person, project)).some(({ phase }) => phase === 'Building'),
    'the preview builds',
  );
  const production = await deployed(project);
  const preview = await ended(project, queued);
  assert.equal([production.phase, preview.phase, preview.commit], ['Deployed', 'Deployed', commit], preview.message);

  type Preview = { branch: string; url: string; build_id: number };
  const { body: previews } = await person.call<Preview[]>('GET', `/projects/${project.id}/previews`);
  assert.equal(
    previews.map(({ branch, build_id }) => [branch, build_id]),
    [['feature/next', preview.id]],
  );
  const url = previews[0]?.url as string;
  const shown = () => page({ project_url: url });
  assert.equal(await shown(), { status: 200, body: 'next\n', robots: 'noindex' });
  assert.equal(await page(project), { status: 200, body: 'the site', robots: undefined });
  const resource = () =>
    withClient(platform.kubeconfig, (client) => client.get<Project>(`/apis/${API_VERSION}/projects/${project.ref}`));
  await until(async () => (await resource()).status?.previews?.[0]?.url === url, 'the status has the preview');

  await push('feature/next', { after: '0'.repeat(40), deleted: true });
  await until(async () => (await shown()).status === 404, 'the preview is deleted');
  await until(async () => (await resource()).status?.previews === undefined, 'the status has no preview');
  const name = new URL(url).hostname.split('.')[0] as string;
  const left = async () => (await readdir(platform.home, { recursive: true })).filter((file) => file.includes(name));
  await until(async () => (await left()).length === 0, 'its files are removed');
  assert.equal(await page(project), { status: 200, body: 'the site', robots: undefined });
});

test('a preview that kubectl applies is built, and deleted with its Build', async () => {
  workshop.repository('applied', { 'index.html': 'applied' });
  const project = await site('applied', 'applied');
  workshop.git(path.join(workshop.folder, 'trees/applied'), 'branch', 'next');
  workshop.publish('applied');
  const builds = `/apis/${API_VERSION}/namespaces/${namespaceOf(project.ref)}/builds`;
  await withClient(platform.kubeconfig, async (client) => {
    await client.patch(`/apis/${API_VERSION}/projects/${project.ref}`, { spec: { source: { previews: true } } });
    await client.create<Build>(builds, {
      apiVersion: API_VERSION,
      kind: 'Build',
      metadata: { name: 'by-hand' },
      spec: { project: project.ref, preview: 'next' },
    });
  });
  const built = await ended(project, 'by-hand');
  assert.is(built.phase, 'Deployed', built.message);
  const { body } = await person.call<{ url: string }[]>('GET', `/projects/${project.id}/previews`);
  const shown = () => page({ project_url: body[0]?.url as string });
  assert.is((await shown()).body, 'applied');
  assert.is((await page(project)).status, 404, 'the site is not deployed');
  await withClient(platform.kubeconfig, (client) => client.delete(`${builds}/by-hand`));
  await until(async () => (await shown()).status === 404, 'the preview is deleted');
});

test('a private repository without the token fails at Cloning with exit code 128', async () => {
  workshop.repository('private', { 'index.html': 'x' });
  const project = await site('private', 'private');
  await person.call('PATCH', `/projects/${project.id}`, { github_token: null });
  const failed = await deployed(project);
  assert.equal([failed.phase, failed.steps.length, failed.steps[0]?.exit_code], ['Failed', 1, 128]);
  const shown = async () => (await person.call<ProjectView>('GET', `/projects/${project.id}`)).body;
  await until(async () => (await shown()).status === 'error', 'a site without a deployment is in error');
  assert.match(String((await shown()).provision_message), /^Failed: git ended with exit code 128/);
  assert.is((await page(project)).status, 404, 'the address still says that nothing is deployed');
  assert.is((await person.call('PATCH', `/projects/${project.id}`, { github_token: TOKEN })).status, 200);
  assert.is((await deployed(project)).phase, 'Deployed');
  await until(async () => (await shown()).status === 'healthy', 'the deployed site is healthy');
});

test('a Build that kubectl applies is built, and ends when it is cancelled', async () => {
  workshop.repository('slow', { 'package.json': scripts('sleep 600') });
  const project = await site('slow', 'slow');
  const builds = `/apis/${API_VERSION}/namespaces/${namespaceOf(project.ref)}/builds`;
  await withClient(platform.kubeconfig, (client) =>
    client.create<Build>(builds, {
      apiVersion: API_VERSION,
      kind: 'Build',
      metadata: { name: 'by-hand' },
      spec: { project: project.ref },
    }),
  );
  const building = await until(
    async () => (await buildsOf(person, project)).find(({ phase }) => phase === 'Building'),
    'it builds',
  );
  const shown = async () => (await person.call<ProjectView>('GET', `/projects/${project.id}`)).body.provision_message;
  await until(async () => (await shown()) === 'Building', 'the project follows its build');
  assert.is((await person.call('POST', `/projects/${project.id}/builds/${building.id}/cancel`)).status, 200);
  assert.is((await ended(project, 'by-hand')).phase, 'Cancelled');
});

test('a killed operator retries its build once, and the live site stays', async () => {
  workshop.repository('killed', { 'index.html': 'live' });
  const project = await site('killed', 'killed');
  await deployed(project);
  await until(async () => (await page(project)).body === 'live', 'it is served');
  workshop.repository('killed', { 'package.json': scripts('sleep 3; mkdir -p dist; echo built > dist/index.html') });
  const { body } = await person.call<{ message: string }>('POST', `/projects/${project.id}/deploy`);
  await until(async () => (await buildsOf(person, project)).some(({ phase }) => phase === 'Building'), 'it builds');
  for (const pid of await processTree(platform.pid)) if (isOperator(pid)) process.kill(pid, 'SIGKILL');
  assert.is((await page(project)).body, 'live');
  const build = await ended(project, body.message.split(' ')[0] as string);
  assert.is(build.phase, 'Deployed', build.message);
  await until(async () => (await page(project)).body === 'built\n', 'it is served');
});

test('the commands of docs/guides/deploy-a-site.md work literally and twice', async () => {
  workshop.repository('guide', {
    'package.json': scripts('mkdir -p dist && echo "<h1>Hello from my site</h1>" > dist/index.html'),
  });
  const readable = await new GitServer(workshop).listen();
  const home = await mkdtemp(path.join(tmpdir(), 'slipway-guide-'));
  try {
    const page: Page = {
      page: 'docs/guides/deploy-a-site.md',
      blocks: [
        /"email":"me@example.com"|email_taken/,
        /"status":"healthy"[\s\S]*\/guide\.git\n$/,
        /^: the log follows[\s\S]*event: end[\s\S]*"phase":"Deployed"/,
        /"phase":"Deployed".*"outputDir|output_dir/,
        /^<h1>Hello from my site<\/h1>\n$/,
        /\/projects\/\d+\/deploy\n\S{16,}\n$/,
        /"ignored":true/,
        /"message":"build-\d+ is queued/,
      ],
      // The server replaces GitHub, which tests can't reach.
      replace: [['https://github.com/me/my-site.git', `${readable.origin}/guide.git`]],
    };
    await followPage(page, platform, home);
  } finally {
    readable.close();
    await rm(home, { recursive: true, force: true });
  }
});

test('deleting a site removes its deployments, logs and cache', async () => {
  workshop.repository('gone', { 'index.html': 'x' });
  const project = await site('gone', 'gone');
  await deployed(project);
  await person.call('DELETE', `/projects/${project.id}`);
  await person.untilGone(project.id);
  const names = await readdir(platform.home, { recursive: true });
  assert.equal(
    names.filter((name) => name.includes(project.ref)),
    [],
  );
});

if (missing) {
  console.log(`# skipped: this machine is missing ${missing}`);
  always('the missing requirement is named when a machine can’t isolate builds', () => assert.ok(missing));
  always.run();
} else test.run();
