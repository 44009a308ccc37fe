/** Tests previews of branches, by webhooks and by REST, and the resulting Builds. */
import { ANNOTATION_REMOVE_PREVIEW, API_VERSION, BUILD_BUDGET, type BuildStatus } from '@slipway/crds';
import { PREVIEW_LIMITS } from '@slipway/installation';
import { previewName } from '@slipway/sites';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register } from '../testing.js';
import { buildsPath, type Deploys, SECRET, type Site, startDeploys } from './testing.js';

let api: Deploys['api'];
let owner: Deploys['owner'];
let makeSite: Deploys['makeSite'];
let callWebhook: Deploys['callWebhook'];
let buildsOf: Deploys['buildsOf'];

test.before(async () => {
  ({ api, owner, makeSite, callWebhook, buildsOf } = await startDeploys());
});
test.after(() => api?.close());

const COMMIT = '4ad3b1c0f4f6d2c0a5f8e1d7b9c3a2e6f0d8b7a1';
const WITH_PREVIEWS = { source: { repoUrl: 'https://example.com/site.git', previews: true } };
let deliveries = 0;

/** Sends a push, or the deletion of the branch, like GitHub. */
const push = (site: Site, branch: string, change: object = {}, id = `delivery-${++deliveries}`) =>
  callWebhook(site, SECRET, {
    json: { ref: `refs/heads/${branch}`, after: COMMIT, ...change },
    headers: { 'x-github-event': 'push', 'x-github-delivery': id },
  });
const DELETED = { after: '0'.repeat(40), deleted: true };
const setStatus = ({ ref }: Site, name: string, status: BuildStatus) =>
  api.operator.client.patch(`${buildsPath(ref)}/${name}/status`, { status });
const call = ({ id }: Site, method: string, path: string, json?: object, token = owner.token) =>
  api.call(method, `/projects/${id}${path}`, { token, ...(json ? { json } : {}) });
const specsOf = async (site: Site) => (await buildsOf(site)).map(({ spec: { project: _, ...spec } }) => spec);
const isMarked = async (site: Site, name: string) =>
  (await buildsOf(site)).find(({ metadata }) => metadata.name === name)?.metadata.annotations?.[
    ANNOTATION_REMOVE_PREVIEW
  ] !== undefined;
const FINISHED = '2026-05-04T10:00:00Z';

test('pushes build previews of other branches only when previews are on', async () => {
  const off = await makeSite();
  const ignored = await push(off, 'next');
  assert.equal([ignored.status, ignored.body.ignored], [200, true]);
  assert.match(ignored.body.message, /another branch than main, the production_branch, and previews are off/);
  assert.equal(await buildsOf(off), []);
  const site = await makeSite(WITH_PREVIEWS);
  assert.equal((await push(site, 'next')).body, { ok: true, message: 'build-1 is queued', build_id: 1 });
  assert.is((await push(site, 'next')).body.message, 'build-1 is queued', 'which clones later');
  assert.is((await push(site, 'other')).body.message, 'build-2 is queued');
  assert.is((await push(site, 'main')).body.message, 'build-3 is queued');
  assert.equal(await specsOf(site), [
    { trigger: 'webhook', preview: 'next' },
    { trigger: 'webhook', preview: 'other' },
    { trigger: 'webhook', revision: COMMIT },
  ]);
});

test('the deletion of a branch removes its preview once', async () => {
  const site = await makeSite(WITH_PREVIEWS);
  await push(site, 'next', {}, 'first');
  await setStatus(site, 'build-1', { phase: 'Deployed', finishedAt: FINISHED });
  await push(site, 'next', {}, 'second');
  const removed = await push(site, 'next', DELETED, 'third');
  assert.equal(removed.body, { ok: true, message: 'the preview that build-2 is of is removed', build_id: null });
  assert.equal([await isMarked(site, 'build-1'), await isMarked(site, 'build-2')], [false, true]);
  for (const [id, change, message, build_id] of [
    ['second', {}, 'ignored: the delivery was accepted before, by build-2', 2],
    ['third', DELETED, 'ignored: the delivery was accepted before, by build-2', 2],
    ['fourth', DELETED, 'ignored: the branch was deleted, and has no preview', null],
  ] as const) {
    assert.equal((await push(site, 'next', change, id)).body, { ok: true, ignored: true, message, build_id });
  }
  assert.is((await push(site, 'never', DELETED)).body.ignored, true);
  assert.is((await push(site, 'next')).body.message, 'build-3 is queued', 'the branch exists again');
  assert.is((await buildsOf(site)).length, 3);
});

test('100 simultaneous pushes of many branches create one site build, and the plan’s number of previews', async () => {
  const site = await makeSite(WITH_PREVIEWS);
  const burst = await Promise.all(
    Array.from({ length: 100 }, (_, number) => push(site, number % 2 ? 'main' : `branch-${number}`)),
  );
  assert.equal([...new Set(burst.map(({ status }) => status))], [200]);
  const specs = await specsOf(site);
  assert.is(specs.filter(({ preview }) => preview !== undefined).length, PREVIEW_LIMITS.free.previews);
  assert.ok(specs.filter(({ preview }) => preview === undefined).length <= 2);
  const full = burst.filter(({ body }) => body.ignored);
  assert.is(full.length, 50 - PREVIEW_LIMITS.free.previews);
  assert.match(full[0]?.body.message, /previews of too many other branches wait to be built: push again later/);
  const refused = await call(site, 'POST', '/frontend/deploy', { branch: 'one-more', preview: true });
  assert.equal([refused.status, refused.body.code], [409, 'conflict']);
});

test('a deploy that names a branch builds a preview when previews are on', async () => {
  const site = await makeSite(WITH_PREVIEWS);
  const deploy = (json: object, of = site) => call(of, 'POST', '/frontend/deploy', json);
  assert.is((await deploy({ branch: 'next', preview: true })).body.message, 'build-1 is queued');
  assert.is((await deploy({ branch: 'next', preview: false })).body.message, 'build-2 is queued');
  assert.equal(await specsOf(site), [
    { trigger: 'api', preview: 'next' },
    { trigger: 'api', revision: 'refs/heads/next' },
  ]);
  const own = await deploy({ branch: 'main', preview: true });
  assert.equal([own.status, own.body.errors[0].field], [400, 'branch']);
  const off = await deploy({ branch: 'next', preview: true }, await makeSite());
  assert.equal([off.status, off.body.code], [409, 'conflict']);
  assert.match(off.body.detail, /Set previews by PATCH/);
});

test('previews are listed with their URLs, and removed by branch', async () => {
  const site = await makeSite(WITH_PREVIEWS);
  assert.equal((await call(site, 'GET', '/previews')).body, []);
  for (const branch of ['a', 'feature/b', 'a']) await push(site, branch);
  const deployed = { phase: 'Deployed', commit: COMMIT, bytes: 7, finishedAt: FINISHED } as const;
  await setStatus(site, 'build-1', deployed);
  assert.is((await push(site, 'a')).body.message, 'build-3 is queued');
  await setStatus(site, 'build-3', deployed);
  await setStatus(site, 'build-2', { ...deployed });
  const listed = await call(site, 'GET', '/previews');
  const { port } = new URL(api.settings.publicUrl);
  const view = (branch: string, build_id: number) => ({
    branch,
    url: `http://${previewName(site.ref, branch)}.localhost${port ? `:${port}` : ''}`,
    build_id,
    commit: COMMIT,
    bytes: 7,
    deployed_at: FINISHED,
  });
  assert.equal(listed.body, [view('a', 3), view('feature/b', 2)]);
  const builds = await call(site, 'GET', '/builds');
  assert.equal(
    builds.body.map(({ id, preview, live }: Record<string, unknown>) => [id, preview, live]),
    [
      [3, 'a', true],
      [2, 'feature/b', true],
      [1, 'a', false],
    ],
  );
  const remove = (branch: string, token?: string) =>
    call(site, 'DELETE', `/previews?branch=${encodeURIComponent(branch)}`, undefined, token);
  assert.is((await remove('feature/b')).status, 200);
  assert.ok(await isMarked(site, 'build-2'));
  for (const branch of ['feature/b', 'main', 'none']) assert.is((await remove(branch)).status, 404, branch);
  for (const branch of ['', '--upload-pack=x']) assert.is((await remove(branch)).status, 400, branch);
  const stranger = await register(api);
  assert.is((await remove('a', stranger.token)).status, 404);
  assert.is((await call(site, 'GET', '/previews', undefined, stranger.token)).status, 404);
  const reader = await api.call('POST', '/tokens', { token: owner.token, json: { scopes: ['builds:read'] } });
  assert.is((await remove('a', reader.body.token)).status, 403);
  assert.is((await call(site, 'GET', '/previews', undefined, reader.body.token)).status, 200);
});

test('a build of a preview is built again as a preview, and a rollback to it is rejected', async () => {
  const site = await makeSite(WITH_PREVIEWS);
  await push(site, 'next');
  await setStatus(site, 'build-1', { phase: 'Deployed', commit: COMMIT, finishedAt: FINISHED });
  const back = await call(site, 'POST', '/builds/1/rollback');
  assert.equal([back.status, back.body.code], [409, 'conflict']);
  assert.is((await call(site, 'POST', '/builds/1/redeploy')).body.message, 'build-2 is queued');
  assert.equal((await specsOf(site))[1], { trigger: 'api', revision: COMMIT, preview: 'next' });
  await api.operator.patch(site.ref, { spec: { source: { previews: false } } });
  let again = await call(site, 'POST', '/builds/1/redeploy');
  for (let tries = 0; again.status === 200 && tries < 50; tries += 1) {
    again = await call(site, 'POST', '/builds/1/redeploy');
  }
  assert.equal([again.status, again.body.code], [409, 'conflict']);
});

test('builds of previews take no place in the queue of the site, and are not in the log of the site', async () => {
  const site = await makeSite(WITH_PREVIEWS);
  const made = BUILD_BUDGET.buildsOfPreviews + 10;
  for (let number = 1; number <= made; number += 1) {
    const name = `build-${number}`;
    // Not by pushes, of which more than 20 at once share a build for a second.
    await api.operator.client.create<object>(buildsPath(site.ref), {
      apiVersion: API_VERSION,
      kind: 'Build',
      metadata: { name },
      spec: { project: site.ref, trigger: 'webhook', preview: 'next' },
    });
    await setStatus(site, name, { phase: 'Failed', finishedAt: FINISHED });
  }
  assert.is((await call(site, 'POST', '/deploy')).body.message, `build-${made + 1} is queued`);
  assert.equal((await call(site, 'GET', '/build-logs')).body, { has_logs: false, raw: '', sections: [] });
});

test.run();
