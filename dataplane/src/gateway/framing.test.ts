/**
 * Requests as bytes on a socket, whose Connection header names what frames them: by each way that the gateway hands
 * requests on.
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
import { createDeployedServices } from './deployed.js';
import { createManagement, type Management } from './management.js';
import { createRemoteService } from './remote.js';
import { createGateway } from './server.js';

const PUBLIC_URL = 'http://localhost:4000';

interface Seen {
  method: string | undefined;
  url: string | undefined;
  host: string | undefined;
  body: string;
}
const seen: Seen[] = [];

/** Stands for the pods and the API: records the requests it receives. */
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
    placement: ref === 'alone' ? 'deployments' : 'pooled',
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

/** All that is answered until the gateway closes the connection. */
function ask(text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let heard = '';
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    socket.on('data', (chunk) => {
      heard += chunk;
    });
    socket.on('error', reject);
    socket.on('close', () => resolve(heard));
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
  `Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n${INNER.length.toString(16)}\r\n${INNER}\r\n0\r\n\r\n`,
];

for (const [way, target] of WAYS) {
  test(`a body that holds a request is one request to ${way}, whatever its Connection header names`, async () => {
    for (const method of ['GET', 'DELETE', 'OPTIONS', 'POST']) {
      for (const framing of FRAMINGS) {
        seen.length = 0;
        const first = `${method} ${target} HTTP/1.1\r\nHost: localhost\r\napikey: ${keys.anonKey}\r\n${framing}`;
        // The second goes over the connection that the first left behind, and closes the client's.
        const second = `GET ${target}/next HTTP/1.1\r\nHost: localhost\r\napikey: ${keys.anonKey}\r\nConnection: close\r\n\r\n`;
        const heard = await ask(first + second);
        // Answers come in the order of the requests; which of them is seen first is nobody's promise.
        seen.sort((one, other) => (one.url as string).length - (other.url as string).length);
        assert.equal(
          seen.map(({ method, url, body }) => [method, url?.endsWith('/next'), body]),
          [
            [method, false, INNER],
            ['GET', true, ''],
          ],
          `${method} ${JSON.stringify(framing)}`,
        );
        assert.equal(heard.match(/heard \d+/g), [`heard ${INNER.length}`, 'heard 0']);
      }
    }
  });
}

test('whoever names Host in Connection chooses no other host', async () => {
  seen.length = 0;
  await ask('GET /projects HTTP/1.1\r\nHost: platform.example\r\nConnection: close, host\r\n\r\n');
  assert.is(seen[0]?.host, 'platform.example');
});

test.run();
