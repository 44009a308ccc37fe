/**
 * Tests the gateway with pods that never respond, or that speak another protocol: the limits of one project, and that
 * other projects are served.
 */
import { createServer, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Server } from 'node:net';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { createGateway } from '../gateway/server.js';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createManagement } from './management.js';
import { createRemoteService } from './remote.js';

const PUBLIC_URL = 'http://localhost:4000';
const closings: (() => void)[] = [];
let keys: Awaited<ReturnType<typeof signedKeys>>;

test.before(async () => {
  keys = await signedKeys();
});
test.after(() => {
  for (const close of closings.reverse()) close();
});

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closings.push(() => {
    if ('closeAllConnections' in server) (server as ReturnType<typeof createServer>).closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

async function gatewayBefore(pod: number): Promise<number> {
  const urls = [`http://127.0.0.1:${pod}`];
  const services = {
    functions: createRemoteService({ service: 'functions', urls }),
    realtime: createRemoteService({ service: 'realtime', urls }),
  };
  closings.push(() => {
    for (const service of Object.values(services)) void service.close();
  });
  return listening(
    createGateway({
      publicUrl: PUBLIC_URL,
      tenant: tenantOf,
      complete: () => true,
      services,
      rateLimit: 0,
      management: createManagement(undefined, PUBLIC_URL),
      log: pino({ level: 'silent' }),
    }),
  );
}

const tenantOf = (ref: string) => tenantWithoutDatabase(ref, { ...keys, services: new Set(['functions', 'realtime']) });

const ask = (port: number, ref: string) =>
  new Promise<IncomingMessage>((resolve, reject) => {
    const path = `/p/${ref}/functions/v1/sleep`;
    request({ host: '127.0.0.1', port, path, headers: { apikey: keys.anonKey }, agent: false })
      .on('response', (answer) => resolve(answer.resume()))
      .on('error', reject)
      .end();
  });

test('the 65th call in flight of a project gets 503 with Retry-After, and other projects are served', async () => {
  const waiting: (() => void)[] = [];
  const pod = await listening(createServer((_, outgoing) => waiting.push(() => outgoing.end('awake'))));
  const port = await gatewayBefore(pod);
  const open = Array.from({ length: 64 }, () => ask(port, 'greedy'));
  while (waiting.length < 64) await new Promise((resolve) => setImmediate(resolve));
  const refused = await ask(port, 'greedy');
  assert.equal([refused.statusCode, refused.headers['retry-after']], [503, '1']);
  const other = ask(port, 'other');
  while (waiting.length < 65) await new Promise((resolve) => setImmediate(resolve));
  for (const answer of waiting) answer();
  for (const { statusCode } of await Promise.all([...open, other])) assert.is(statusCode, 200);
});

for (const head of ['042 x', '600 x', '101 x\r\nContent-Length: 0']) {
  test(`a pod that answers an upgrade with ${JSON.stringify(head)} causes a 502 and no crash`, async () => {
    const pod = await listening(
      createTcpServer((socket) =>
        socket.on('error', () => undefined).on('data', () => socket.write(`HTTP/1.1 ${head}\r\n\r\n`)),
      ),
    );
    const port = await gatewayBefore(pod);
    for (let i = 0; i < 2; i++) {
      const socket = connect(port, '127.0.0.1');
      socket.write(
        `GET /p/shop/realtime/v1/websocket?apikey=${keys.anonKey} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n` +
          `Upgrade: websocket\r\n\r\n`,
      );
      let received = '';
      for await (const chunk of socket) received += chunk;
      assert.match(received, /^HTTP\/1\.1 502 /);
    }
  });
}

test.run();
