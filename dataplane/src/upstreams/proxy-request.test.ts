/** Tests the forwarding of requests to one server, with bare sockets that stall or are missing. */
import { createServer, type OutgoingHttpHeaders, request, type Server } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Server as TcpServer } from 'node:net';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { serviceDown } from '../http/refusals.js';
import { proxyRequest } from './proxy-request.js';
import type { UpstreamLimits } from './upstream-client.js';

const closings: (() => void)[] = [];
test.after(() => {
  for (const close of closings.reverse()) close();
});

async function listening(server: Server | TcpServer): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closings.push(() => {
    if ('closeAllConnections' in server) server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** Responses of a proxy; the path names the caller of a request. */
async function inFrontOf(port: number, limits: Partial<UpstreamLimits> = {}) {
  const to = { host: '127.0.0.1', port };
  const { forward, close } = proxyRequest({
    name: 'gateway',
    to,
    headers: {},
    unreachable: serviceDown('gateway'),
    limits,
  });
  const front = await listening(
    createServer((incoming, outgoing) =>
      forward(incoming, outgoing, { of: (incoming.url as string).slice(1), address: '192.0.2.1' }),
    ),
  );
  closings.push(close);
  return (of: string, method = 'GET', headers: OutgoingHttpHeaders = {}, body?: string) =>
    new Promise<{ status: number | undefined; retryAfter: string | undefined; text: string }>((resolve, reject) => {
      request({ host: '127.0.0.1', port: front, path: `/${of}`, method, headers, agent: false }, async (answer) => {
        let text = '';
        for await (const chunk of answer) text += chunk;
        resolve({ status: answer.statusCode, retryAfter: answer.headers['retry-after'], text });
      })
        .on('error', reject)
        .end(body);
    });
}

test('a caller at its limit of requests in flight gets 503, and does not delay others', async () => {
  const waiting: (() => void)[] = [];
  const port = await listening(createServer((_, outgoing) => waiting.push(() => outgoing.end('done'))));
  const ask = await inFrontOf(port, { atOncePerService: 2, atOnce: 3 });
  const open = [ask('greedy'), ask('greedy')];
  await until(() => waiting.length === 2, '2 requests');
  const refused = await ask('greedy');
  assert.equal([refused.status, refused.retryAfter], [503, '1']);
  const other = ask('other');
  await until(() => waiting.length === 3, '3 requests');
  assert.is((await ask('third')).status, 503);
  for (const answer of waiting) answer();
  for (const { status } of await Promise.all([...open, other])) assert.is(status, 200);
  const next = ask('greedy');
  await until(() => waiting.length === 4, '4 requests');
  waiting[3]?.();
  assert.is((await next).text, 'done');
});

test('a server that accepts a request and never responds causes a 504', async () => {
  const port = await listening(createTcpServer((socket) => socket.on('error', () => undefined).resume()));
  const ask = await inFrontOf(port, { stillMilliseconds: 100 });
  const { status, retryAfter } = await ask('shop');
  assert.equal([status, retryAfter], [504, '1']);
});

test('a server to which no connection is possible causes a 504', async () => {
  // Address of a network for documentation: no server responds, or the system reports it as unreachable.
  const { forward, close } = proxyRequest({
    name: 'gateway',
    to: { host: '192.0.2.1', port: 9 },
    headers: {},
    unreachable: serviceDown('gateway'),
    limits: { connectMilliseconds: 100 },
  });
  closings.push(close);
  const port = await listening(
    createServer((incoming, outgoing) => forward(incoming, outgoing, { of: 'shop', address: '192.0.2.1' })),
  );
  const { status } = await fetch(`http://127.0.0.1:${port}/`);
  assert.ok(status === 504 || status === 502, String(status));
});

test('a body that contains a request remains a body for the server, whatever the Connection header names', async () => {
  const seen: (string | undefined)[][] = [];
  const port = await listening(
    createServer(async (incoming, outgoing) => {
      let body = '';
      for await (const chunk of incoming) body += chunk;
      seen.push([incoming.method, incoming.url, body]);
      outgoing.end();
    }),
  );
  const ask = await inFrontOf(port);
  const inner = 'GET /stolen HTTP/1.1\r\nHost: x\r\n\r\n';
  for (const method of ['GET', 'DELETE', 'OPTIONS']) {
    seen.length = 0;
    const framing = { connection: 'content-length', 'content-length': inner.length };
    assert.is((await ask('one', method, framing, inner)).status, 200);
    assert.is((await ask('two')).status, 200);
    assert.equal(seen, [
      [method, '/one', inner],
      ['GET', '/two', ''],
    ]);
  }
});

for (const head of ['042 x', '600 x', '101 x\r\nContent-Length: 0', '101 x\r\nConnection: Upgrade\r\nUpgrade: y']) {
  test(`a server that answers ${JSON.stringify(head)} causes a 502`, async () => {
    const port = await listening(
      createTcpServer((socket) =>
        socket.on('error', () => undefined).on('data', () => socket.write(`HTTP/1.1 ${head}\r\n\r\n`)),
      ),
    );
    const ask = await inFrontOf(port);
    assert.is((await ask('shop')).status, 502);
    assert.is((await ask('shop')).status, 502);
  });
}

test.run();
