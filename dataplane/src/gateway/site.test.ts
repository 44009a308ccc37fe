/** Tests sites of projects. Each has its own origin, which serves neither the platform nor a backend. */
import type { IncomingMessage, Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { SiteTenant, Tenant } from '../projects/tenant.js';
import type { Service } from '../services/service.js';
import { requestHost } from '../testing/host-request.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createGateway } from './server.js';

const keys = await signedKeys();

const site = (ref: string, change: Partial<SiteTenant> = {}): SiteTenant => ({
  kind: 'site',
  ref,
  revision: '1',
  suspended: false,
  formsEnabled: false,
  type: 'frontend',
  siteUrl: `http://${ref}.localhost:4000`,
  ...change,
});

const tenants = new Map<string, Tenant>([
  ['blog', site('blog')],
  ['still', site('still', { suspended: true })],
  ['homeless', site('homeless', { siteUrl: undefined })],
  ['shop', tenantWithoutDatabase('shop', keys)],
]);

/** Names of the services that received a request, and of the platform. No request to a site may reach one. */
const reached: string[] = [];
const witness: Service = {
  handle: async ({ tenant, outgoing }) => {
    reached.push(tenant.ref);
    outgoing.end('{}');
  },
  forget: async () => undefined,
  close: async () => undefined,
};
const management = {
  forward: (_: IncomingMessage, outgoing: { end(): unknown }) => {
    reached.push('platform');
    outgoing.end();
  },
  close: () => undefined,
};

let gateway: Server;
let port: number;

test.before(async () => {
  gateway = createGateway({
    publicUrl: 'http://localhost:4000',
    allowedHosts: [],
    tenant: (ref) => tenants.get(ref),
    complete: () => true,
    services: { auth: witness, rest: witness, realtime: witness, functions: witness, storage: witness },
    rateLimit: 0,
    management,
    log: pino({ level: 'silent' }),
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  port = (gateway.address() as AddressInfo).port;
});
test.before.each(() => void reached.splice(0));
test.after(() => {
  gateway.closeAllConnections();
  gateway.close();
});

const ask = (host: string, path = '/', method = 'GET', headers: Record<string, string> = {}) =>
  requestHost({ port, host, path, method, headers });

const HOST = 'blog.localhost:4000';

test('a request for a site without a deployment gets 404 with the reason, also without a key', async () => {
  const { status, headers, text } = await ask(HOST);
  assert.is(status, 404);
  assert.is(JSON.parse(text).message, 'Nothing is deployed yet');
  assert.is(headers['cache-control'], 'no-store');
});

test('a request for any path of a site never reaches a service or the platform, whatever its key', async () => {
  const { anonKey, serviceRoleKey } = keys;
  for (const path of [
    '/rest/v1/todos',
    '/auth/v1/signup',
    '/functions/v1/hello',
    '/p/shop/rest/v1/todos',
    '/p/blog/rest/v1/todos',
    '/projects',
    '/auth/login',
    '/healthz',
    '/readyz',
    '//localhost/projects',
    '/%2e%2e/projects',
    '/..//p/shop/rest/v1/todos',
  ]) {
    for (const apikey of [anonKey, serviceRoleKey]) {
      const { status } = await ask(HOST, path, 'GET', { apikey, authorization: `Bearer ${apikey}` });
      assert.is(status, 404, path);
    }
  }
  assert.equal(reached, []);
});

test('a host name in capitals, with a trailing dot or another port belongs to the same site', async () => {
  for (const host of [
    'BLOG.Localhost:4000',
    'blog.localhost.',
    'blog.localhost.:4000',
    'blog.localhost:1',
    'blog.localhost',
  ])
    assert.match((await ask(host)).text, 'Nothing is deployed yet', host);
  assert.equal(reached, []);
});

test('a host name below or next to that of a site is not served', async () => {
  for (const host of ['www.blog.localhost', 'blog-.localhost', 'blog..localhost'])
    assert.match((await ask(host, '/projects')).text, 'There is no project at this address', host);
  assert.equal(reached, []);
});

test('a request for a site below the platform’s address gets 404 with the site’s own address', async () => {
  for (const path of ['/p/blog', '/p/blog/', '/p/blog/rest/v1/todos', '/p/blog?x=1']) {
    const { status, text } = await ask('localhost:4000', path);
    assert.is(status, 404);
    assert.match(JSON.parse(text).message, 'it is at http://blog.localhost:4000');
  }
  assert.equal(reached, []);
});

test('an installation without a domain for projects serves no site, and names the setting', async () => {
  for (const [host, path] of [
    ['homeless.localhost', '/'],
    ['localhost', '/p/homeless'],
  ] as const) {
    const { status, text } = await ask(host, path);
    assert.is(status, 404);
    assert.match(JSON.parse(text).hint, 'SLIPWAY_PROJECTS_DOMAIN');
  }
});

test('a request target with a host is rejected, whatever the Host header is', async () => {
  for (const host of [HOST, 'localhost:4000'])
    for (const target of ['http://blog.localhost:4000/', 'http://localhost:4000/projects', 'http://evil.test/projects'])
      assert.is((await ask(host, target)).status, 400, target);
  assert.equal(reached, []);
});

test('a suspended site returns 503', async () => {
  const { status, text } = await ask('still.localhost');
  assert.is(status, 503);
  assert.is(JSON.parse(text).code, 'project_suspended');
});

test('a site allows only GET and HEAD, and no page of another origin can read it', async () => {
  const preflight = { origin: 'http://evil.test', 'access-control-request-method': 'PUT' };
  for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS', 'PROPFIND']) {
    const { status, headers } = await ask(HOST, '/', method, preflight);
    assert.equal([status, headers.allow], [405, 'GET, HEAD'], method);
    assert.is(headers['access-control-allow-origin'], undefined);
  }
  const { headers } = await ask(HOST, '/', 'GET', { origin: 'http://evil.test' });
  assert.is(headers['access-control-allow-origin'], undefined);
});

test('a site rejects upgrades', async () => {
  const upgrade = {
    connection: 'Upgrade',
    upgrade: 'websocket',
    'sec-websocket-key': 'eA==',
    'sec-websocket-version': '13',
  };
  for (const [host, path] of [
    [HOST, '/realtime/v1/websocket'],
    ['localhost:4000', '/p/blog/realtime/v1/websocket'],
  ] as const) {
    const { status } = await ask(host, `${path}?apikey=${keys.anonKey}`, 'GET', upgrade);
    assert.is(status, 400);
  }
  assert.equal(reached, []);
});

test.run();
