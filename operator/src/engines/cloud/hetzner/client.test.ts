/** Tests the client against a stand-in of the provider, which can't be here and does not fail on request. */
import { writeFileSync } from 'node:fs';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ProviderError, type ProviderErrorKind } from '../provider-error.js';
import { type ApiError, mayHaveRun } from './api-error.js';
import { type Call, HetznerClient } from './client.js';
import { selectorOf } from './labels.js';
import { responses } from './schemas.js';
import { action, failure, listOf, StandIn, TOKEN } from './stand-in.testing.js';

const test = suite('client');
let provider: StandIn;
let client: HetznerClient;
const { signal } = new AbortController();

test.before(async () => {
  provider = await StandIn.start();
});
test.before.each(() => {
  provider.reset();
  client = new HetznerClient({
    url: provider.url,
    tokenFile: provider.tokenFile,
    requestMs: 2_000,
    pause: provider.pause,
  });
});
test.after.each(() => client.close());
test.after(() => provider.close());

const read: Call<unknown> = { method: 'GET', path: '/x', response: responses.none, repeatable: true };
const create: Call<unknown> = { ...read, method: 'POST', body: { name: 'a' }, repeatable: false };

async function errorOf(work: Promise<unknown>): Promise<ProviderError> {
  const error = await work.then(
    () => undefined,
    (reason) => reason,
  );
  assert.instance(error, ProviderError);
  return error as ProviderError;
}

for (const [status, code, kind, retryable] of [
  [401, 'unauthorized', 'unauthorized', false],
  [403, 'forbidden', 'unauthorized', false],
  [403, 'resource_limit_exceeded', 'limit-reached', false],
  [404, 'not_found', 'not-found', false],
  [409, 'uniqueness_error', 'conflict', false],
  [412, 'resource_unavailable', 'no-capacity', true],
  [503, 'resource_unavailable', 'no-capacity', true],
  [412, 'something_new', 'no-capacity', true],
  [422, 'invalid_input', 'invalid', false],
  [422, 'placement_error', 'no-capacity', true],
] as [number, string, ProviderErrorKind, boolean][]) {
  test(`the client returns ${kind} and sends one request when the response is ${status} ${code}`, async () => {
    provider.on('GET /x', failure(status, code));
    const error = await errorOf(client.request(read, signal));
    assert.is(error.kind, kind);
    assert.is(error.retryable, retryable);
    assert.ok(error.problem.includes(code) && error.remedy.length > 10);
    assert.is(error.message, `${error.problem} ${error.remedy}`);
    assert.is(provider.calls.length, 1);
  });
}

for (const [status, code] of [
  [409, 'conflict'],
  [423, 'locked'],
  [429, 'rate_limit_exceeded'],
] as const) {
  test(`the client repeats any request when the response is ${status} ${code}`, async () => {
    provider.on('POST /x', { status: 201, body: {} });
    provider.on('POST /x', failure(status, code), 2);
    await client.request(create, signal);
    assert.is(provider.calls.length, 3);
    assert.is(provider.pauses.length, 2);
  });
}

for (const [what, reply] of [
  ['the response is 500', failure(500, 'server_error')],
  ['the response is 502 without JSON', { status: 502, body: undefined }],
  ['the connection ends without a response', undefined],
] as const) {
  test(`the client repeats a request with the same effect, and no creation, when ${what}`, async () => {
    provider.on('GET /x', { status: 200, body: {} });
    provider.on('GET /x', reply, 1);
    provider.on('POST /x', reply);
    await client.request(read, signal);
    assert.is(provider.calls.length, 2);
    const error = await errorOf(client.request(create, signal));
    assert.is(error.kind, 'unavailable');
    assert.ok(mayHaveRun(error));
    assert.is(provider.calls.length, 3);
  });
}

test('the client repeats a creation when the connection is refused, and reports it after some attempts', async () => {
  const other = await StandIn.start();
  const { url } = other;
  other.close();
  const lonely = new HetznerClient({ url, tokenFile: provider.tokenFile, pause: provider.pause });
  const error = await errorOf(lonely.request(create, signal));
  await lonely.close();
  assert.match(error.problem, 'ECONNREFUSED');
  assert.not(mayHaveRun(error));
  assert.is(provider.pauses.length, 5);
});

test('the client waits as long as Retry-After says', async () => {
  provider.on('GET /x', { status: 200, body: {} });
  provider.on('GET /x', { ...failure(429, 'rate_limit_exceeded'), headers: { 'retry-after': '17' } }, 1);
  await client.request(read, signal);
  assert.is(provider.pauses.length, 1);
  assert.ok((provider.pauses[0] as number) >= 17_000, String(provider.pauses));
});

test('the client returns the time of Retry-After without a wait when it is longer than a minute', async () => {
  provider.on('GET /x', { ...failure(429, 'rate_limit_exceeded'), headers: { 'retry-after': '1800' } });
  const error = await errorOf(client.request(read, signal));
  assert.is(error.retryAfterMs, 1_800_000);
  assert.equal(provider.pauses, []);
  // Other calls do not send requests before either.
  const other = await errorOf(client.request({ ...read, path: '/y' }, signal));
  assert.ok((other.retryAfterMs as number) > 1_790_000);
  assert.is(provider.calls.length, 1);
});

test('the client sends the next request when the exhausted rate limit has refilled by one', async () => {
  const date = new Date('2026-01-01T00:00:00Z');
  const headers = {
    date: date.toUTCString(),
    'ratelimit-limit': '3600',
    'ratelimit-remaining': '0',
    'ratelimit-reset': String(date.getTime() / 1000 + 3_600 * 5),
  };
  provider.on('GET /x', { status: 200, body: {}, headers });
  await client.request(read, signal);
  assert.equal(provider.pauses, []);
  await client.request(read, signal);
  const [pause = 0] = provider.pauses;
  // An hour for 3,600 requests, as the reset is at most that far away.
  assert.ok(pause > 500 && pause <= 1_000, String(pause));
});

test('the client reads all pages of a list', async () => {
  provider.on('GET /ssh_keys', ({ query }) => {
    const page = Number(query.get('page'));
    const key = { id: page, name: `k${page}`, public_key: 'ssh-ed25519 AA', labels: {} };
    return {
      status: 200,
      body: { ssh_keys: [key], meta: { pagination: { next_page: page < 3 ? page + 1 : null } } },
    };
  });
  const keys = await client.list('ssh_keys', selectorOf({ a: 'b', c: 'd' }), signal);
  assert.equal(
    keys.map(({ id }) => id),
    [1, 2, 3],
  );
  assert.equal(
    provider.received.map(({ query }) => query.get('label_selector')),
    ['a=b,c=d', 'a=b,c=d', 'a=b,c=d'],
  );
});

test('the client ends a list that has no end', async () => {
  provider.on('GET /ssh_keys', { status: 200, body: { ssh_keys: [], meta: { pagination: { next_page: 2 } } } });
  const error = await errorOf(client.list('ssh_keys', {}, signal));
  assert.match(error.problem, 'more than 400 pages');
});

test('the client rejects a response that is too large, and one of another form', async () => {
  provider.on('GET /x', { status: 200, body: { text: 'x'.repeat(2 * 1024 * 1024) } });
  assert.match((await errorOf(client.request(read, signal))).problem, 'larger than 1048576 bytes');
  provider.on('GET /x', { status: 200, body: { server: { id: 'one' } } });
  const call = { ...read, response: responses.server };
  assert.match((await errorOf(client.request(call, signal))).problem, 'another form');
  assert.is(provider.calls.length, 2);
});

test('the client gives up a request without a response after its time', async () => {
  const silent = await StandIn.start();
  silent.on('POST /x', () => 'never');
  const hasty = new HetznerClient({ url: silent.url, tokenFile: silent.tokenFile, requestMs: 100 });
  const error = await errorOf(hasty.request(create, signal));
  assert.match(error.problem, /timeout|UND_ERR_HEADERS_TIMEOUT/);
  assert.ok(mayHaveRun(error));
  await hasty.close();
  silent.close();
});

test('the client follows no redirect', async () => {
  provider.on('GET /x', { status: 302, headers: { location: '/v1/y' } });
  assert.is((await errorOf(client.request(read, signal))).kind, 'unavailable');
  assert.equal(provider.calls, ['GET /x']);
});

test('an error contains neither the token nor a control character, also when the provider returns them', async () => {
  provider.on('GET /x', (received) =>
    failure(422, 'invalid_input', { message: `bad\u001b[31m ${received.authorization}`, fields: [TOKEN] }),
  );
  const error = await errorOf(client.request(read, signal));
  assert.is(provider.received[0]?.authorization, `Bearer ${TOKEN}`);
  const text = JSON.stringify(error) + error.stack + error.message + JSON.stringify((error as ApiError).failure);
  assert.not(text.includes(TOKEN), text);
  assert.not(/[\u0000-\u0009\u001b]/.test(error.message));
  assert.match(error.message, '[token]');
});

test('the client uses a replaced token at once, and reports a file without one', async () => {
  provider.on('GET /x', { status: 200, body: {} });
  await client.request(read, signal);
  writeFileSync(provider.tokenFile, 'another-token');
  await client.request(read, signal);
  assert.is(provider.received[1]?.authorization, 'Bearer another-token');
  writeFileSync(provider.tokenFile, 'two\nlines');
  const error = await errorOf(client.request(read, signal));
  assert.is(error.kind, 'unauthorized');
  assert.not(error.message.includes('two'));
  writeFileSync(provider.tokenFile, 'x'.repeat(2_000));
  assert.is((await errorOf(client.request(read, signal))).kind, 'unauthorized');
  const none = new HetznerClient({ url: provider.url, tokenFile: `${provider.tokenFile}-missing` });
  assert.match((await errorOf(none.request(read, signal))).problem, 'ENOENT');
  assert.is(provider.calls.length, 2);
});

test('the client waits for an action with growing pauses, and returns its error', async () => {
  provider.on('GET /actions/7', { status: 200, body: { action: action('success') } });
  provider.on('GET /actions/7', { status: 200, body: { action: action('running') } }, 6);
  await client.finish(action('running'), signal);
  assert.is(provider.pauses.length, 7);
  assert.ok((provider.pauses[6] as number) > 3_000 && (provider.pauses[0] as number) <= 250, String(provider.pauses));

  const wrong = { code: 'resource_unavailable', message: 'no host' };
  const error = await errorOf(client.finish(action('error', wrong), signal));
  assert.is(error.kind, 'no-capacity');
  assert.match(error.problem, 'failed to do it (resource_unavailable): no host.');
});

test('the client stops to wait for an action after its limit', async () => {
  provider.on('GET /actions/7', { status: 200, body: { action: action('running') } });
  const error = await errorOf(client.finish(action('running'), signal, 20_000));
  assert.is(error.kind, 'unavailable');
  assert.ok(provider.pauses.reduce((sum, ms) => sum + ms, 0) < 26_000);
});

test('an aborted call rejects with the reason of its signal, and is not repeated', async () => {
  const abort = new AbortController();
  provider.on('GET /x', () => {
    abort.abort(new Error('the operator stops'));
    return failure(500, 'server_error');
  });
  const reason = await client.request(read, abort.signal).catch((error) => error);
  assert.is((reason as Error).message, 'the operator stops');
  assert.is(provider.calls.length, 1);
});

test('a selector without labels, or with a value that would select others, is refused', () => {
  for (const labels of [{}, { ref: 'a,b' }, { ref: '' }, { 'a b': 'c' }, { ref: 'a=b' }]) {
    assert.throws(
      () => selectorOf(labels as Record<string, string>),
      (error: ProviderError) => error.kind === 'invalid',
    );
  }
  assert.equal(selectorOf({ 'slipway.dev/ref': 'abc-1' }), { label_selector: 'slipway.dev/ref=abc-1' });
});

test('a list without objects is empty', async () => {
  provider.on('GET /servers', listOf('servers', []));
  assert.equal(await client.list('servers', {}, signal), []);
});

test.run();
