/**
 * Tests requests that a page of a foreign site sends to the management API through its reader's browser, and how
 * browsers treat the responses.
 */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestApi, type TestApi } from '../testing.js';

const CONSOLE = 'https://console.example.com';
const EVIL = 'https://evil.example';
let api: TestApi;
let count = 0;

test.before(async () => {
  api = await startTestApi({ corsOrigins: [CONSOLE] });
});

test.after(() => api?.close());

const account = () => ({ email: `person-${count++}@example.com`, password: 'a long password' });

const register = (headers: Record<string, string>, type = 'application/json') =>
  api.call('POST', '/auth/register', {
    body: JSON.stringify(account()),
    headers: { 'content-type': type, host: 'localhost:4000', ...headers },
  });

for (const [what, headers] of [
  ['another site', { origin: EVIL, 'sec-fetch-site': 'cross-site' }],
  ['another port of this machine', { origin: 'http://localhost:3000', 'sec-fetch-site': 'same-site' }],
  ['a project', { origin: 'http://shop.localhost:4000', 'sec-fetch-site': 'cross-site' }],
  ['a sandboxed project', { origin: 'null', 'sec-fetch-site': 'cross-site' }],
  ['another scheme', { origin: 'https://localhost:4000', 'sec-fetch-site': 'cross-site' }],
  ['another site, without Origin', { 'sec-fetch-site': 'cross-site' }],
  ['a sibling host, without Origin', { 'sec-fetch-site': 'same-site' }],
  ['a site whose origin is no URL', { origin: 'x' }],
] as [string, Record<string, string>][]) {
  test(`a page of ${what} cannot register, log in or write anything`, async () => {
    for (const type of ['application/json', 'text/plain', 'application/x-www-form-urlencoded']) {
      const { status, body, headers: answered } = await register(headers, type);
      assert.equal([status, body.code], [403, 'foreign_origin'], type);
      assert.is(answered['access-control-allow-origin'], undefined);
    }
    for (const [method, path] of [
      ['POST', '/auth/login'],
      ['POST', '/projects'],
      ['PATCH', '/projects/1'],
      ['DELETE', '/projects/1'],
      ['POST', '/tokens'],
      ['POST', '/projects/1/mcp'],
    ] as const) {
      const { status, body } = await api.call(method, path, { json: {}, headers });
      assert.equal([status, body.code], [403, 'foreign_origin'], `${method} ${path}`);
    }
  });
}

for (const [what, headers] of [
  ['a client that is no browser', {}],
  ['a page of the platform', { origin: 'http://localhost:4000', 'sec-fetch-site': 'same-origin' }],
  ['a page of the platform at its address', { origin: 'http://127.0.0.1:4000', host: '127.0.0.1:4000' }],
  ['an allowed page', { origin: CONSOLE, 'sec-fetch-site': 'cross-site' }],
] as [string, Record<string, string>][]) {
  test(`${what} can register an account`, async () => {
    assert.is((await register(headers)).status, 201);
  });
}

test('the response to a preflight permits only an allowed origin, no credentials, and varies by origin', async () => {
  const ask = (origin: string) =>
    api.call('OPTIONS', '/projects', { headers: { origin, 'access-control-request-method': 'POST' } });
  const allowed = (await ask(CONSOLE)).headers;
  assert.is(allowed['access-control-allow-origin'], CONSOLE);
  assert.is(allowed['access-control-allow-credentials'], undefined);
  for (const origin of [EVIL, 'null', `${CONSOLE}.evil.example`, 'https://console.example.com:8443']) {
    const { headers } = await ask(origin);
    assert.is(headers['access-control-allow-origin'], undefined, origin);
    assert.match(String(headers.vary), /\bOrigin\b/i);
  }
});

test('a page of a foreign site reads no response', async () => {
  for (const path of ['/docs', '/openapi.json', '/health', '/projects', '/nowhere']) {
    const { headers } = await api.call('GET', path, { headers: { origin: EVIL } });
    assert.is(headers['access-control-allow-origin'], undefined, path);
    assert.is(headers['cross-origin-resource-policy'], 'same-origin', path);
  }
});

test('every response has a content security policy that forbids frames and scripts of other pages', async () => {
  for (const path of ['/docs', '/docs/swagger-ui-init.js', '/openapi.json', '/health', '/projects', '/nowhere']) {
    const { headers } = await api.call('GET', path);
    const policy = String(headers['content-security-policy']);
    assert.match(policy, /^default-src 'none'/, path);
    assert.match(policy, /frame-ancestors 'none'/, path);
    assert.is(/script-src 'self'/.test(policy), path.startsWith('/docs'), path);
    assert.not.match(policy, /script-src[^;]*unsafe/, path);
    assert.is(headers['x-content-type-options'], 'nosniff', path);
    assert.is(headers['referrer-policy'], 'no-referrer', path);
    assert.is(headers['set-cookie'], undefined, path);
  }
});

test('no query parameter turns a response into a script', async () => {
  for (const query of ['callback=alert', 'jsonp=alert']) {
    const { headers, body } = await api.call('GET', `/health?${query}`);
    assert.match(String(headers['content-type']), /^application\/(problem\+)?json/);
    assert.not.match(JSON.stringify(body), /alert\(/);
  }
});

test.run();
