/**
 * A gateway before pods that hold what they are asked, or answer what is no HTTP: what of them a project may have, and
 * what others feel.
 */
import { createServer, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, connect, createServer as createTcpServer, type Server } from 'node:net';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createManagement } from './management.js';
import { createRemoteService } from './remote.js';
import { createGateway } from './server.js';

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

test('sixty-four calls of one project’s functions are under way at once, the next is told to come again, and others are served', async () => {
  const waiting: (() => void)[] = [];
  const pod = await listening(createServer((_, outgoing) => waiting.push(() => outgoing.end('awake'))));
  const port = await gatewayBefore(pod);
  const held = Array.from({ length: 64 }, () => ask(port, 'greedy'));
  while (waiting.length < 64) await new Promise((resolve) => setImmediate(resolve));
  const refused = await ask(port, 'greedy');
  assert.equal([refused.statusCode, refused.headers['retry-after']], [503, '1']);
  const other = ask(port, 'other');
  while (waiting.length < 65) await new Promise((resolve) => setImmediate(resolve));
  for (const answer of waiting) answer();
  for (const { statusCode } of await Promise.all([...held, other])) assert.is(statusCode, 200);
});

for (const head of ['042 x', '600 x', '101 x\r\nContent-Length: 0']) {
  test(`a pod that answers ${JSON.stringify(head)} to who wants a socket is a 502, and the gateway lives`, async () => {
    const pod = await listening(
      createTcpServer((socket) =>
        socket.on('error', () => undefined).on('data', () => socket.write(`HTTP/1.1 ${head}\r\n\r\n`)),
      ),
    );
    const port = await gatewayBefore(pod);
    for (let i = 0; i < 2; i++) {
      const socket = connect(port, '127.0.0.1');
      socket.write(
        `GET /p/shop/realtime/v1/websocket?apikey=${keys.anonKey} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`,
      );
      let heard = '';
      for await (const chunk of socket) heard += chunk;
      assert.match(heard, /^HTTP\/1\.1 502 /);
    }
  });
}

test.run();
