/** Tests builds of one machine, from repositories that a real git server serves. A small server replaces the API. */
import { once } from 'node:events';
import { chmodSync, existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { BUILD_LIMITS } from '@slipway/installation';
import { missingWall } from '@slipway/kaniko-build-wrapper';
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { BuildLogs, previewName, SiteReader, Sites } from '@slipway/sites';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { BuildOrder, BuildState } from '../../capabilities/index.js';
import { silentLog } from '../../testing.js';
import { MachineBuilds } from './builds.js';
import { SiteOutputs } from './site-outputs.js';

const missing = missingWall();
if (missing) console.log(`# skipped: this machine cannot isolate builds: ${missing}`);
const sealedTest = missing ? test.skip : test;

const workshop = new Workshop();
const host = new GitServer(workshop);
let token: string | null = null;
const api = createServer((_, response) => response.end(JSON.stringify({ github_token: token, deploy_key: null })));
/** Requests that the substitute for GitHub's API received. */
const reports: { url: string | undefined; state: string }[] = [];
const github = createServer(async (incoming, outgoing) => {
  let text = '';
  for await (const piece of incoming) text += piece;
  reports.push({ url: incoming.url, state: JSON.parse(text).state });
  outgoing.writeHead(201).end();
});
const folder = path.join(workshop.folder, 'builds');
const sitesFolder = path.join(workshop.folder, 'sites');
const sites = new SiteReader(sitesFolder);
let builds: MachineBuilds;

test.before(async () => {
  await host.listen();
  await once(api.listen(0, '127.0.0.1'), 'listening');
  await once(github.listen(0, '127.0.0.1'), 'listening');
  const shared = {
    reach: { allowed: ['127.0.0.0/8'] },
    siteUrl: (site: string) => `http://${site}.localhost`,
    log: silentLog,
  };
  const certificates = workshop.certificate().file;
  const outputs = new SiteOutputs({ ...shared, sitesFolder, cacheFolder: path.join(folder, 'cache'), certificates });
  builds = new MachineBuilds({
    ...shared,
    folder,
    outputsOf: () => outputs,
    allOutputs: [outputs],
    apiUrl: `http://127.0.0.1:${(api.address() as AddressInfo).port}`,
    atOnce: 2,
    reportedTo: { [new URL(host.origin).host]: `http://127.0.0.1:${(github.address() as AddressInfo).port}` },
  });
  builds.begin();
});
test.after(async () => {
  await builds.close();
  api.close();
  github.closeAllConnections();
  github.close();
  host.close();
  workshop.close();
});

const NOTHING_SET = { installCommand: undefined, buildCommand: undefined, outputDir: undefined, rootDir: undefined };
const ref = 'shop';
let number = 0;

/** Resolves with the state of the build after its end, and with its log. */
async function built(repository: string, changes: Partial<BuildOrder>): Promise<BuildState & { log: string }> {
  const name = `build-${++number}`;
  const { repoUrl, revision } = host.source(repository);
  const source = { repoUrl, revision, submodules: false, ticket: 'x', plan: 'free' as const };
  builds.start({
    ref,
    name,
    site: ref,
    branch: 'main',
    unless: undefined,
    ...source,
    settings: NOTHING_SET,
    env: {},
    limits: BUILD_LIMITS.free,
    ...changes,
  });
  const state = await until(() => {
    const seen = builds.stateOf({ ref, name });
    return seen?.end && seen;
  }, `${name} ends`);
  builds.forget({ ref, name });
  const log = await new BuildLogs(path.join(folder, 'logs')).read(ref, name, 0, 64 * 1024);
  return { ...state, log: log.toString() };
}

/** Returns the live page. */
async function page(): Promise<string | undefined> {
  const live = (await sites.live(ref)) as { id: string };
  const file = await sites.open(ref, live.id, 'index.html');
  const text = await file?.readFile('utf8');
  await file?.close();
  return text;
}

sealedTest('a build runs in the root folder of its project, and clones submodules only on request', async () => {
  const leaf = workshop.repository('leaf', { 'leaf.txt': 'leaf' });
  workshop.repository('mono', { 'index.html': 'top', 'apps/web/page.txt': 'web' });
  workshop.link('mono', 'apps/web/lib', '../leaf.git', leaf);
  const buildCommand = 'mkdir out && cp page.txt out/index.html && ls lib >>out/index.html';
  const settings = { ...NOTHING_SET, rootDir: 'apps/web', buildCommand, outputDir: 'out' };
  for (const [submodules, expected] of [
    [true, 'webleaf.txt\n'],
    [false, 'web'],
  ] as const) {
    const { end, log } = await built('mono', { settings, submodules });
    assert.is(end?.kind, 'deployed', log);
    assert.is(await page(), expected);
  }
});

sealedTest('the commands of a build get the commit, the branch and the address of the site', async () => {
  const commit = workshop.repository('facts', { 'package.json': {} });
  const buildCommand = 'echo "$CI $COMMIT_SHA $BRANCH $SITE_URL" >index.html';
  const settings = { ...NOTHING_SET, buildCommand, outputDir: '.' };
  // A valid name of a branch.
  const branch = 'next$(id)`id`;"\'&|>x';
  const { end, log } = await built('facts', { settings, branch });
  assert.is(end?.kind, 'deployed', log);
  assert.is(await page(), `true ${commit} ${branch} http://${ref}.localhost\n`);
});

sealedTest('a build that starts again does not publish the output of an interrupted attempt', async () => {
  const output = path.join(workshop.folder, 'first-attempt');
  mkdirSync(output);
  writeFileSync(path.join(output, 'index.html'), 'first attempt');
  const limits = { files: 1, fileBytes: 100, totalBytes: 100 };
  await new Sites(sitesFolder).publish(ref, `build-${number + 1}`, output, limits);
  workshop.repository('again', { 'index.html': 'second attempt' });
  assert.is((await built('again', {})).end?.kind, 'deployed');
  assert.is(await page(), 'second attempt');
});

const CACHE = {
  ...NOTHING_SET,
  installCommand: '',
  buildCommand: 'ls "$npm_config_cache" >index.html; mkdir -p "$npm_config_cache/kept"; sleep "$SECONDS_TO_SLEEP"',
  outputDir: '.',
};

sealedTest('a cleared cache is empty for the next build, and is not cleared while a build uses it', async () => {
  workshop.repository('cached', { 'package.json': { name: 'cached', version: '1.0.0' } });
  const build = (seconds: string) => built('cached', { settings: CACHE, env: { SECONDS_TO_SLEEP: seconds } });
  assert.is((await build('0')).end?.kind, 'deployed');
  const running = build('2');
  await until(() => builds.stateOf({ ref, name: `build-${number}` })?.steps.at(-1)?.name === 'Building', 'the build');
  assert.is(await builds.clearCache(ref), false);
  await running;
  assert.match((await page()) ?? '', 'kept');
  assert.is(await builds.clearCache(ref), true);
  assert.not.ok(existsSync(path.join(folder, 'cache', ref)));
  await build('0');
  assert.not.match((await page()) ?? '', 'kept');
  await until(() => readdirSync(path.join(folder, 'cache')).every((name) => name === ref), 'the files to be removed');
  assert.is(await builds.clearCache('without-cache'), true);
});

sealedTest('a preview is built beside the site with a cache of its own, and is removed with its content', async () => {
  workshop.repository('branches', { 'package.json': { name: 'branches', version: '1.0.0' } });
  const preview = previewName(ref, 'next');
  const settings = { ...CACHE, buildCommand: `echo "$WHAT" >index.html; ${CACHE.buildCommand.replace('>', '>>')}` };
  const site = built('branches', { settings, env: { SECONDS_TO_SLEEP: '1', WHAT: 'site' } });
  const both = [site, built('branches', { site: preview, settings, env: { SECONDS_TO_SLEEP: '1', WHAT: 'preview' } })];
  for (const { end, log } of await Promise.all(both)) assert.is(end?.kind, 'deployed', log);
  const { end } = await built('branches', { site: preview, settings, env: { SECONDS_TO_SLEEP: '0', WHAT: 'again' } });
  assert.ok(end?.kind === 'deployed' && (end.bytes ?? 0) > 0);
  assert.match((await page()) ?? '', /^site/);
  assert.is((await sites.live(preview))?.id, `build-${number}`);
  assert.ok(existsSync(path.join(folder, 'cache', `${ref}.previews`)));
  await builds.keepOnly(ref, { builds: new Set(), previews: new Set([preview]), deployments: 5 });
  assert.equal(await sites.deployments(preview), [`build-${number}`]);
  await builds.keepOnly(ref, { builds: new Set(), previews: new Set(), deployments: 5 });
  assert.is(await sites.live(preview), undefined);
  assert.match((await page()) ?? '', /^site/);
  assert.is(await builds.clearCache(ref), true);
  await until(() => readdirSync(path.join(folder, 'cache')).length === 0, 'both caches are removed');
});

sealedTest('a repository is neither cloned nor built when its newest commit is already built', async () => {
  const commit = workshop.repository('pushed', { 'index.html': 'pushed' });
  const unneeded = await built('pushed', { unless: commit });
  assert.equal([unneeded.end?.kind, unneeded.commit], ['unneeded', undefined], unneeded.log);
  const needed = await built('pushed', { unless: commit.replaceAll(/./g, '0') });
  assert.equal([needed.end?.kind, needed.commit], ['deployed', commit], needed.log);
  const missing = await built('pushed', { unless: commit, revision: 'none' });
  assert.is(missing.end?.kind === 'failed' && missing.end.reason, 'CloningFailed');
});

sealedTest('a build reports its start and its end to the git host if the project has a token', async () => {
  const commit = workshop.repository('ann/reported', { 'index.html': 'x' });
  assert.is((await built('ann/reported', {})).end?.kind, 'deployed');
  token = 'token-of-the-owner';
  const failing = { ...NOTHING_SET, installCommand: '', buildCommand: 'exit 3', outputDir: '.' };
  assert.is((await built('ann/reported', {})).end?.kind, 'deployed');
  assert.is((await built('ann/reported', { settings: failing })).end?.kind, 'failed');
  token = null;
  await until(() => reports.length === 4, 'the reports of two builds');
  assert.equal(
    reports.map(({ state }) => state),
    ['pending', 'success', 'pending', 'failure'],
  );
  assert.equal([...new Set(reports.map(({ url }) => url))], [`/repos/ann/reported/statuses/${commit}`]);
});

test('a cache whose removal was interrupted is removed at the next start', async () => {
  const left = path.join(folder, 'cache', '.cleared-before');
  mkdirSync(path.join(left, 'npm/sealed'), { recursive: true });
  chmodSync(path.join(left, 'npm/sealed'), 0);
  builds.begin();
  await until(() => !existsSync(left), 'it is removed');
});

test.run();
