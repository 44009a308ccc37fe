/** Tests the routes of apps: deploys, webhooks, and the routes of sites that reject an app. */
import { createHmac } from 'node:crypto';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type CallOptions, register } from '../testing.js';
import { type Deploys, SECRET, type Site, startDeploys } from './testing.js';

let api: Deploys['api'];
let owner: Deploys['owner'];
let makeSite: Deploys['makeSite'];
let makeApp: Deploys['makeApp'];
let buildsOf: Deploys['buildsOf'];

test.before(async () => {
  ({ api, owner, makeSite, makeApp, buildsOf } = await startDeploys());
});
test.after(() => api?.close());

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
  const path = new URL(body.webhook_url);
  const answer = await api.call('POST', `${path.pathname}${path.search}`, { json: PUSH, headers: event('push') });
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
  for (const path of ['/compute/deploy', '/compute/webhook']) {
    const options = path === '/compute/webhook' ? { json: PUSH } : {};
    await expectWrongType(
      await makeSite(),
      path,
      options,
      /this is a frontend project\. .* POST \/projects\/\{id\}\/deploy/,
    );
    await expectWrongType(shared, path, options, /This route is for app projects; this is a shared project\.$/);
  }
});

test.run();
