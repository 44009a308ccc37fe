/** Tests which response headers of a project reach a browser, from every service and for every way of writing them. */

import { createServer, request as httpRequest, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { PROJECT_SERVICES, type ProjectService } from '@slipway/crds';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { BackendTenant } from '../projects/tenant.js';
import type { Service } from '../services/service.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createRemoteService } from '../upstreams/remote.js';
import { createGateway } from './server.js';

/** Headers that affect more than their own response. */
const OF_THE_ORIGIN: Record<string, string | string[]> = {
  'Set-Cookie': ['a=1; Path=/', 'b=2'],
  'Clear-Site-Data': '"*"',
  'service-worker-allowed': '/',
  'Strict-Transport-Security': 'max-age=99999999; includeSubDomains',
  'Alt-Svc': 'h3="evil.example:443"',
  NEL: '{"report_to":"x","max_age":1}',
  'Report-To': '{"group":"x"}',
  'Reporting-Endpoints': 'x="https://evil.example"',
  'Accept-CH': 'Sec-CH-UA-Model',
  'Critical-CH': 'Sec-CH-UA-Model',
  'Origin-Agent-Cluster': '?0',
  'Speculation-Rules': '"/rules.json"',
  'Use-As-Dictionary': 'match="/*"',
  'Observe-Browsing-Topics': '?1',
  'Attribution-Reporting-Register-Source': '{}',
  'Set-Login': 'logged-in',
  'Secure-Session-Registration': '(ES256);path="x"',
  'Shared-Storage-Write': 'clear',
  'X-Accel-Redirect': '/internal',
  'X-Sendfile': '/etc/passwd',
  'WWW-Authenticate': 'Bearer, Basic realm="Your platform password"',
};

const HARMLESS = {
  'content-type': 'text/html',
  'x-own': '1',
  refresh: '0; url=https://elsewhere.example',
  link: '</next>; rel=next',
  'content-location': '/todos',
  'permissions-policy': 'camera=()',
  'www-authenticate': 'Bearer',
};

const SANDBOX = /(^|, )sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts$/;

/** Service whose response depends on the path. */
const hostile: Service = {
  async handle({ path, outgoing }) {
    if (path.endsWith('/harmless')) outgoing.writeHead(200, HARMLESS).end();
    else if (path.endsWith('/reason')) outgoing.writeHead(200, 'Fine', OF_THE_ORIGIN).end();
    else if (path.endsWith('/set')) {
      for (const [name, value] of Object.entries(OF_THE_ORIGIN)) outgoing.setHeader(name, value);
      outgoing.setHeader('Content-Security-Policy', "default-src 'self'").end();
    } else if (path.endsWith('/append')) {
      for (const [name, value] of Object.entries(OF_THE_ORIGIN)) outgoing.appendHeader(name, value);
      outgoing.appendHeader('Content-Security-Policy', "default-src 'self'").end();
    } else if (path.endsWith('/implicit')) outgoing.end('text');
    else if (path.endsWith('/flushed')) {
      outgoing.flushHeaders();
      outgoing.end();
    } else if (path.endsWith('/list')) {
      outgoing.writeHead(200, ['Set-Cookie', 'a=1', 'Link', '</a>', 'Link', '</b>']).end();
    } else if (path.endsWith('/policy')) {
      outgoing.writeHead(200, { 'content-security-policy': "default-src 'self'", 'x-content-type-options': 'none' });
      outgoing.end();
    } else if (path.endsWith('/cookies')) {
      const cookies = ['own=1; Secure', 'wide=1; Path=/; DOMAIN=slipway.test', 'also=1;domain=.test; Secure'];
      outgoing.writeHead(200, { 'Set-Cookie': cookies, 'Clear-Site-Data': '"cookies"', 'X-Accel-Redirect': '/x' });
      outgoing.end();
    } else outgoing.writeHead(200, OF_THE_ORIGIN).end();
  },
  forget: async () => undefined,
  close: async () => undefined,
};

const REF = 'shop';
let tenant: BackendTenant;
let pod: Server;
let remote: Service;
let gateway: Server;
let throughPods: Server;

test.before(async () => {
  tenant = tenantWithoutDatabase(REF, { ...(await signedKeys()), services: new Set(PROJECT_SERVICES) });
  pod = createServer((_, outgoing) => outgoing.writeHead(200, OF_THE_ORIGIN).end());
  pod.on('upgrade', (_, socket) => {
    socket.end('HTTP/1.1 403 Forbidden\r\nSet-Cookie: a=1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n');
  });
  await listening(pod);
  remote = createRemoteService({ service: 'realtime', urls: [`http://127.0.0.1:${portOf(pod)}`] });
  const of = (make: (name: ProjectService) => Service) =>
    listening(
      createGateway({
        publicUrl: 'http://slipway.test:4000',
        tenant: (ref) => (ref === REF ? tenant : undefined),
        complete: () => true,
        services: Object.fromEntries(PROJECT_SERVICES.map((name) => [name, make(name)])),
        rateLimit: 0,
        management: { forward: (_, outgoing) => void outgoing.end(), close: () => undefined },
        log: pino({ level: 'silent' }),
      }),
    );
  gateway = await of(() => hostile);
  throughPods = await of(() => remote);
});

test.after(async () => {
  for (const server of [gateway, throughPods, pod]) {
    server.closeAllConnections();
    server.close();
  }
  await remote.close();
});

for (const service of PROJECT_SERVICES) {
  test(`the headers of ${service} can't affect a shared origin`, async () => {
    for (const [name, server] of [
      ['in process', gateway],
      ['in a pod', throughPods],
    ] as const) {
      const { headers } = await ask(server, `/p/${REF}/${service}/v1/hostile`);
      for (const header of Object.keys(OF_THE_ORIGIN)) {
        assert.is(headers[header.toLowerCase()], undefined, `${header} ${name}`);
      }
      guarded(headers, name);
    }
  });
}

test('headers that a service sets or appends one at a time can’t affect a shared origin', async () => {
  for (const way of ['set', 'append']) {
    const { headers } = await ask(gateway, `/p/${REF}/rest/v1/${way}`);
    for (const header of Object.keys(OF_THE_ORIGIN)) assert.is(headers[header.toLowerCase()], undefined, header);
    guarded(headers, way);
  }
});

const WAYS = ['hostile', 'reason', 'implicit', 'flushed', 'harmless', 'policy', 'list'];

test('every way of writing headers adds the sandbox policy on a shared origin', async () => {
  for (const way of WAYS) {
    const { headers } = await ask(gateway, `/p/${REF}/rest/v1/${way}`);
    guarded(headers, way);
    assert.is(headers['set-cookie'], undefined, way);
  }
  const { headers } = await ask(gateway, `/p/${REF}/rest/v1/policy`);
  assert.match(headers['content-security-policy'] as string, /^default-src 'self', sandbox /);
});

test('headers of a single response are kept on a shared origin', async () => {
  const { headers } = await ask(gateway, `/p/${REF}/rest/v1/harmless`);
  for (const [name, value] of Object.entries(HARMLESS)) assert.is(headers[name], value, name);
  assert.is((await ask(gateway, `/p/${REF}/rest/v1/list`)).headers.link, '</a>, </b>');
});

test('the gateway’s own errors have the sandbox policy on a shared origin', async () => {
  for (const [what, path, own] of [
    ['no key', `/p/${REF}/rest/v1/x`, {}],
    ['no project', '/p/nobody/rest/v1/x', {}],
    ['no service', `/p/${REF}/nothing/v1/x`, {}],
    ['a preflight', `/p/${REF}/rest/v1/x`, { 'access-control-request-method': 'GET' }],
  ] as const) {
    const method = what === 'a preflight' ? 'OPTIONS' : 'GET';
    guarded((await ask(gateway, path, { apikey: '', ...own }, method)).headers, what);
  }
});

test('a rejection of an upgrade, by the gateway or a pod, has the sandbox policy and no cookie', async () => {
  for (const [server, path] of [
    [gateway, `/p/${REF}/rest/v1/x`],
    [throughPods, `/p/${REF}/realtime/v1/websocket`],
  ] as const) {
    const head = await upgraded(server, path);
    assert.match(head, /\r\nContent-Security-Policy: sandbox /);
    assert.match(head, /\r\nX-Content-Type-Options: nosniff/);
    assert.not.match(head, /set-cookie/i);
  }
});

test('a project with its own host name sets cookies only for that name', async () => {
  const host = `${REF}.slipway.test:4000`;
  const { headers } = await ask(gateway, '/rest/v1/cookies', { host });
  assert.equal(headers['set-cookie'], ['own=1; Secure']);
  assert.is(headers['clear-site-data'], undefined);
  assert.is(headers['x-accel-redirect'], undefined);
  assert.is((await ask(gateway, '/rest/v1/hostile', { host })).headers['service-worker-allowed'], '/');
  assert.is((await ask(gateway, '/rest/v1/implicit', { host })).headers['content-security-policy'], undefined);
});

function guarded(headers: IncomingMessage['headers'], what: string): void {
  assert.match(headers['content-security-policy'] as string, SANDBOX, what);
  assert.is(headers['x-content-type-options'], 'nosniff', what);
}

const portOf = (server: Server) => (server.address() as AddressInfo).port;

const listening = (server: Server): Promise<Server> =>
  new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server)));

function ask(server: Server, path: string, own: Record<string, string> = {}, method = 'GET'): Promise<IncomingMessage> {
  const headers = { apikey: tenant.anonKey, ...own };
  return new Promise((resolve, reject) => {
    const outgoing = httpRequest({ host: '127.0.0.1', port: portOf(server), path, method, headers, agent: false });
    outgoing.on('response', (answer) => resolve(answer.resume())).on('error', reject);
    outgoing.end();
  });
}

function upgraded(server: Server, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(portOf(server), '127.0.0.1');
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    socket.once('end', () => resolve(text)).once('error', reject);
    const headers = `Host: x\r\napikey: ${tenant.anonKey}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n`;
    socket.write(`GET ${path} HTTP/1.1\r\n${headers}Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n\r\n`);
  });
}

test.run();
