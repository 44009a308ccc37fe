/**
 * Tests the routes of apps: deploys, webhooks, rollbacks and restarts; the routes of builds, which serve apps too; and
 * the routes of sites, which reject an app.
 */
import { createHmac } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import {
  ANNOTATION_CANCEL,
  ANNOTATION_CLEAR_BUILD_CACHE,
  type BuildStatus,
  MOST_REQUESTS,
  type Project,
} from '@slipway/crds';
import { BuildLogs } from '@slipway/sites';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Answer, type CallOptions, register } from '../testing.js';
import { buildsPath, type Deploys, SECRET, type Site, startDeploys } from './testing.js';

const buildsFolder = mkdtempSync(path.join(tmpdir(), 'slipway-builds-'));

let api: Deploys['api'];
let owner: Deploys['owner'];
let makeSite: Deploys['makeSite'];
let makeApp: Deploys['makeApp'];
let buildsOf: Deploys['buildsOf'];

test.before(async () => {
  ({ api, owner, makeSite, makeApp, buildsOf } = await startDeploys({ buildsFolder }));
});
test.after(async () => {
  await api?.close();
  rmSync(buildsFolder, { recursive: true, force: true });
});

const call = ({ id }: { id: number }, path: string, options: CallOptions = { token: owner.token }) =>
  api.call('POST', `/projects/${id}${path}`, options);
const deploy = (app: { id: number }, options?: CallOptions) => call(app, '/compute/deploy', options);
const QUEUED = { ok: true, message: 'build-1 is queued', build_id: 1 };

test('a deploy of an app queues a Build with an empty body, and with an empty object', async () => {
  const app = await makeApp();
  for (const options of [{}, { json: {} }]) {
    const { status, body } = await deploy(app, { token: owner.token, ...options });
    assert.equal([status, body], [200, QUEUED]);
  }
  assert.equal(
    (await buildsOf(app)).map(({ spec }) => spec),
    [{ project: app.ref, trigger: 'api' }],
  );
  for (const [options, status] of [
    [{ json: { branch: 'next' } }, 400],
    [{ body: 'null' }, 400],
    [{ body: '{}', headers: { 'content-type': 'text/plain' } }, 415],
  ] as const) {
    assert.is((await deploy(app, { token: owner.token, ...options })).status, status, JSON.stringify(options));
  }
});

test('a deploy of an app needs its owner, the scope projects:write, and a repository', async () => {
  const app = await makeApp();
  const reader = await api.call('POST', '/tokens', { token: owner.token, json: { scopes: ['projects:read'] } });
  assert.is((await deploy(app, { token: reader.body.token })).status, 403);
  assert.is((await deploy(app, { token: (await register(api)).token })).status, 404);
  assert.is((await call(app, `/compute/deploy?token=${SECRET}`, {})).status, 401, 'a secret of the webhook');
  const bare = await deploy(await makeApp({}));
  assert.equal([bare.status, bare.body.code], [400, 'no_repository']);
  assert.equal(await buildsOf(app), []);
});

const webhook = (app: { id: number }, options: CallOptions, secret = SECRET) =>
  call(app, `/compute/webhook?token=${secret}`, options);
const event = (name: string, id?: string): Record<string, string> => ({
  'content-type': 'application/json',
  'x-github-event': name,
  ...(id === undefined ? {} : { 'x-github-delivery': id }),
});
const COMMIT = 'a'.repeat(40);
const PUSH = { ref: 'refs/heads/main', after: COMMIT };

test('a push to the production branch of an app builds the pushed commit, and its replay builds nothing', async () => {
  const app = await makeApp();
  const { status, body } = await webhook(app, { json: PUSH, headers: event('push', 'delivery-1') });
  assert.equal([status, body], [200, QUEUED]);
  assert.equal(
    (await buildsOf(app)).map(({ spec }) => spec),
    [{ project: app.ref, trigger: 'webhook', revision: COMMIT }],
  );
  const replay = await webhook(app, { json: PUSH, headers: event('push', 'delivery-1') });
  assert.equal([replay.status, replay.body.ignored, replay.body.build_id], [200, true, 1]);
  assert.is((await buildsOf(app)).length, 1);
});

test('a ping, other events and other branches of an app are ignored, even where previews are on', async () => {
  const source = { repoUrl: 'https://example.com/app.git', previews: true };
  const app = await makeApp({ source });
  for (const [name, payload, message] of [
    ['ping', { zen: 'Keep it logically awesome.' }, 'ignored: the event is no push'],
    ['pull_request', { ...PUSH, action: 'opened' }, 'ignored: the event is no push'],
    ['push', { ...PUSH, ref: 'refs/tags/v1' }, 'ignored: a tag was pushed, and no branch'],
    [
      'push',
      { ...PUSH, ref: 'refs/heads/next' },
      'ignored: the push is to another branch than main, the production_branch, and an app has no previews',
    ],
  ] as const) {
    const { status, body } = await webhook(app, { json: payload, headers: event(name) });
    assert.equal([status, body], [200, { ok: true, ignored: true, message, build_id: null }], name);
  }
  assert.equal(await buildsOf(app), []);
});

test("an app's webhook accepts only application/json", async () => {
  const app = await makeApp();
  const form = new URLSearchParams({ payload: JSON.stringify(PUSH) }).toString();
  for (const [body, type] of [
    [form, 'application/x-www-form-urlencoded'],
    ['', 'application/x-www-form-urlencoded'],
    [JSON.stringify(PUSH), 'text/plain'],
    [JSON.stringify(PUSH), ''],
  ] as const) {
    const answer = await webhook(app, { body, headers: { 'content-type': type } });
    assert.equal([answer.status, answer.body.code], [415, 'unsupported_media_type'], type);
    assert.match(answer.body.detail, /Send application\/json\.$/);
  }
  assert.is((await webhook(app, {})).status, 415, 'no body');
  const malformed = await webhook(app, { body: '{"ref":', headers: event('push') });
  assert.equal([malformed.status, malformed.body.code], [400, 'malformed_json']);
  assert.equal(await buildsOf(app), []);
  const empty = { 'content-type': 'application/json', 'content-length': '0' };
  assert.is((await webhook(app, { headers: empty })).body.build_id, 1, 'an empty body is of the newest commit');
});

test("an app's webhook accepts its token, a signature and its owner, and rejects all others with 401", async () => {
  const app = await makeApp();
  const signed = (secret: string): CallOptions => {
    const signature = createHmac('sha256', secret).update(JSON.stringify(PUSH)).digest('hex');
    return { json: PUSH, headers: { ...event('push'), 'x-hub-signature-256': `sha256=${signature}` } };
  };
  const bare = (options: CallOptions) => call(app, '/compute/webhook', options);
  const stranger = await register(api);
  for (const [what, answer, status] of [
    ['nothing', await bare({ json: PUSH }), 401],
    ['a wrong token', await webhook(app, { json: PUSH }, 'wrong'), 401],
    ['a wrong signature', await bare(signed('wrong')), 401],
    ['another account', await bare({ json: PUSH, token: stranger.token }), 404],
    ['a form without a proof', await bare({ body: 'payload={}' }), 401],
  ] as const) {
    assert.is(answer.status, status, what);
  }
  assert.equal(await buildsOf(app), []);
  assert.is((await bare(signed(SECRET))).status, 200);
  assert.is((await bare({ json: PUSH, headers: { 'x-gitlab-token': SECRET } })).status, 200);
  assert.is((await bare({ json: PUSH, token: owner.token })).status, 200);
});

test('the webhook_url of an app deploys it', async () => {
  const app = await makeApp();
  const { body } = await api.call('GET', `/projects/${app.id}`, { token: owner.token });
  assert.is(body.webhook_url, `http://localhost:4000/projects/${app.id}/compute/webhook?token=${SECRET}`);
  const { pathname, search } = new URL(body.webhook_url);
  const answer = await api.call('POST', `${pathname}${search}`, { json: PUSH, headers: event('push') });
  assert.equal(answer.body, QUEUED);
});

/** Expects a 400 `wrong_type` whose detail matches. */
const expectWrongType = async (project: Site, path: string, options: CallOptions, detail: RegExp) => {
  const answer = await call(project, path, { token: owner.token, ...options });
  assert.equal([answer.status, answer.body.code], [400, 'wrong_type'], path);
  assert.match(answer.body.detail, detail);
};

test('the deploy routes of sites reject an app, and name the route or field to use', async () => {
  const app = await makeApp();
  const instead = /frontend projects; this is an app project\. .* POST \/projects\/\{id\}\/compute\/deploy/;
  await expectWrongType(app, '/deploy', {}, instead);
  await expectWrongType(app, `/deploy?token=${SECRET}`, { json: PUSH }, instead);
  await expectWrongType(app, '/frontend/deploy', { json: { branch: 'main' } }, instead);
  await expectWrongType(app, '/deploy-key', {}, /this is an app project\. .* set github_token/);
  assert.equal(await buildsOf(app), []);
});

test('the deploy routes of apps reject projects of other types', async () => {
  const { body: shared } = await api.call('POST', '/projects', { token: owner.token, json: { name: 'no-app' } });
  const site = await makeSite();
  for (const [route, instead] of [
    ['/compute/deploy', /this is a frontend project\. .* POST \/projects\/\{id\}\/deploy/],
    ['/compute/webhook', /this is a frontend project\. .* POST \/projects\/\{id\}\/deploy/],
    ['/compute/rollback', /this is a frontend project\. .*\/builds\/\{buildId\}\/rollback/],
    ['/compute/restart', /this is a frontend project\. .* POST \/projects\/\{id\}\/deploy/],
  ] as const) {
    const options = route === '/compute/webhook' ? { json: PUSH } : {};
    await expectWrongType(site, route, options, instead);
    await expectWrongType(shared, route, options, /This route is for app projects; this is a shared project\.$/);
  }
});

/** Writes the status of a Build in place of the operator. */
const setStatus = ({ ref }: Site, name: string, status: BuildStatus) =>
  api.operator.client.patch(`${buildsPath(ref)}/${name}/status`, { status });
let minutes = 0;
/** Ends a Build as the operator does. Each end is a minute after the one before. */
const setDeployed = (app: Site, number: number, commit?: string) => {
  const finishedAt = new Date(Date.UTC(2026, 4, 4, 10, ++minutes)).toISOString().replace('.000Z', 'Z');
  return setStatus(app, `build-${number}`, { phase: 'Deployed', finishedAt, ...(commit ? { commit } : {}) });
};
/** Creates an app with this number of deployed versions, the last of which is live. */
async function makeDeployed(versions: number): Promise<Site> {
  const app = await makeApp();
  for (let number = 1; number <= versions; number += 1) {
    assert.is((await deploy(app)).body.build_id, number);
    await setDeployed(app, number);
  }
  return app;
}
const rollBack = (app: { id: number }, json?: object, token = owner.token) =>
  call(app, '/compute/rollback', { token, ...(json === undefined ? {} : { json }) });
const expectConflict = ({ status, body }: Answer, detail: RegExp) => {
  assert.equal([status, body.code], [409, 'conflict']);
  assert.match(body.detail, detail);
};

test('a rollback without a build takes the version before the live one, and repeated, goes further back', async () => {
  const app = await makeDeployed(3);
  assert.equal((await rollBack(app, {})).body, { ok: true, message: 'build-4 is queued', build_id: 4 });
  assert.is((await rollBack(app)).body.build_id, 4, 'the same rollback still waits');
  await setDeployed(app, 4);
  assert.is((await rollBack(app)).body.build_id, 5);
  await setDeployed(app, 5);
  const specs = (await buildsOf(app)).slice(3).map(({ spec }) => spec);
  assert.equal(specs, [
    { project: app.ref, trigger: 'api', deployment: 'build-2' },
    { project: app.ref, trigger: 'api', deployment: 'build-1' },
  ]);
  expectConflict(await rollBack(app, {}), /No version before build-1, which is live/);
});

test('a rollback without a build skips a version that was rolled back before', async () => {
  const app = await makeDeployed(2);
  assert.is((await rollBack(app)).body.build_id, 3);
  await setDeployed(app, 3);
  await deploy(app);
  await setDeployed(app, 4);
  assert.is((await rollBack(app)).body.build_id, 5);
  assert.is((await buildsOf(app)).at(-1)?.spec.deployment, 'build-1', 'build-1 was live before build-4, not build-2');
});

test('a rollback names a build that was deployed, and any other build is a definite error', async () => {
  const app = await makeDeployed(2);
  await deploy(app);
  expectConflict(await rollBack(app, { build: 3 }), /Build 3 was not deployed/);
  await setStatus(app, 'build-3', { phase: 'Failed' });
  expectConflict(await rollBack(app, { build: 3 }), /Build 3 was not deployed/);
  assert.is((await rollBack(app, { build: 9 })).status, 404);
  for (const json of [{ build: 0 }, { build: '1' }, { build: 1, more: 1 }]) {
    assert.is((await rollBack(app, json)).status, 400, JSON.stringify(json));
  }
  assert.is((await rollBack(app, { build: 1 })).body.build_id, 4);
  await setDeployed(app, 4);
  assert.is((await rollBack(app, { build: 2 })).body.build_id, 5, 'a later version than the live one');
  const [, , , back, forward] = await buildsOf(app);
  assert.equal([back?.spec.deployment, forward?.spec.deployment], ['build-1', 'build-2']);
});

test('a rollback is rejected where nothing or only one version was deployed, and without the scope', async () => {
  expectConflict(await rollBack(await makeApp()), /Nothing is deployed/);
  const app = await makeDeployed(1);
  expectConflict(await rollBack(app), /No version before build-1/);
  const { body } = await api.call('POST', '/tokens', { token: owner.token, json: { scopes: ['projects:write'] } });
  assert.is((await rollBack(app, {}, body.token)).status, 403);
  assert.is((await rollBack(app, {}, (await register(api)).token)).status, 404);
  assert.is((await buildsOf(app)).length, 1);
});

const restart = (app: { id: number }, token = owner.token) => call(app, '/compute/restart', { token });
const restartOf = async ({ ref }: Site) => (await api.operator.get(ref)).spec.app?.restart;

test('a restart increases the number in the Project, and the largest number is followed by 1', async () => {
  const app = await makeDeployed(1);
  const { status, body } = await restart(app);
  assert.equal([status, body], [200, { ok: true }]);
  assert.is(await restartOf(app), 1);
  await api.operator.patch(app.ref, { spec: { app: { restart: MOST_REQUESTS, healthCheckPath: '/up' } } });
  assert.is((await restart(app)).status, 200);
  assert.equal((await api.operator.get(app.ref)).spec.app, { restart: 1, healthCheckPath: '/up' });
});

/** Increases the number as a user of kubectl does, who edits the version that was read. */
async function editRestart(ref: string): Promise<void> {
  for (;;) {
    const { metadata, spec } = await api.operator.get(ref);
    const { resourceVersion } = metadata;
    const body = { metadata: { resourceVersion }, spec: { app: { restart: (spec.app?.restart ?? 0) + 1 } } };
    const patched: Project | undefined = await api.operator.patch(ref, body).catch(() => undefined);
    if (patched) return;
  }
}

test('simultaneous restarts over REST and with kubectl all count', async () => {
  const app = await makeDeployed(1);
  const [byRest, byKubectl] = [12, 40];
  const edits = (async () => {
    for (let edit = 0; edit < byKubectl; edit += 1) await editRestart(app.ref);
  })();
  const answers = await Promise.all(Array.from({ length: byRest }, () => restart(app)));
  await edits;
  assert.equal(
    answers.map(({ status }) => status),
    answers.map(() => 200),
  );
  assert.is(await restartOf(app), byRest + byKubectl);
});

test('a restart is rejected before the first deploy, while suspended or deleted, and of another account', async () => {
  const app = await makeApp();
  const early = await restart(app);
  assert.equal([early.status, early.body.code], [409, 'project_not_ready']);
  assert.match(early.body.detail, /Nothing is deployed yet.* POST \/projects\/\{id\}\/compute\/deploy/);
  const services = { app: { up: true, status: 'running', image: 'sha256:ab' } };
  await api.operator.setStatus(app.ref, { services });
  const read = (at: string) => api.call('GET', `/projects/${app.id}${at}`, { token: owner.token });
  await until(
    () => read('/status'),
    ({ body }) => body.services.app !== undefined,
  );
  assert.is((await restart(app)).status, 200, 'a container runs, though its Build is no longer stored');
  assert.is((await restart(app, (await register(api)).token)).status, 404);
  const { body } = await api.call('POST', '/tokens', { token: owner.token, json: { scopes: ['builds:write'] } });
  assert.is((await restart(app, body.token)).status, 403);
  await api.call('PATCH', `/projects/${app.id}`, { token: owner.token, json: { suspended: true } });
  const suspended = await restart(app);
  assert.equal([suspended.status, suspended.body.code], [409, 'project_suspended']);
  assert.is(await restartOf(app), 1);
});

test('every route that changes an app returns 409 while the app is being deleted', async () => {
  const app = await makeDeployed(2);
  await api.operator.patch(app.ref, { metadata: { finalizers: ['slipway.dev/test'] } });
  await api.call('DELETE', `/projects/${app.id}`, { token: owner.token });
  for (const route of ['/deploy', '/webhook', '/rollback', '/restart']) {
    const answer = await call(app, `/compute${route}`, { token: owner.token, json: {} });
    assert.equal([answer.status, answer.body.code], [409, 'project_deleting'], route);
  }
  await api.operator.patch(app.ref, { metadata: { finalizers: [] } });
});

test('the routes of builds serve an app', async () => {
  const app = await makeApp();
  const at = (method: string, route: string, options: CallOptions = {}) =>
    api.call(method, `/projects/${app.id}${route}`, { token: owner.token, ...options });
  await deploy(app);
  await setStatus(app, 'build-1', { phase: 'Building', commit: COMMIT });
  const writer = await new BuildLogs(path.join(buildsFolder, 'logs')).write(app.ref, 'build-1', 1_000_000);
  writer.append('Building', 'STEP 1/2: FROM node\n');
  await writer.end();
  assert.is((await at('GET', '/builds/1')).body.phase, 'Building');
  assert.equal((await at('GET', '/builds')).body, [(await at('GET', '/builds/1')).body]);
  assert.is((await at('GET', '/builds/1/logs')).body, 'STEP 1/2: FROM node\n');
  assert.is((await at('GET', '/build-logs')).body.raw, 'STEP 1/2: FROM node\n');
  assert.is((await at('POST', '/builds/1/cancel')).status, 200);
  assert.is((await buildsOf(app))[0]?.metadata.annotations?.[ANNOTATION_CANCEL], 'api');
  await setDeployed(app, 1, COMMIT);
  const headers = { accept: 'text/event-stream' };
  assert.match((await at('GET', '/builds/1/logs', { headers })).body, /event: end\n.*\n.*"Deployed"/);
  assert.is((await at('GET', '/builds/1')).body.live, true);
  assert.is((await at('POST', '/builds/1/redeploy')).body.build_id, 2);
  assert.is((await at('POST', '/builds/1/rollback')).body.build_id, 3);
  const [, again, back] = await buildsOf(app);
  assert.equal([again?.spec.revision, back?.spec.deployment], [COMMIT, 'build-1']);
  assert.is((await at('DELETE', '/build-cache')).status, 200);
  assert.ok((await api.operator.get(app.ref)).metadata.annotations?.[ANNOTATION_CLEAR_BUILD_CACHE]);
  assert.equal((await at('GET', '/previews')).body, []);
});

test.run();
