/**
 * Tests deploys of frontend projects: permissions, the resulting Builds, and where the webhook's token must not appear.
 */
import { spawnSync } from 'node:child_process';
import {
  ANNOTATION_CANCEL,
  ANNOTATION_CLEAR_BUILD_CACHE,
  API_VERSION,
  BUILD_BUDGET,
  type BuildStatus,
} from '@slipway/crds';
import { LABEL_PROJECT, namespaceOf, SECRETS } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type CallOptions, register } from '../testing.js';
import { buildsPath, type Deploys, SECRET, type Site, startDeploys } from './testing.js';
import { WRONG_PROOFS } from './webhook-secrets.js';

let api: Deploys['api'];
let owner: Deploys['owner'];
let applySite: Deploys['applySite'];
let makeSite: Deploys['makeSite'];
let callWebhook: Deploys['callWebhook'];
let buildsOf: Deploys['buildsOf'];

test.before(async () => {
  ({ api, owner, applySite, makeSite, callWebhook, buildsOf } = await startDeploys());
});
test.after(() => api?.close());

const deploy = ({ id }: { id: number }, options: CallOptions = { token: owner.token }) =>
  api.call('POST', `/projects/${id}/deploy`, options);

test('a deploy makes a Build, which the operator starts', async () => {
  const site = await makeSite();
  const answer = await deploy(site);
  assert.is(answer.status, 200);
  assert.equal(answer.body, { ok: true, message: 'build-1 is queued', build_id: 1 });
  const [build] = await buildsOf(site);
  assert.equal(build?.spec, { project: site.ref, trigger: 'api' });
  assert.is(build?.metadata.labels?.[LABEL_PROJECT], site.ref);
});

test('a deploy that names a branch builds the branch, and only the owner may request it', async () => {
  const site = await makeSite();
  const call = (json: object, token = owner.token, { id } = site) =>
    api.call('POST', `/projects/${id}/frontend/deploy`, { token, json });
  assert.equal((await call({ branch: 'feature/x' })).body, { ok: true, message: 'build-1 is queued', build_id: 1 });
  assert.equal((await call({ branch: 'main' })).body, { ok: true, message: 'build-2 is queued', build_id: 2 });
  assert.is((await call({ branch: 'b'.repeat(244) })).status, 200);
  assert.equal(
    (await buildsOf(site)).map(({ spec: { trigger, revision } }) => [trigger, revision]),
    [
      ['api', 'refs/heads/feature/x'],
      ['api', undefined],
      ['api', `refs/heads/${'b'.repeat(244)}`],
    ],
  );
  for (const json of [{}, { branch: 5 }, { branch: '' }, { branch: '--upload-pack=x' }, { branch: 'b'.repeat(245) }]) {
    const refused = await call(json);
    assert.equal([refused.status, refused.body.errors[0].field], [400, 'branch'], JSON.stringify(json));
  }
  assert.is((await call({ branch: 'main', more: 1 })).status, 400);
  assert.is((await call({ branch: 'main' }, owner.token, await makeSite({}))).body.code, 'no_repository');
  assert.is((await call({ branch: 'main' }, (await register(api)).token)).status, 404);
  const webhook = await api.call('POST', `/projects/${site.id}/frontend/deploy?token=${SECRET}`, {
    json: { branch: 'main' },
  });
  assert.is(webhook.status, 401, 'the secret of the webhook is for the other route');
  assert.is((await buildsOf(site)).length, 3);
});

test('a deploy of a suspended project waits, and the response says that it is suspended', async () => {
  const site = await makeSite({ source: { repoUrl: 'https://example.com/site.git' }, suspend: true });
  const message = 'build-1 is queued, and waits until the project is resumed';
  assert.equal((await deploy(site)).body, { ok: true, message, build_id: 1 });
});

/** Deploys a branch of the site. */
const deployBranch = (site: { id: number }, branch: string) =>
  api.call('POST', `/projects/${site.id}/frontend/deploy`, { token: owner.token, json: { branch } });

test('simultaneous deploys of one branch share the waiting Build', async () => {
  const site = await makeSite();
  const answers = await Promise.all(Array.from({ length: 6 }, () => deploy(site)));
  for (const { body } of answers) assert.equal(body, { ok: true, message: 'build-1 is queued', build_id: 1 });
  assert.is((await buildsOf(site)).length, 1);
  assert.is((await deployBranch(site, 'main')).body.build_id, 1, 'the production branch by its name');
});

test('a deploy shares no Build of another branch, and none that is cancelled or runs', async () => {
  const site = await makeSite();
  assert.is((await deploy(site)).body.build_id, 1);
  assert.is((await deployBranch(site, 'next')).body.build_id, 2);
  assert.is((await deploy(site)).body.build_id, 3, 'the waiting Build is of another branch');
  await api.call('POST', `/projects/${site.id}/builds/3/cancel`, { token: owner.token });
  assert.is((await deploy(site)).body.build_id, 4);
  await setStatus(site, 'build-4', { phase: 'Cloning' });
  assert.is((await deploy(site)).body.build_id, 5);
});

test('simultaneous deploys of different branches create one Build each, with different numbers', async () => {
  const site = await makeSite();
  const branches = ['a', 'b', 'c', 'd', 'e', 'f'];
  const answers = await Promise.all(branches.map((branch) => deployBranch(site, branch)));
  assert.equal(answers.map(({ body }) => body.build_id).sort(), [1, 2, 3, 4, 5, 6]);
  const names = (await buildsOf(site)).map(({ metadata }) => metadata.name);
  assert.equal(names, ['build-1', 'build-2', 'build-3', 'build-4', 'build-5', 'build-6']);
});

test('a deploy to a full queue returns the newest Build in it while no operator runs', async () => {
  const site = await makeSite();
  const most = BUILD_BUDGET.buildsOfProject + 10;
  for (let made = 1; made <= most; made += 1) assert.is((await deployBranch(site, `branch-${made}`)).status, 200);
  assert.equal((await deploy(site)).body, { ok: true, message: `build-${most} is queued`, build_id: most });
  assert.is((await buildsOf(site)).length, most);
});

test('a deploy of a project without a repository or of another type returns 400 with the fix', async () => {
  const bare = await deploy(await makeSite({}));
  assert.equal([bare.status, bare.body.code], [400, 'no_repository']);
  assert.match(bare.body.detail, /Set it by PATCH/);
  const { body: shared } = await api.call('POST', '/projects', { token: owner.token, json: { name: 'with-database' } });
  const other = await deploy(shared);
  assert.equal([other.status, other.body.code], [400, 'wrong_type']);
});

test('a deploy is queued before the operator has seen the project', async () => {
  const site = await applySite({ source: { repoUrl: 'https://example.com/s.git' } });
  const early = await deploy(site);
  assert.equal([early.status, early.body.build_id], [200, 1]);
  assert.is((await buildsOf(site)).length, 1);
});

test('a deploy is rejected with a wrong webhook or bearer token, and needs only one right token', async () => {
  const site = await makeSite();
  const wrong = { token: 'pat_wrong' };
  const reader = await api.call('POST', '/tokens', { token: owner.token, json: { scopes: ['projects:read'] } });
  const stranger = await register(api);
  for (const [what, answer, expected] of [
    ['nothing', await deploy(site, {}), 401],
    ['a wrong bearer token', await deploy(site, wrong), 401],
    ['a wrong webhook token', await callWebhook(site, `${SECRET}x`), 401],
    ['an empty webhook token', await callWebhook(site, ''), 401],
    ['two webhook tokens', await callWebhook(site, `${SECRET}&token=${SECRET}`), 401],
    ['both wrong', await callWebhook(site, 'x'.repeat(20), wrong), 401],
    ['a token without the scope', await deploy(site, { token: reader.body.token }), 403],
    ['the same, and a wrong webhook token', await callWebhook(site, 'wrong', { token: reader.body.token }), 401],
    ['another account', await deploy(site, { token: stranger.token }), 404],
    ['another account, and a wrong webhook token', await callWebhook(site, 'wrong', { token: stranger.token }), 404],
    ['the token of a missing project', await callWebhook({ id: 2_147_483_647 }), 401],
  ] as const) {
    assert.is(answer.status, expected, what);
    if (expected === 401) assert.match(answer.headers['www-authenticate'] as string, /^Bearer/, what);
  }
  assert.equal(await buildsOf(site), []);
  for (const [what, answer] of [
    ['a right bearer token, and a wrong webhook token', await callWebhook(site, 'wrong', { token: owner.token })],
    ['a right webhook token, and a wrong bearer token', await callWebhook(site, SECRET, wrong)],
    ['a right webhook token, and another account', await callWebhook(site, SECRET, { token: stranger.token })],
  ] as const)
    assert.is(answer.status, 200, what);
});

/** Writes a status in place of the operator. */
const setStatus = ({ ref }: Site, name: string, status: BuildStatus) =>
  api.operator.client.patch(`${buildsPath(ref)}/${name}/status`, { status });
const callBuild = ({ id }: Site, path: string, method = 'GET', token = owner.token) =>
  api.call(method, `/projects/${id}/builds${path}`, { token });
const FINISHED = '2026-05-04T10:00:00Z';

test('builds are listed by number, the newest first, and the live build is marked', async () => {
  const site = await makeSite();
  await deploy(site);
  await deployBranch(site, 'next');
  const steps = [{ name: 'Cloning', startedAt: FINISHED, finishedAt: FINISHED, exitCode: 0 }] as const;
  await setStatus(site, 'build-1', { phase: 'Deployed', commit: 'abc', steps: [...steps], finishedAt: FINISHED });
  const body = { apiVersion: API_VERSION, kind: 'Build', metadata: { name: 'by-hand' }, spec: { project: site.ref } };
  await api.operator.client.create<object>(buildsPath(site.ref), body);
  const unseen = await callBuild(site, '');
  assert.equal(
    unseen.body.map(({ id }: { id: number }) => id),
    [2, 1],
    'a Build without a number is not listed yet',
  );
  await setStatus(site, 'by-hand', { number: 3, phase: 'Queued' });
  const { status, body: list } = await callBuild(site, '');
  assert.is(status, 200);
  assert.equal(
    list.map(({ name, phase, live }: Record<string, unknown>) => [name, phase, live]),
    [
      ['by-hand', 'Queued', false],
      ['build-2', 'Queued', false],
      ['build-1', 'Deployed', true],
    ],
  );
  const one = await callBuild(site, '/1');
  assert.equal([one.status, one.body], [200, list[2]]);
  assert.equal(one.body.steps, [{ name: 'Cloning', started_at: FINISHED, finished_at: FINISHED, exit_code: 0 }]);
  assert.is((await callBuild(site, '/3')).body.name, 'by-hand');
  for (const path of ['/4', '/4/cancel', '/4/redeploy', '/4/rollback']) {
    assert.is((await callBuild(site, path, path === '/4' ? 'GET' : 'POST')).status, 404, path);
  }
});

test('a build is cancelled before it ends, deployed again by commit, and rolled back to if it was live', async () => {
  const site = await makeSite();
  await deploy(site);
  assert.is((await callBuild(site, '/1/cancel', 'POST')).status, 200);
  assert.is((await buildsOf(site))[0]?.metadata.annotations?.[ANNOTATION_CANCEL], 'api');
  assert.is((await callBuild(site, '/1/rollback', 'POST')).status, 409);
  await setStatus(site, 'build-1', { phase: 'Deployed', commit: 'abc', finishedAt: FINISHED });
  const late = await callBuild(site, '/1/cancel', 'POST');
  assert.equal([late.status, late.body.code], [409, 'conflict']);
  assert.is((await callBuild(site, '/1/redeploy', 'POST')).body.message, 'build-2 is queued');
  assert.is((await callBuild(site, '/1/rollback', 'POST')).body.message, 'build-3 is queued');
  const [, again, back] = await buildsOf(site);
  assert.equal(again?.spec, { project: site.ref, trigger: 'api', revision: 'abc' });
  assert.equal(back?.spec, { project: site.ref, trigger: 'api', deployment: 'build-1' });
  await setStatus(site, 'build-3', { phase: 'Deployed', finishedAt: '2026-05-04T10:00:01Z' });
  const live = (await callBuild(site, '')).body.filter((build: { live: boolean }) => build.live);
  assert.equal(
    live.map(({ name }: { name: string }) => name),
    ['build-1'],
    'the site has the output of build-1',
  );
});

test('an owner clears the build cache of a frontend project by an annotation', async () => {
  const site = await makeSite();
  const clear = (id: number, token = owner.token) => api.call('DELETE', `/projects/${id}/build-cache`, { token });
  const reader = await api.call('POST', '/tokens', { token: owner.token, json: { scopes: ['builds:read'] } });
  assert.is((await clear(site.id, reader.body.token)).status, 403);
  assert.is((await clear(site.id, (await register(api)).token)).status, 404);
  const annotation = async () =>
    (await api.operator.get(site.ref)).metadata.annotations?.[ANNOTATION_CLEAR_BUILD_CACHE];
  assert.is(await annotation(), undefined);
  const { status, body } = await clear(site.id);
  assert.equal([status, body], [200, { ok: true }]);
  assert.ok(await annotation());
  const { body: shared } = await api.call('POST', '/projects', { token: owner.token, json: { name: 'no-cache' } });
  const refused = await clear(shared.id);
  assert.equal([refused.status, refused.body.code], [400, 'wrong_type']);
});

test('routes of a build return 404 to another account, and 403 for a token without the scope', async () => {
  const site = await makeSite();
  await deploy(site);
  const stranger = await register(api);
  const reader = await api.call('POST', '/tokens', { token: owner.token, json: { scopes: ['builds:read'] } });
  for (const [path, method] of [
    ['', 'GET'],
    ['/1', 'GET'],
    ['/1/cancel', 'POST'],
    ['/1/redeploy', 'POST'],
    ['/1/rollback', 'POST'],
  ] as const) {
    assert.is((await callBuild(site, path, method, stranger.token)).status, 404, path);
    const expected = method === 'GET' ? 200 : 403;
    assert.is((await callBuild(site, path, method, reader.body.token)).status, expected, path);
  }
  assert.is((await buildsOf(site)).length, 1);
});

test('a project without a webhook secret accepts no token', async () => {
  const site = await makeSite();
  await api.operator.client.delete(`/api/v1/namespaces/${namespaceOf(site.ref)}/secrets/${SECRETS.keys.name}`);
  for (const token of ['', 'undefined', SECRET]) assert.is((await callWebhook(site, token)).status, 401, token);
});

test('a changed webhook secret is accepted at once, and the old secret is rejected', async () => {
  const site = await makeSite();
  assert.is((await callWebhook(site)).status, 200);
  const json = { webhook_secret: 'another-secret-of-it' };
  await api.call('PATCH', `/projects/${site.id}`, { token: owner.token, json });
  assert.is((await callWebhook(site)).status, 401);
  assert.is((await callWebhook(site, json.webhook_secret)).status, 200);
});

test('wrong webhook tokens share a rate limit, which does not apply to a right token', async () => {
  const site = await makeSite();
  const wrong = await Promise.all(Array.from({ length: WRONG_PROOFS.burst + 5 }, () => callWebhook(site, 'wrong')));
  const limited = wrong.find(({ status }) => status === 429);
  assert.ok(Number(limited?.headers['retry-after']) > 0);
  assert.ok(wrong.every(({ status }) => status === 401 || status === 429));
  assert.is((await callWebhook(site)).status, 200);
});

test('the token of a webhook is never logged, even at the lowest log level', () => {
  const script = `
    const { register, startTestApi } = await import(${JSON.stringify(new URL('../testing.js', import.meta.url).href)});
    const api = await startTestApi({ logLevel: 'trace' });
    const { token } = await register(api);
    const { id, ref } = (await api.call('POST', '/projects', { token, json: { name: 'logged' } })).body;
    await api.operator.provision(ref);
    for (const url of ['deploy', 'deploy/', 'deploy/nothing', 'status'])
      for (const secret of ['webhook-secret-of-it', 'wrong-token-of-a-stranger', '%ff', 'a%00b'])
        for (const method of ['POST', 'GET', 'PUT'])
          await api.call(method, '/projects/' + id + '/' + url + '?token=' + secret);
    await api.close();`;
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  assert.is(child.status, 0, child.stderr);
  const log = child.stdout + child.stderr;
  assert.match(log, /"method":"POST","path":"\/projects\/\d+\/deploy","status":400/, 'the right token');
  assert.match(log, /"method":"POST","path":"\/projects\/\d+\/deploy","status":401/, 'the wrong token');
  for (const secret of ['webhook-secret-of-it', 'wrong-token-of-a-stranger', 'token=']) assert.not.match(log, secret);
});

test('the build log of a project without builds is empty, and of an unknown project returns 404', async () => {
  const site = await makeSite();
  const read = (id: number, token = owner.token) => api.call('GET', `/projects/${id}/build-logs`, { token });
  const { status, body } = await read(site.id);
  assert.equal([status, body], [200, { has_logs: false, raw: '', sections: [] }]);
  await deploy(site);
  assert.equal((await read(site.id)).body, { has_logs: false, raw: '', sections: [] });
  assert.is((await read(2_147_483_647)).status, 404);
  assert.is((await read(site.id, (await register(api)).token)).status, 404);
});

test.run();
