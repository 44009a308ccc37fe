/** Tests webhooks of git hosts: bodies, signatures, and hostile requests. */
import { createHash, createHmac } from 'node:crypto';
import { request } from 'node:http';
import { sign } from '@octokit/webhooks-methods';
import { ANNOTATION_DELIVERIES, type Build } from '@slipway/crds';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type CallOptions, register } from '../testing.js';
import { MOST_OF_DELIVERY } from './delivery-body.js';
import { MOST_KEYS } from './delivery-queue.js';
import { buildsPath, type Deploys, SECRET, type Site, startDeploys } from './testing.js';
import { WRONG_PROOFS } from './webhook-secrets.js';
import { MOST_SECONDS_APART } from './webhook-signatures.js';

let api: Deploys['api'];
let owner: Deploys['owner'];
let makeSite: Deploys['makeSite'];
let callWebhook: Deploys['callWebhook'];
let buildsOf: Deploys['buildsOf'];

test.before(async () => {
  ({ api, owner, makeSite, callWebhook, buildsOf } = await startDeploys());
});
test.after(() => api?.close());

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const PUSH = { ref: 'refs/heads/main', compare: 'https://example.com/a...b?c=d&e=%20+', text: 'größer: 100 %, 1+1' };
const formOf = (payload: object) => new URLSearchParams({ payload: JSON.stringify(payload) }).toString();

test('a webhook with its token deploys with an empty body, JSON, or a form', async () => {
  const site = await makeSite();
  const large = { ...PUSH, commits: Array.from({ length: 2_000 }, (_, id) => ({ id, message: 'é'.repeat(1_000) })) };
  const bodies: CallOptions[] = [
    {},
    { headers: { 'content-type': 'application/json', 'content-length': '0' } },
    { json: PUSH },
    { body: JSON.stringify(PUSH), headers: { 'content-type': 'Application/JSON; charset=utf-8' } },
    { json: large },
    { body: formOf(PUSH), headers: FORM },
    { body: `first=1&${formOf(PUSH)}&last=%`, headers: FORM },
    { body: formOf(large), headers: FORM },
  ];
  for (const options of bodies) {
    const { status, body } = await callWebhook(site, SECRET, options);
    const expected = { ok: true, message: 'build-1 is queued', build_id: 1 };
    assert.equal([status, body], [200, expected], options.body?.slice(0, 20));
  }
  assert.equal(
    (await buildsOf(site)).map(({ spec }) => spec),
    [{ project: site.ref, trigger: 'webhook' }],
  );
});

test('a malformed body is rejected with an error that lists the accepted forms, and starts no build', async () => {
  const site = await makeSite();
  const deep = (levels: number) => '{"a":'.repeat(levels) + '1'.padEnd(levels + 1, '}');
  const cases: [string, CallOptions, number, RegExp][] = [
    ['no JSON', { body: 'no JSON' }, 400, /not valid JSON/],
    ['a truncated object', { body: '{"ref":"refs/heads/main"' }, 400, /not valid JSON/],
    ['a list', { json: [PUSH] }, 400, /Send an object/],
    ['null', { body: 'null' }, 400, /Send an object/],
    ['a form without the field', { body: 'text=1', headers: FORM }, 400, /^payload: /],
    ['a form with another name', { body: 'xpayload={}', headers: FORM }, 400, /^payload: /],
    ['a form of fields', { body: '&'.repeat(1_000_000), headers: FORM }, 400, /^payload: /],
    ['a form whose field is not JSON', { body: 'payload=%7B', headers: FORM }, 400, /field payload/],
    ['a form whose field is empty', { body: 'payload=', headers: FORM }, 400, /field payload/],
    ['text', { body: '{}', headers: { 'content-type': 'text/plain' } }, 415, /Send application\/json/],
    ['a multipart form', { body: '{}', headers: { 'content-type': 'multipart/form-data' } }, 415, /Send application/],
    ['no type', { body: '{}', headers: { 'content-type': '' } }, 415, /Send application\/json/],
    ['deep JSON', { body: deep(101) }, 413, /more than 100 levels/],
    ['very deep JSON in a form', { body: `payload=${deep(500_000)}`, headers: FORM }, 413, /more than 100 levels/],
    ['many values', { body: `{"a":[${'1,'.repeat(MOST_OF_DELIVERY.values)}1]}` }, 413, /more than 300000 values/],
  ];
  for (const [what, options, status, detail] of cases) {
    const answer = await callWebhook(site, SECRET, options);
    assert.equal([what, answer.status], [what, status]);
    assert.match(answer.body.detail, detail, what);
  }
  assert.is((await callWebhook(site, SECRET, { body: deep(100) })).status, 200);
  assert.is((await buildsOf(site)).length, 1);
});

/**
 * Sends `chunk` repeatedly until the response arrives, chunked or with a length. Returns the status and the sent bytes.
 */
function sendLong(
  { id }: Site,
  headers: Record<string, string>,
  chunk: Buffer,
): Promise<{ status: number; sent: number }> {
  const path = `/projects/${id}/deploy?token=${SECRET}`;
  return new Promise((resolve, reject) => {
    let sent = 0;
    const outgoing = request({ socketPath: api.settings.listen, method: 'POST', path, headers }, (response) => {
      outgoing.destroy();
      resolve({ status: response.statusCode ?? 0, sent });
    });
    outgoing.on('error', reject);
    const send = (): void => {
      if (outgoing.destroyed) return;
      sent += chunk.length;
      outgoing.write(chunk, () => setImmediate(send));
    };
    send();
  });
}

test('a body above 25 MiB gets 413, is not read if it states its length, and delays no other request', async () => {
  const [site, other] = [await makeSite(), await makeSite()];
  const json = { 'content-type': 'application/json' };
  const stated = await sendLong(
    site,
    { ...json, 'content-length': String(MOST_OF_DELIVERY.bytes + 1) },
    Buffer.alloc(1),
  );
  assert.is(stated.status, 413);
  assert.ok(stated.sent < 1024 * 1024, 'the response arrives before the body is sent');
  const endless = sendLong(site, { ...json, 'transfer-encoding': 'chunked' }, Buffer.alloc(256 * 1024, ' '));
  assert.is((await callWebhook(other, SECRET, { json: { ...PUSH, text: 'x'.repeat(2 * 1024 * 1024) } })).status, 200);
  const { status, sent } = await endless;
  assert.is(status, 413);
  assert.ok(sent > MOST_OF_DELIVERY.bytes);
  const most = `{"a":"${'x'.repeat(MOST_OF_DELIVERY.bytes - 8)}"}`;
  assert.is((await callWebhook(site, SECRET, { body: most })).status, 200);
  assert.equal([(await buildsOf(site)).length, (await buildsOf(other)).length], [1, 1]);
});

const LARGE = JSON.stringify({ ...PUSH, text: 'x'.repeat(2 * 1024 * 1024) });

/** Sends the first byte of a large body. Returns a function that closes the connection. */
function stall(
  { id }: Site,
  query: string,
  headers: Record<string, string>,
  onAnswer: () => void = () => undefined,
): () => void {
  const path = `/projects/${id}/deploy${query}`;
  const sent = { ...headers, 'content-type': 'application/json', 'content-length': String(LARGE.length) };
  const outgoing = request({ socketPath: api.settings.listen, method: 'POST', path, headers: sent });
  outgoing.on('error', () => undefined).on('response', onAnswer);
  outgoing.write('{');
  return () => outgoing.destroy();
}

/** Resolves to the status. The request is chunked, so no header has its length. */
function sendInChunks({ id }: Site, body: string): Promise<number | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
  const path = `/projects/${id}/deploy?token=${SECRET}`;
  const headers = { 'content-type': 'application/json', 'transfer-encoding': 'chunked' };
  request({ socketPath: api.settings.listen, method: 'POST', path, headers }, (response) => {
    response.resume();
    resolve(response.statusCode);
  })
    .on('error', reject)
    .end(body);
  return promise;
}

test('slow large bodies without a valid token do not block deliveries with a valid token', async () => {
  const site = await makeSite();
  const from = (network: string) => ({ 'x-hub-signature-256': 'sha256=00', 'x-forwarded-for': network });
  const stalled = ['192.0.2.1', '192.0.2.2'].map((network) => stall(site, '', from(network)));
  await callWebhook(site);
  const waiting = callSigned(
    site,
    { 'x-gitea-signature': hexOf(SECRET, LARGE), 'x-forwarded-for': '192.0.2.3' },
    LARGE,
  );
  assert.is((await callWebhook(site, SECRET, { body: LARGE })).status, 200);
  for (const close of stalled) close();
  assert.is((await waiting).status, 200);
});

test('a client that disconnects frees the place of its large body', async () => {
  const sites = await Promise.all(Array.from({ length: 5 }, () => makeSite()));
  const [first] = sites as [Site];
  const others = await makeSite(undefined, await register(api));
  const [one, two, ...waiting] = [others, ...sites.slice(1)].map((site) => stall(site, `?token=${SECRET}`, {}));
  for (const closings of [[], waiting, [one, two]]) {
    for (const close of closings) close?.();
    // By then the API has read what was sent before.
    await callWebhook(first);
  }
  assert.is((await callWebhook(first, SECRET, { body: LARGE })).status, 200);
});

test('slow large bodies of one account occupy one place, and a small chunked body needs no place', async () => {
  const sites = await Promise.all(Array.from({ length: 3 }, () => makeSite()));
  const other = await makeSite(undefined, await register(api));
  let answered = 0;
  const stalled = sites.map((site) => stall(site, `?token=${SECRET}`, {}, () => answered++));
  // By then the API has read what was sent before.
  await callWebhook(other);
  assert.is((await callWebhook(other, SECRET, { body: LARGE })).status, 200);
  assert.is(await sendInChunks(sites[0] as Site, JSON.stringify(PUSH)), 200);
  assert.is(answered, 0, 'no slow body was rejected to free a place');
  for (const close of stalled) close();
});

test('a body is not read for a caller whose token is wrong', async () => {
  const site = await makeSite();
  const answer = await callWebhook(site, 'wrong', { body: 'no JSON' });
  assert.is(answer.status, 401);
});

const JSON_TYPE = { 'content-type': 'application/json' };
const BODY = JSON.stringify(PUSH);

/** Calls the webhook without a token. */
const callSigned = ({ id }: { id: number }, headers: Record<string, string>, body = BODY) =>
  api.call('POST', `/projects/${id}/deploy`, { body, headers: { ...JSON_TYPE, ...headers } });

const hexOf = (secret: string, body: string) => createHmac('sha256', secret).update(body).digest('hex');

/** Signs as Standard Webhooks specify, with the token that docs/sites.md derives for GitLab. */
function standard(secret: string, body: string, { id = 'msg_1-a', secondsAgo = 0 } = {}): Record<string, string> {
  const token = `whsec_${createHash('sha256').update(secret).digest('base64')}`;
  const key = Buffer.from(token.slice('whsec_'.length), 'base64');
  const time = String(Math.floor(Date.now() / 1000) - secondsAgo);
  const signature = createHmac('sha256', key).update(`${id}.${time}.${body}`).digest('base64');
  return { 'webhook-id': id, 'webhook-timestamp': time, 'webhook-signature': `v1,${signature}` };
}

test('a delivery with the signature or token header of a git host deploys without a token in its URL', async () => {
  const site = await makeSite();
  const cases: [string, (body: string) => Record<string, string> | Promise<Record<string, string>>][] = [
    ['GitHub', async (body) => ({ 'x-hub-signature-256': await sign(SECRET, body) })],
    ['Gitea', (body) => ({ 'x-gitea-signature': hexOf(SECRET, body) })],
    ['Forgejo', (body) => ({ 'x-forgejo-signature': hexOf(SECRET, body) })],
    ['GitLab by its token', () => ({ 'x-gitlab-token': SECRET })],
    ['GitLab by a signature', (body) => standard(SECRET, body, { id: 'msg_1' })],
    ['GitLab with the signatures of two keys', twoSignatures],
    ['GitLab in the past', (body) => standard(SECRET, body, { id: 'msg_3', secondsAgo: MOST_SECONDS_APART - 60 })],
    ['GitLab in the future', (body) => standard(SECRET, body, { id: 'msg_4', secondsAgo: 60 - MOST_SECONDS_APART })],
    [
      'a wrong signature beside a right one',
      (body) => ({ 'x-hub-signature-256': 'x', 'x-gitea-signature': hexOf(SECRET, body) }),
    ],
  ];
  for (const [host, headersOf] of cases) {
    const text = JSON.stringify({ ...PUSH, host });
    const form = formOf({ ...PUSH, host });
    const large = JSON.stringify({ ...PUSH, host, text: 'é'.repeat(600_000) });
    const answers = [
      await callSigned(site, await headersOf(text), text),
      ...(host === 'GitHub' ? [await callSigned(site, { ...(await headersOf(form)), ...FORM }, form)] : []),
      ...(host === 'GitHub' ? [await callSigned(site, await headersOf(large), large)] : []),
    ];
    for (const { status, body } of answers) {
      assert.equal([host, status, body], [host, 200, { ok: true, message: 'build-1 is queued', build_id: 1 }]);
    }
  }
  const wrong = { 'x-hub-signature-256': 'sha256=00' };
  assert.is((await callWebhook(site, SECRET, { json: PUSH, headers: wrong })).status, 200, 'beside a right token');
  assert.equal(
    (await buildsOf(site)).map(({ spec }) => spec.trigger),
    ['webhook'],
  );
});

function twoSignatures(body: string): Record<string, string> {
  const [old, current] = [
    standard('the-secret-before', body, { id: 'msg_2' }),
    standard(SECRET, body, { id: 'msg_2' }),
  ];
  return { ...current, 'webhook-signature': `${old['webhook-signature']} ${current['webhook-signature']}` };
}

test('a delivery with a wrong or missing signature of any kind returns 401', async () => {
  const site = await makeSite();
  const other = JSON.stringify({ ...PUSH, ref: 'refs/heads/other' });
  const digits = hexOf(SECRET, BODY);
  const { 'webhook-timestamp': time = '', ...untimed } = standard(SECRET, BODY);
  const cases: [string, Record<string, string>, string?][] = [
    ['of another body', { 'x-hub-signature-256': await sign(SECRET, other) }],
    ['with another secret', { 'x-hub-signature-256': await sign(`${SECRET}x`, BODY) }],
    ['of another site', { 'x-gitea-signature': hexOf('webhook-secret-of-another', BODY) }],
    ['without its prefix', { 'x-hub-signature-256': digits }],
    ['by SHA-1', { 'x-hub-signature': `sha1=${createHmac('sha1', SECRET).update(BODY).digest('hex')}` }],
    ['cut short', { 'x-gitea-signature': digits.slice(0, 20) }],
    ['empty', { 'x-gitea-signature': '', 'x-forgejo-signature': '', 'x-hub-signature-256': '' }],
    ['sent twice', { 'x-forgejo-signature': `${digits}, ${digits}` }],
    ['of the decoded form', { 'x-gitea-signature': hexOf(SECRET, BODY), ...FORM }, formOf(PUSH)],
    ['of no body', { 'x-gitea-signature': hexOf(SECRET, '') }],
    ['an empty token', { 'x-gitlab-token': '' }],
    ['a wrong token', { 'x-gitlab-token': 'wrong' }],
    ['a standard one of another body', standard(SECRET, other)],
    ['a standard one with the secret as the key', { ...standard(SECRET, BODY), 'webhook-signature': rawKey(time) }],
    ['a standard one with an old time', standard(SECRET, BODY, { secondsAgo: MOST_SECONDS_APART + 60 })],
    ['a standard one with a future time', standard(SECRET, BODY, { secondsAgo: -MOST_SECONDS_APART - 60 })],
    ['a standard one with another id', { ...standard(SECRET, BODY), 'webhook-id': 'msg_2' }],
    ['a standard one with another time', { ...untimed, 'webhook-timestamp': String(Number(time) + 1) }],
    ['a standard one without a time', untimed],
    ['a standard one whose id has a dot', standard(SECRET, BODY, { id: 'msg.1' })],
  ];
  for (const [what, headers, body] of cases) {
    const answer = await callSigned(site, headers, body);
    assert.equal([what, answer.status], [what, 401]);
    assert.match(answer.headers['www-authenticate'] as string, /^Bearer/, what);
  }
  assert.is((await callSigned({ id: 2_147_483_647 }, { 'x-gitea-signature': digits })).status, 401);
  assert.equal(await buildsOf(site), []);
});

const rawKey = (time: string) =>
  `v1,${createHmac('sha256', SECRET).update(`msg_1-a.${time}.${BODY}`).digest('base64')}`;

test('wrong signatures and tokens share a rate limit, which does not apply to a right signature', async () => {
  const site = await makeSite();
  const wrong = await Promise.all(
    Array.from({ length: WRONG_PROOFS.burst + 5 }, () => callSigned(site, { 'x-gitea-signature': 'wrong' })),
  );
  assert.equal([...new Set(wrong.map(({ status }) => status))].sort(), [401, 429]);
  assert.is((await callSigned(site, { 'x-gitea-signature': hexOf(SECRET, BODY) })).status, 200);
});

const commitOf = (number: number) => createHash('sha1').update(String(number)).digest('hex');
const pushOf = (number: number) => ({ ref: 'refs/heads/main', before: commitOf(number - 1), after: commitOf(number) });
/** Sends a push like GitHub, with the token in the URL. */
const push = (site: Site, number: number, id = `delivery-${number}`) =>
  callWebhook(site, SECRET, { json: pushOf(number), headers: { 'x-github-event': 'push', 'x-github-delivery': id } });
const end = ({ ref }: Site, name: string) =>
  api.operator.client.patch(`${buildsPath(ref)}/${name}/status`, { status: { phase: 'Deployed' } });
const revisionsOf = async (site: Site) => (await buildsOf(site)).map(({ spec }) => spec.revision);

test('a push to the production branch builds its commit, and other events build nothing', async () => {
  const site = await makeSite({ source: { repoUrl: 'https://example.com/site.git', productionBranch: 'live/site' } });
  const send = (event: string, payload: object) =>
    callWebhook(site, SECRET, { json: payload, headers: { 'x-github-event': event } });
  const live = { ...pushOf(1), ref: 'refs/heads/live/site' };
  for (const [event, payload, reason] of [
    ['ping', live, /no push/],
    ['pull_request', live, /no push/],
    ['push', pushOf(1), /another branch than live\/site/],
    ['push', { ...live, ref: 'refs/tags/live/site' }, /a tag/],
    ['push', { ...live, after: '0'.repeat(40), deleted: true }, /was deleted/],
  ] as const) {
    const { status, body } = await send(event, payload);
    assert.equal([status, body.ok, body.ignored], [200, true, true]);
    assert.match(body.message, reason);
  }
  const refused = await send('push', { ...live, after: 'HEAD' });
  assert.equal([refused.status, refused.body.errors[0].field], [400, 'after']);
  assert.equal(await buildsOf(site), []);
  assert.equal((await send('push', live)).body, { ok: true, message: 'build-1 is queued', build_id: 1 });
  assert.equal(await revisionsOf(site), [commitOf(1)]);
});

test('several pushes while a build waits or runs build the newest commit of the branch once', async () => {
  const site = await makeSite();
  await push(site, 1);
  assert.is((await push(site, 3)).body.message, 'build-2 is queued');
  assert.is((await push(site, 2)).body.message, 'build-2 is queued', 'the push arrived late');
  await end(site, 'build-1');
  await end(site, 'build-2');
  assert.is((await push(site, 4)).body.message, 'build-3 is queued');
  assert.equal(await revisionsOf(site), [commitOf(1), undefined, commitOf(4)]);
});

test('a push does not join a cancelled build, or a build of another commit', async () => {
  const site = await makeSite();
  await push(site, 1);
  await push(site, 2);
  await api.call('POST', `/projects/${site.id}/builds/1/cancel`, { token: owner.token });
  await api.call('POST', `/projects/${site.id}/builds/2/cancel`, { token: owner.token });
  assert.is((await push(site, 3)).body.message, 'build-3 is queued', 'the earlier builds are cancelled');
  await api.call('POST', `/projects/${site.id}/builds/1/redeploy`, { token: owner.token });
  assert.is((await push(site, 4)).body.message, 'build-5 is queued', 'the newest waiting build is of another commit');
  assert.equal(await revisionsOf(site), [commitOf(1), undefined, undefined, commitOf(1), undefined]);
});

test('100 simultaneous pushes are all accepted, and make one waiting build of the newest commit', async () => {
  const site = await makeSite();
  const burst = await Promise.all(Array.from({ length: 100 }, (_, number) => push(site, number)));
  assert.equal([...new Set(burst.map(({ status }) => status))], [200]);
  assert.ok(burst.every(({ body }) => body.ignored === undefined));
  const builds = await buildsOf(site);
  assert.ok(builds.length <= 2, `${builds.length} builds`);
  assert.is(builds.at(-1)?.spec.revision, undefined, 'the newest commit of the branch');
  for (const { metadata } of builds) await end(site, metadata.name);
  const replayed = await Promise.all([0, 42, 99].map((number) => push(site, number)));
  assert.ok(replayed.every(({ status, body }) => status === 200 && body.ignored));
  assert.is((await buildsOf(site)).length, builds.length);
});

test('a Build stores the keys of its newest deliveries, up to a limit', async () => {
  const site = await makeSite();
  await push(site, 0);
  // Each delivery has two keys: its id, and its signed body.
  const send = (number: number) => {
    const body = JSON.stringify(pushOf(number));
    return callSigned(site, { 'x-gitea-signature': hexOf(SECRET, body), 'x-gitea-delivery': String(number) }, body);
  };
  await Promise.all(Array.from({ length: MOST_KEYS / 2 + 5 }, (_, number) => send(number + 1)));
  await push(site, 1_000);
  const { metadata } = (await buildsOf(site)).at(-1) as Build;
  assert.is(metadata.annotations?.[ANNOTATION_DELIVERIES]?.split(' ').length, MOST_KEYS);
  assert.ok((await push(site, 1_000)).body.ignored);
});

test('a replay of an accepted delivery starts no build, even after a restart or with another id', async () => {
  const site = await makeSite();
  const body = JSON.stringify(pushOf(1));
  const signed = { 'x-hub-signature-256': await sign(SECRET, body), 'x-github-event': 'push' };
  const timed = standard(SECRET, BODY, { id: 'msg_5' });
  assert.is(
    (await callSigned(site, { ...signed, 'x-github-delivery': 'one' }, body)).body.message,
    'build-1 is queued',
  );
  assert.is((await callSigned(site, timed)).body.message, 'build-2 is queued');
  for (const name of ['build-1', 'build-2']) await end(site, name);
  await api.restart();
  for (const [what, headers, text, build] of [
    ['the same', { ...signed, 'x-github-delivery': 'one' }, body, 'build-1'],
    ['another id', { ...signed, 'x-github-delivery': 'two' }, body, 'build-1'],
    ['no id', signed, body, 'build-1'],
    ['a signed id', timed, BODY, 'build-2'],
  ] as const) {
    const answer = await callSigned(site, headers, text);
    const message = `ignored: the delivery was accepted before, by ${build}`;
    const expected = { ok: true, ignored: true, message, build_id: Number(build.slice('build-'.length)) };
    assert.equal([what, answer.status, answer.body], [what, 200, expected]);
  }
  assert.is((await buildsOf(site)).length, 2);
});

test('a redelivery of a rejected delivery starts a build', async () => {
  const site = await makeSite({});
  assert.is((await push(site, 1)).status, 400);
  await api.operator.patch(site.ref, { spec: { source: { repoUrl: 'https://example.com/site.git' } } });
  const answer = await until(
    () => push(site, 1),
    ({ status }) => status === 200,
  );
  assert.equal(answer.body, { ok: true, message: 'build-1 is queued', build_id: 1 });
});

test.run();
