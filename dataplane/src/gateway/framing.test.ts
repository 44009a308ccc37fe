/**
 * Tests requests whose Connection header lists framing headers. They are sent as bytes on a socket, through each
 * upstream of the gateway.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { signedKeys, tenantWithoutDatabase } from '../testing/tenant.js';
import { createDeployedServices } from '../upstreams/deployed.js';
import { createManagement, type Management } from '../upstreams/management.js';
import { createRemoteService } from '../upstreams/remote.js';
import { createGateway } from './server.js';

const PUBLIC_URL = 'http://localhost:4000';

interface Seen {
  method: string | undefined;
  url: string | undefined;
  host: string | undefined;
  body: string;
}
const seen: Seen[] = [];

/** Fake pods and API, which record the requests that they receive. */
async function witness(incoming: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of incoming) body += chunk;
  const { method, url, headers } = incoming;
  seen.push({ method, url, host: headers.host, body });
  return body;
}

let folder: string;
let management: Management;
let keys: Awaited<ReturnType<typeof signedKeys>>;
let port: number;
const servers: Server[] = [];

async function serve(server: Server, at: string | 0): Promise<number> {
  servers.push(server);
  await new Promise<void>((resolve) =>
    at === 0 ? server.listen(0, '127.0.0.1', resolve) : server.listen(at, resolve),
  );
  return at === 0 ? (server.address() as AddressInfo).port : 0;
}

const newWitness = () =>
  createServer((incoming, outgoing) => void witness(incoming).then((body) => outgoing.end(`heard ${body.length}`)));

const tenantOf = (ref: string) =>
  tenantWithoutDatabase(ref, {
    ...keys,
    upstream: ref === 'alone' ? 'pods' : 'pooled',
    services: new Set(['rest', 'storage']),
  });

test.before(async () => {
  keys = await signedKeys();
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-framing-'));
  const api = path.join(folder, 'api.sock');
  await serve(newWitness(), api);
  const pod = await serve(newWitness(), 0);
  management = createManagement(api, PUBLIC_URL);
  port = await serve(
    createGateway({
      publicUrl: PUBLIC_URL,
      tenant: (ref) => (ref === 'alone' || ref === 'shared' ? tenantOf(ref) : undefined),
      complete: () => true,
      services: { storage: createRemoteService({ service: 'storage', urls: [`http://127.0.0.1:${pod}`] }) },
      deployed: createDeployedServices({ serviceAddress: () => ({ host: '127.0.0.1', port: pod }) }),
      rateLimit: 0,
      management,
      log: pino({ level: 'silent' }),
    }),
    0,
  );
});
test.after(async () => {
  management.close();
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
  await rm(folder, { recursive: true, force: true });
});

/** Returns everything that the gateway sends until it closes the connection. */
function ask(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    socket.on('data', (chunk) => {
      received += chunk;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(received));
  });
}

const WAYS = [
  ['a pod of its own', '/p/alone/rest/v1/x'],
  ['a pod of all', '/p/shared/storage/v1/x'],
  ['the API’s socket', '/projects'],
] as const;
const INNER = 'GET /stolen HTTP/1.1\r\nHost: x\r\n\r\n';
const FRAMINGS = [
  `Connection: content-length\r\nContent-Length: ${INNER.length}\r\n\r\n${INNER}`,
  `Connection: x, Content-Length ,content-type\r\nContent-Length: ${INNER.length}\r\n\r\n${INNER}`,
  `Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n${INNER.length.toString(16)}\r\n` +
    `${INNER}\r\n0\r\n\r\n`,
];

for (const [way, target] of WAYS) {
  test(`a body that contains a request stays one request to ${way}, whatever its Connection header names`, async () => {
    for (const method of ['GET', 'DELETE', 'OPTIONS', 'POST']) {
      for (const framing of FRAMINGS) {
        seen.length = 0;
        const first = `${method} ${target} HTTP/1.1\r\nHost: localhost\r\napikey: ${keys.anonKey}\r\n${framing}`;
        // The second request reuses the upstream connection of the first, and closes the client's.
        const head = `GET ${target}/next HTTP/1.1\r\nHost: localhost\r\napikey: ${keys.anonKey}\r\n`;
        const second = `${head}Connection: close\r\n\r\n`;
        const received = await ask(first + second);
        // The responses are in order; the order in which the server records the requests is undefined.
        seen.sort((one, other) => (one.url as string).length - (other.url as string).length);
        assert.equal(
          seen.map(({ method, url, body }) => [method, url?.endsWith('/next'), body]),
          [
            [method, false, INNER],
            ['GET', true, ''],
          ],
          `${method} ${JSON.stringify(framing)}`,
        );
        assert.equal(received.match(/heard \d+/g), [`heard ${INNER.length}`, 'heard 0']);
      }
    }
  });
}

test('a request that names Host in Connection keeps its host', async () => {
  seen.length = 0;
  await ask('GET /projects HTTP/1.1\r\nHost: platform.example\r\nConnection: close, host\r\n\r\n');
  assert.is(seen[0]?.host, 'platform.example');
});

test.run();
