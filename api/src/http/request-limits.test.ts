/** Every management route has a request limit, by network and by account. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type Answer, register, startTestApi, type TestApi } from '../testing.js';

const PER_MINUTE = 60;
const OF_A_NETWORK = 4 * PER_MINUTE;
/** The routes that git hosts call. */
const DELIVERIES = ['/projects/{id}/deploy', '/projects/{id}/compute/webhook'];
let api: TestApi;
test.before(async () => {
  api = await startTestApi({
    requestLimits: { perMinute: PER_MINUTE, sparesLoopback: true, sparesLocalAccounts: false },
  });
});
test.after(() => api?.close());

const from = (address: string, method: string, path: string, options: object = {}) =>
  api.call(method, path, { ...options, headers: { 'x-forwarded-for': address } });
/** Sends `count` concurrent requests. */
const sendAll = (count: number, send: (index: number) => Promise<Answer>) =>
  Promise.all(Array.from({ length: count }, (_, index) => send(index)));
const refusedOf = (answers: Answer[]) => answers.find(({ status }) => status === 429);
const expectRefused = (answer: Answer | undefined, what = '') => {
  assert.equal([answer?.status, answer?.body.code], [429, 'too_many_requests'], what);
  assert.ok(Number(answer?.headers['retry-after']) >= 1, what);
};

test('addresses of one IPv6 /48 network share a budget of requests, and another network has its own', async () => {
  const answers = await sendAll(2 * OF_A_NETWORK, (index) =>
    from(`2001:db8:7:${index.toString(16)}::1`, 'GET', '/plans'),
  );
  expectRefused(refusedOf(answers));
  assert.is((await from('2001:db8:8::1', 'GET', '/plans')).status, 200);
});

test('an account has one budget for all its networks and tokens, and another account has its own', async () => {
  const [spender, other] = [await register(api), await register(api)];
  const pat = (await api.call('POST', '/tokens', { token: spender.token, json: {} })).body.token;
  const answers = await sendAll(2 * PER_MINUTE, (index) =>
    from(`198.51.100.${index}`, 'GET', '/auth/me', { token: index % 2 ? pat : spender.token }),
  );
  expectRefused(refusedOf(answers));
  assert.is((await from('198.51.100.1', 'GET', '/auth/me', { token: other.token })).status, 200);
});

for (const [index, [method, path, cost]] of (
  [
    ['POST', '/projects', 20],
    ['POST', '/projects/1/reprovision', 20],
    ['POST', '/projects/1/functions', 10],
    ['POST', '/projects/1/services/auth/restart', 10],
    ['PATCH', '/projects/1/functions/1', 10],
    ['POST', '/projects/1/functions/1/deploy', 10],
    ['POST', '/projects/1/functions/1/rollback', 10],
    ['POST', '/tokens', 10],
    ['POST', '/projects/1/query', 2],
  ] as const
).entries()) {
  test(`${method} ${path} costs ${cost} of the account’s budget`, async () => {
    const { token } = await register(api);
    const answers = await sendAll(PER_MINUTE, () => from(`203.0.113.${index}`, method, path, { token, json: {} }));
    expectRefused(refusedOf(answers));
    const admitted = answers.filter(({ status }) => status !== 429).length;
    // The budget grows by one each second during the requests.
    assert.ok(admitted >= PER_MINUTE / cost && admitted < PER_MINUTE, String(admitted));
  });
}

test('requests from loopback and requests of probes do not count against a network’s budget', async () => {
  for (const [address, path] of [
    ['127.0.0.1', '/plans'],
    ['::1', '/plans'],
    ['203.0.113.77', '/healthz'],
  ] as const) {
    const answers = await sendAll(2 * OF_A_NETWORK, () => from(address, 'GET', path));
    assert.is(refusedOf(answers), undefined, address);
  }
});

test('deliveries of webhooks do not count against a network’s budget, and are accepted without one', async () => {
  const address = '203.0.113.78';
  const deliver = (index = 0) =>
    from(address, 'POST', `/projects/1/${index % 2 ? 'compute/webhook' : 'deploy'}?token=wrong`);
  const answers = await sendAll(40, deliver);
  assert.equal([...new Set(answers.map(({ status }) => status))], [401]);
  expectRefused(refusedOf(await sendAll(2 * OF_A_NETWORK, () => from(address, 'GET', '/plans'))));
  for (const route of [0, 1]) assert.is((await deliver(route)).status, 401);
  const { token } = await register(api);
  for (const path of ['deploy', 'compute/webhook']) {
    expectRefused(await from(address, 'POST', `/projects/1/${path}`, { token }), path);
  }
});

// Runs last: Passport has one strategy for each process, and this other API replaces it.
test('every other route rejects requests of a network that has used up its budget', async () => {
  // A budget of four requests, which grows by one in 15 seconds.
  const requestLimits = { perMinute: 1, sparesLoopback: true, sparesLocalAccounts: false };
  const strict = await startTestApi({ requestLimits });
  try {
    const sendSix = (method: string, path: string) =>
      sendAll(6, () => strict.call(method, path, { headers: { 'x-forwarded-for': '192.0.2.1' } }));
    const document = (await strict.call('GET', '/openapi.json')).body;
    for (const [path, operations] of Object.entries(document.paths as Record<string, object>)) {
      if (DELIVERIES.includes(path)) continue;
      for (const method of Object.keys(operations)) {
        const answers = await sendSix(method.toUpperCase(), path.replaceAll(/\{\w+\}/g, '1'));
        expectRefused(refusedOf(answers), `${method} ${path}`);
      }
    }
    for (const path of ['/nothing', '/docs']) expectRefused(refusedOf(await sendSix('GET', path)), path);
    const another = { headers: { 'x-forwarded-for': '192.0.2.2' } };
    assert.is((await strict.call('GET', '/plans', another)).status, 200);
  } finally {
    await strict.close();
  }
});

test.run();
