/** Tests HTTPS at the public port, and the port of plain HTTP beside it, by real handshakes. */
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { type AddressInfo, connect as connectPlain, type Server as NetServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { CertificateFolder } from '@slipway/certificates';
import { selfSigned } from '@slipway/certificates/self-signed.testing.js';
import { endRequests } from '@slipway/program';
import { pino } from 'pino';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type ClientOptions, WebSocket, WebSocketServer } from 'ws';
import type { Service } from '../services/service.js';
import { requestHost } from '../testing/host-request.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { hostCheck } from './host-check.js';
import { createPlainPort } from './plain-port.js';
import { createGateway } from './server.js';
import { type CertificateFiles, createTlsServer, type TlsFront } from './tls.js';

const HOST = 'shop.apps.example.net';
const PUBLIC_URL = 'https://slipway.example.com';
const keys = await signedKeys();
const log = pino({ level: 'silent' });
const sockets = new WebSocketServer({ noServer: true });

/** Service that returns the body and the caller's address, or echoes messages. */
const witness: Service = {
  handle: async ({ incoming, address, outgoing }) => {
    let bytes = 0;
    for await (const chunk of incoming) bytes += chunk.length;
    outgoing.end(`${bytes} ${address}`);
  },
  upgrade: async ({ incoming, socket, head }) =>
    sockets.handleUpgrade(incoming, socket, head, (client) => {
      client.on('message', (message) => client.send(`echo ${message}`));
    }),
  forget: async () => undefined,
  close: async () => undefined,
};

interface World {
  folder: CertificateFolder;
  gateway: Server;
  plain: Server;
  /** Opens the port of TLS. Returns it. */
  open(files?: CertificateFiles): Promise<number>;
  fronts: TlsFront[];
  servers: NetServer[];
  /** Messages of warnings. */
  warned: string[];
}

const test = suite<World>('tls');

test.before.each(async (world) => {
  world.folder = new CertificateFolder(await mkdtemp(path.join(tmpdir(), 'slipway-tls-')));
  await world.folder.open();
  await world.folder.write(HOST, await selfSigned(HOST));
  const places = { publicUrl: PUBLIC_URL, projectsDomain: 'apps.example.net' };
  world.gateway = createGateway({
    ...places,
    allowedHosts: [],
    tenant: (ref) => (ref === 'shop' ? tenantWithoutDatabase('shop', keys) : undefined),
    complete: () => true,
    services: { rest: witness, realtime: witness },
    rateLimit: 0,
    management: { forward: (_, outgoing) => void outgoing.end('platform'), close: () => undefined },
    log,
  });
  const answersFor = hostCheck({ publicUrl: PUBLIC_URL, projectsHost: 'apps.example.net', allowedHosts: [] });
  world.plain = createPlainPort({ folder: world.folder, publicUrl: PUBLIC_URL, answersFor, log });
  world.servers = [world.plain];
  world.fronts = [];
  world.warned = [];
  await listening(world.plain);
  world.open = async (files) => {
    const warn = (_: object, message: string) => world.warned.push(message);
    const noted = Object.assign(pino({ level: 'silent' }), { warn });
    const server = createTlsServer(world.gateway, { folder: world.folder, files, log: noted, checkMs: 20 });
    world.servers.push(server);
    world.fronts.push(server);
    await listening(server);
    return portOf(server);
  };
});
test.after.each(async ({ folder, gateway, plain, servers }) => {
  gateway.closeAllConnections();
  plain.closeAllConnections();
  for (const server of servers) server.close();
  await rm(folder.folder, { recursive: true, force: true });
});

const listening = (server: NetServer) => new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const portOf = (server: NetServer) => (server.address() as AddressInfo).port;

interface Answer {
  status: number;
  text: string;
  serialNumber: string;
}

function ask(port: number, { host = HOST, path: target = '/rest/v1/todos', body = '' } = {}): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const outgoing = httpsRequest({
      host: '127.0.0.1',
      port,
      servername: host,
      rejectUnauthorized: false,
      agent: false,
      method: 'POST',
      path: target,
      headers: { host, apikey: keys.anonKey, 'content-length': body.length },
    });
    outgoing.on('response', async (answer) => {
      const { serialNumber } = (
        answer.socket as never as { getPeerCertificate(): { serialNumber: string } }
      ).getPeerCertificate();
      let text = '';
      for await (const chunk of answer) text += chunk;
      resolve({ status: answer.statusCode as number, text, serialNumber });
    });
    outgoing.on('error', reject).end(body);
  });
}

async function askPlain(
  port: number,
  path: string,
  host: string,
): Promise<{ status: number; text: string; to: string }> {
  const { status, text, headers } = await requestHost({ port, path, host });
  return { status, text, to: headers.location ?? '' };
}

const serialWithoutName = (port: number): Promise<string> =>
  new Promise<string>((resolve, reject) => {
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false }, () => {
      resolve(socket.getPeerCertificate().serialNumber);
      socket.destroy();
    }).on('error', reject);
  });

async function fails(work: () => Promise<unknown>): Promise<string> {
  try {
    await work();
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? (error as Error).message;
  }
  return 'nothing';
}

test('a request over TLS reaches its service with its body and the address of the caller', async ({ open }) => {
  const port = await open();
  const { status, text } = await ask(port, { body: 'x'.repeat(300_000) });
  assert.equal([status, text], [200, '300000 127.0.0.1']);
  assert.is((await ask(port, { path: '/none/v1' })).status, 404);
});

test('a WebSocket is opened over TLS', async ({ open }) => {
  const port = await open();
  const options = { servername: HOST, headers: { host: HOST }, rejectUnauthorized: false };
  const url = `wss://127.0.0.1:${port}/realtime/v1/websocket?apikey=${keys.anonKey}`;
  const client = new WebSocket(url, options as ClientOptions);
  const message = await new Promise<string>((resolve, reject) => {
    client.on('open', () => client.send('hello'));
    client.on('message', (data) => resolve(String(data)));
    client.on('error', reject);
  });
  assert.is(message, 'echo hello');
  client.terminate();
});

test('a TLS handshake for a host without a certificate fails, whatever its name is', async ({ open, folder }) => {
  const port = await open();
  await writeFile(path.join(folder.folder, 'state.json.pem'), 'no certificate');
  for (const host of [
    'other.apps.example.net',
    '..',
    '../state',
    'state.json',
    'a/b',
    `${'x'.repeat(60)}.example.net`,
  ]) {
    assert.is.not(await fails(() => ask(port, { host })), 'nothing', host);
  }
  assert.is((await ask(port)).status, 200);
});

test('a renewed certificate is used for later TLS handshakes without a restart', async ({ folder }) => {
  const { SecureContexts } = await import('@slipway/certificates');
  let now = 0;
  const problems: string[] = [];
  const onProblem = (host: string) => problems.push(host);
  const contexts = new SecureContexts({ folder, onProblem, now: () => now });
  const before = await contexts.find(HOST);
  await folder.write(HOST, await selfSigned(HOST));
  await utimes(path.join(folder.folder, `${HOST}.pem`), 1, 1);
  assert.is(await contexts.find(HOST), before);
  now += 10_001;
  const renewed = await contexts.find(HOST.toUpperCase());
  assert.ok(renewed);
  assert.is.not(renewed, before);
  await folder.write(HOST, 'damaged');
  now += 10_001;
  assert.equal(await Promise.all([contexts.find(HOST), contexts.find(HOST)]), [renewed, renewed]);
  assert.is(await contexts.find(HOST), renewed);
  assert.equal(problems, [HOST]);
  await folder.remove(HOST);
  now += 10_001;
  assert.is(await contexts.find(HOST), undefined);
});

test('a certificate from the settings is used for every host, and if a client sends no host name', async (world) => {
  const pem = await selfSigned('*.apps.example.net');
  const file = path.join(world.folder.folder, 'own.txt');
  await writeFile(file, pem);
  const port = await world.open({ certificate: file, key: file });
  const serials = [await ask(port), await ask(port, { host: 'blog.apps.example.net' })].map(
    (each) => each.serialNumber,
  );
  assert.is(serials[0], serials[1]);
  assert.is(await serialWithoutName(port), serials[0]);
});

test('a damaged certificate is reported once, however many handshakes ask for it', async ({ open, folder, warned }) => {
  const port = await open();
  const host = 'damaged.apps.example.net';
  await folder.write(host, 'damaged');
  for (let round = 0; round < 20; round++) assert.is.not(await fails(() => ask(port, { host })), 'nothing');
  assert.equal(warned, ['certificate not read']);
});

test('the name of a file of the folder that is no host is no host of a handshake', async ({ open, folder, warned }) => {
  const port = await open();
  await writeFile(folder.accountKey, 'a key');
  for (const host of ['account', 'account.key', 'state', 'state.json', 'challenges'])
    assert.is.not(await fails(() => ask(port, { host })), 'nothing', host);
  assert.equal(warned, []);
});

test('a renewed certificate that the settings name is used also for a client that sends no name', async (world) => {
  const [certificate, key] = ['cert.txt', 'key.txt'].map((name) => path.join(world.folder.folder, name));
  const write = async (pem: string) => {
    const [own, chain] = pem.split(/(?=-----BEGIN CERTIFICATE)/) as [string, string];
    await writeFile(key as string, own);
    await writeFile(certificate as string, chain);
  };
  await write(await selfSigned(HOST));
  const port = await world.open({ certificate: certificate as string, key: key as string });
  const first = await serialWithoutName(port);
  await writeFile(certificate as string, 'damaged');
  while (world.warned.length === 0) await sleep(10);
  assert.is(await serialWithoutName(port), first);
  await write(await selfSigned(HOST));
  let next = first;
  while (next === first) next = await serialWithoutName(port);
  assert.is((await ask(port)).serialNumber, next);
});

test('a stop does not wait for handshakes that do not end', async ({ open, gateway, fronts }) => {
  const port = await open();
  await listening(gateway);
  const [front] = fronts as [TlsFront];
  const stalled = connectPlain(port, '127.0.0.1').on('error', () => undefined);
  await new Promise((resolve) => front.once('connection', resolve));
  const order: string[] = [];
  front.once('tlsClientError', () => order.push('the handshake timed out'));
  const closeAll = front.closeAllConnections;
  front.closeAllConnections = () => {
    order.push('closed');
    closeAll();
  };
  await endRequests(gateway, front);
  assert.is(order[0], 'closed');
  stalled.destroy();
});

test('a stop waits for a request over TLS that is in flight', async ({ open, gateway, fronts }) => {
  const port = await open();
  await listening(gateway);
  const outgoing = httpsRequest({
    ...{ host: '127.0.0.1', port, servername: HOST, rejectUnauthorized: false, agent: false, method: 'POST' },
    ...{ path: '/rest/v1/todos', headers: { host: HOST, apikey: keys.anonKey, 'content-length': 2 } },
  });
  const answered = new Promise<number>((resolve, reject) => {
    outgoing.on('response', (answer) => resolve(answer.resume().statusCode as number)).on('error', reject);
  });
  outgoing.write('a');
  await new Promise((resolve) => gateway.once('request', resolve));
  let isEnded = false;
  const ended = endRequests(gateway, ...fronts).then(() => {
    isEnded = true;
  });
  await new Promise((resolve) => setTimeout(resolve, 200));
  assert.not.ok(isEnded);
  outgoing.end('b');
  assert.is(await answered, 200);
  await ended;
});

test('an old version of TLS is rejected', async ({ open }) => {
  const port = await open();
  const code = await fails(
    () =>
      new Promise((resolve, reject) => {
        connect({ host: '127.0.0.1', port, servername: HOST, maxVersion: 'TLSv1.1', minVersion: 'TLSv1' }, () =>
          resolve(undefined),
        ).on('error', reject);
      }),
  );
  assert.is.not(code, 'nothing');
});

test('the port of plain HTTP serves only the challenges of the requested host, and redirects the others', async ({
  plain,
  folder,
}) => {
  const port = portOf(plain);
  await folder.putChallenge('a-token', { host: HOST, keyAuthorization: 'a-token.thumbprint' });
  const challenge = '/.well-known/acme-challenge/a-token';
  assert.equal(await askPlain(port, challenge, `${HOST}:80`), { status: 200, text: 'a-token.thumbprint', to: '' });
  for (const [target, host] of [
    [challenge, 'blog.apps.example.net'],
    ['/.well-known/acme-challenge/other', HOST],
    ['/.well-known/acme-challenge/..%2fstate.json', HOST],
    ['/.well-known/acme-challenge/../state.json', HOST],
    ['/a?b=c', 'slipway.example.com'],
    ['//evil.example/x', HOST],
  ] as const) {
    const { status, to } = await askPlain(port, target, host);
    assert.equal([status, to], [308, `https://${host}${target}`], target);
  }
  for (const host of ['evil.example', 'evil.example/.apps.example.net', 'evil.example#.apps.example.net']) {
    const { status, to } = await askPlain(port, '/', host);
    assert.equal([status, to], [421, ''], host);
  }
});

test('a slow request at the port of plain HTTP is ended soon after its time', async ({ folder, servers }) => {
  const options = { folder, publicUrl: PUBLIC_URL, answersFor: () => true, log, patienceMs: 100 };
  const plain = createPlainPort(options);
  servers.push(plain);
  await listening(plain);
  const slow = connectPlain(portOf(plain), '127.0.0.1').on('error', () => undefined);
  slow.write('GET / HTTP/1.1\r\nhost: ');
  let text = '';
  for await (const chunk of slow) text += chunk;
  assert.match(text, /^HTTP\/1\.1 408 /);
});

test('the redirect to HTTPS has the port of the public URL', async ({ folder, servers }) => {
  const plain = createPlainPort({ folder, publicUrl: 'https://slipway.example.com:8443', answersFor: () => true, log });
  servers.push(plain);
  await listening(plain);
  assert.is((await askPlain(portOf(plain), '/x', HOST)).to, `https://${HOST}:8443/x`);
});

test.run();
