/** Tests the host names that the one-machine platform accepts, and client addresses behind proxies. */
import { request as httpRequest, type IncomingHttpHeaders, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { readTrustedProxies } from '@slipway/installation';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { Service } from '../services/service.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createGateway, type GatewayServerOptions } from './server.js';

const keys = await signedKeys();
const tenant = tenantWithoutDatabase('shop', keys);

/** Service that returns the caller's address. */
const witness: Service = {
  handle: async ({ address, outgoing }) => void outgoing.end(address),
  forget: async () => undefined,
  close: async () => undefined,
};

async function withGateway(
  options: Partial<GatewayServerOptions>,
  work: (port: number) => Promise<void>,
): Promise<void> {
  const gateway = createGateway({
    publicUrl: 'https://backend.example.com',
    tenant: (ref) => (ref === 'shop' ? tenant : undefined),
    complete: () => true,
    services: { rest: witness },
    rateLimit: 0,
    management: { forward: (_, outgoing, __, address) => void outgoing.end(address), close: () => undefined },
    log: pino({ level: 'silent' }),
    ...options,
  });
  await new Promise<void>((resolve) => gateway.listen(0, '127.0.0.1', resolve));
  try {
    await work(portOf(gateway));
  } finally {
    gateway.closeAllConnections();
    gateway.close();
  }
}

const portOf = (server: Server) => (server.address() as AddressInfo).port;

function ask(port: number, path: string, headers: Record<string, string>) {
  return new Promise<{ status: number; text: string; headers: IncomingHttpHeaders }>((resolve, reject) => {
    const outgoing = httpRequest({ host: '127.0.0.1', port, path, agent: false });
    for (const [name, value] of Object.entries({ apikey: keys.anonKey, ...headers })) outgoing.setHeader(name, value);
    outgoing.on('response', async (answer: IncomingMessage) => {
      let text = '';
      for await (const chunk of answer) text += chunk;
      resolve({ status: answer.statusCode as number, text, headers: answer.headers });
    });
    outgoing.on('error', reject).end();
  });
}

const PLACES = ['/docs', '/auth/register', '/p/shop/rest/v1/todos', '/healthz'];

test('a request for a foreign host name gets 421 on every path', async () => {
  await withGateway({ allowedHosts: [] }, async (port) => {
    for (const host of [
      'evil.example',
      `evil.example:${port}`,
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      '',
    ]) {
      for (const path of PLACES) {
        const { status, text } = await ask(port, path, { host });
        assert.is(status, 421, `${host} ${path}`);
        assert.match(text, /SLIPWAY_PUBLIC_URL.*SLIPWAY_ALLOWED_HOSTS/);
      }
    }
    assert.match(await upgraded(port, 'evil.example'), /^HTTP\/1\.1 421 /);
  });
});

test('the rejection of a host name can be read by pages, and is logged', async () => {
  const lines: string[] = [];
  const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) });
  await withGateway({ allowedHosts: [], log }, async (port) => {
    const host = `${'a'.repeat(300)}.example`;
    const { headers } = await ask(port, '/projects', { host, origin: 'https://app.example' });
    assert.is(headers['access-control-allow-origin'], '*');
    for (let i = 0; i < 50; i++) await ask(port, '/projects', { host });
  });
  assert.is(JSON.parse(lines[0] as string).host, 'a'.repeat(200));
  assert.ok(lines.length < 51);
});

for (const [what, head] of [
  ['for another host name', 'POST / HTTP/1.1\r\nHost: evil.example\r\n'],
  ['of a probe', 'POST /healthz HTTP/1.1\r\nHost: localhost\r\n'],
  [
    'of a preflight',
    'OPTIONS /p/shop/rest/v1/todos HTTP/1.1\r\nHost: localhost\r\nAccess-Control-Request-Method: POST\r\n',
  ],
]) {
  test(`a connection ends when the body of a request ${what} does not arrive`, async () => {
    const limits = { requestMilliseconds: 100, checkMilliseconds: 20 };
    await withGateway({ allowedHosts: [], limits }, async (port) => {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined);
      socket.resume().write(`${head}Content-Length: 1000\r\n\r\nx`);
      await new Promise((resolve) => socket.once('close', resolve));
    });
  });
}

test('a request for a name of the platform is served', async () => {
  const names = [
    'localhost',
    'LOCALHOST.',
    'shop.localhost',
    '127.0.0.1',
    '[::1]',
    '192.168.1.5',
    'backend.example.com',
  ];
  await withGateway({ allowedHosts: ['workstation'], projectsDomain: 'projects.example.net' }, async (port) => {
    for (const name of [...names, 'workstation', 'shop.projects.example.net']) {
      for (const host of [name, `${name}:${port}`]) {
        const { status } = await ask(port, '/p/shop/rest/v1/todos', { host });
        assert.is.not(status, 421, host);
      }
    }
  });
});

test('a project is served at its name below the domain of projects', async () => {
  await withGateway({ allowedHosts: [], projectsDomain: 'projects.example.net:8443' }, async (port) => {
    const at = (host: string) => ask(port, '/rest/v1/todos', { host });
    const { status, text } = await at('shop.projects.example.net:8443');
    assert.equal({ status, text }, { status: 200, text: '127.0.0.1' });
    assert.is((await at('shop.backend.example.com')).status, 421);
  });
});

for (const [what, proxies, forwarded, address] of [
  ['nobody is trusted', undefined, '203.0.113.9', '127.0.0.1'],
  ['the peer is no proxy', '10.0.0.0/8', '203.0.113.9', '127.0.0.1'],
  ['the peer is a proxy', '127.0.0.1', '203.0.113.9', '203.0.113.9'],
  ['the client wrote an address too', '127.0.0.1', '198.51.100.1, 203.0.113.9', '203.0.113.9'],
  ['two proxies are in a row', '127.0.0.0/8,10.0.0.0/8', '198.51.100.1, 203.0.113.9, 10.1.2.3', '203.0.113.9'],
  ['the list is of proxies alone', '127.0.0.1,10.0.0.0/8', '10.1.2.3', '10.1.2.3'],
  ['the list has no address', '127.0.0.1', 'unknown', '127.0.0.1'],
  ['the list ends with no address', '127.0.0.1', '203.0.113.9, x', '127.0.0.1'],
  ['the proxy appends the port', '127.0.0.1', '203.0.113.9:51234', '203.0.113.9'],
  ['the proxy appends the port of an IPv6 client', '127.0.0.1', '[2001:db8::7]:51234', '2001:db8::7'],
  ['the client has IPv6', '127.0.0.1', '2001:db8::7', '2001:db8::7'],
] as const) {
  test(`the client's address is correct if ${what}`, async () => {
    await withGateway({ trustedProxies: readTrustedProxies(proxies) }, async (port) => {
      for (const path of ['/p/shop/rest/v1/todos', '/projects']) {
        const headers = { 'x-forwarded-for': forwarded, 'x-real-ip': '192.0.2.1', forwarded: 'for=192.0.2.1' };
        assert.is((await ask(port, path, headers)).text, address, path);
      }
    });
  });
}

test('a rate limit counts clients behind a trusted proxy separately', async () => {
  await withGateway({ trustedProxies: readTrustedProxies('127.0.0.1'), rateLimit: 1 }, async (port) => {
    const statuses = async (address: string) => {
      const seen = new Set<number>();
      for (let i = 0; i < 20 && !seen.has(429); i++) {
        seen.add((await ask(port, '/p/shop/rest/v1/todos', { 'x-forwarded-for': address })).status);
      }
      return seen;
    };
    assert.ok((await statuses('203.0.113.9')).has(429));
    assert.is((await ask(port, '/p/shop/rest/v1/todos', { 'x-forwarded-for': '203.0.113.10' })).status, 200);
  });
});

function upgraded(port: number, host: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
    });
    socket.once('end', () => resolve(text)).once('error', reject);
    socket.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`);
  });
}

test.run();
