/**
 * Tests hostile visitors and hostile apps: framing that two servers could read differently, and responses that are not
 * HTTP. Requests and responses are written as bytes on sockets.
 */
import type { IncomingMessage } from 'node:http';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { AppWorld, hostOf } from './apps.testing.js';

let world: AppWorld;
const seen: { method: string | undefined; url: string | undefined; body: string }[] = [];

async function witness(incoming: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of incoming) body += chunk;
  const { method, url } = incoming;
  seen.push({ method, url, body });
  return body;
}

test.before(async () => {
  world = await AppWorld.open({ apps: { client: { stillMilliseconds: 500 }, handshakeMilliseconds: 500 } });
  await world.serve('shop', (incoming, outgoing) => {
    void witness(incoming).then((body) => outgoing.end(`heard ${body.length}`));
  });
});
test.before.each(() => void seen.splice(0));
test.after(() => world.close());

const INNER = 'GET /stolen HTTP/1.1\r\nHost: x\r\n\r\n';
const headOf = (method: string, path = '/') => `${method} ${path} HTTP/1.1\r\nHost: ${hostOf('shop')}\r\n`;
const LAST = `${headOf('GET', '/next')}Connection: close\r\n\r\n`;

test('a body that contains a request stays one request to an app, whatever its Connection header names', async () => {
  const framings = [
    `Connection: content-length\r\nContent-Length: ${INNER.length}\r\n\r\n${INNER}`,
    `Connection: transfer-encoding\r\nTransfer-Encoding: chunked\r\n\r\n${INNER.length.toString(16)}\r\n` +
      `${INNER}\r\n0\r\n\r\n`,
  ];
  for (const method of ['GET', 'DELETE', 'OPTIONS', 'POST', 'HEAD', 'PROPFIND']) {
    for (const framing of framings) {
      seen.length = 0;
      await world.connect(headOf(method) + framing + LAST).closed;
      seen.sort((one, other) => (one.url as string).length - (other.url as string).length);
      assert.equal(
        seen.map(({ method: of, url, body }) => [of, url, body]),
        [
          [method, '/', INNER],
          ['GET', '/next', ''],
        ],
        `${method} ${JSON.stringify(framing)}`,
      );
    }
  }
});

test('a request with two framings, a folded header or a wrong length never reaches an app', async () => {
  const length = INNER.length;
  for (const headers of [
    `Content-Length: ${length}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${INNER}`,
    `Transfer-Encoding: chunked\r\nContent-Length: ${length}\r\n\r\n0\r\n\r\n${INNER}`,
    `Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${INNER}`,
    `Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${INNER}`,
    `Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n${INNER}`,
    `Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n${INNER}`,
    `Content-Length: 1\r\nContent-Length: ${length}\r\n\r\n${INNER}`,
    `Content-Length: +${length}\r\n\r\n${INNER}`,
    `Content-Length: ${length}, ${length}\r\n\r\n${INNER}`,
    `X-A: 1\r\n folded: 2\r\n\r\n`,
    `X-A: 1\r\n\tTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${INNER}`,
    `X-A: 1\nX-B: 2\r\n\r\n`,
    `X-A: 1\rX-B: 2\r\n\r\n`,
    `X-A: \x00\r\n\r\n`,
    `X A: 1\r\n\r\n`,
  ]) {
    const received = await world.connect(`${headOf('POST')}${headers}`).closed;
    assert.match(received, /^HTTP\/1\.1 400 /, JSON.stringify(headers));
  }
  assert.equal(
    seen.filter(({ url }) => url === '/stolen'),
    [],
  );
});

test('a target that names another host, and CONNECT, never reach an app', async () => {
  for (const first of ['GET http://evil.test/ HTTP/1.1', 'OPTIONS http://evil.test/ HTTP/1.1', 'GET * HTTP/1.1']) {
    const text = `${first}\r\nHost: ${hostOf('shop')}\r\nConnection: close\r\n\r\n`;
    assert.match(await world.connect(text).closed, /^HTTP\/1\.1 400 /, first);
  }
  await world.connect(`CONNECT evil.test:80 HTTP/1.1\r\nHost: ${hostOf('shop')}\r\n\r\n`).closed;
  assert.equal(seen, []);
  assert.match(await world.connect(`${headOf('OPTIONS', '*')}Connection: close\r\n\r\n`).closed, 'heard 0');
});

test('a request with two Host headers never reaches an app', async () => {
  for (const rest of ['', 'Connection: Upgrade\r\nUpgrade: websocket\r\n']) {
    for (const other of [hostOf('other'), hostOf('shop')]) {
      const text = `GET / HTTP/1.1\r\nHost: ${hostOf('shop')}\r\nConnection: close\r\n${rest}hOST: ${other}\r\n\r\n`;
      assert.match(await world.connect(text).closed, /^HTTP\/1\.1 400 /, `${rest}${other}`);
    }
  }
  assert.equal(seen, []);
});

test('a target with bytes of other encodings arrives unchanged or is rejected', async () => {
  for (const path of ['/%ff%00', '/é', '/"<>`{}|\\^', '/a;b=c?d=[e]']) {
    const received = await world.connect(`${headOf('GET', path)}Connection: close\r\n\r\n`).closed;
    assert.match(received, /^HTTP\/1\.1 (200|400) /, path);
  }
});

/** Returns everything that a visitor gets from an app that answers with the bytes. */
let count = 0;
async function answerTo(bytes: string): Promise<string> {
  const ref = `raw-${++count}`;
  await world.serveRaw(ref, (socket) => {
    // A change of the protocol leaves the connection open.
    socket.once('data', () => (bytes.includes(' 101 ') ? socket.write(bytes) : socket.end(bytes, 'latin1')));
  });
  return world.connect(`GET / HTTP/1.1\r\nHost: ${hostOf(ref)}\r\nConnection: close\r\n\r\n`).closed;
}

const statusOf = async (bytes: string) => Number((await answerTo(bytes)).split(' ')[1]);

test('a response that is not HTTP, or has two framings, gets 502', async () => {
  for (const bytes of [
    'SSH-2.0-OpenSSH_9.6\r\n',
    '\x00\x01\x02\x03',
    '',
    'HTTP/1.1 200 OK\r\n',
    'HTTP/1.1 200 OK\r\nX-A: 1\rX-B: 2\r\n\r\n',
    'HTTP/1.1 200 OK\r\nX-A: \x01\r\n\r\n',
    'HTTP/1.1 200 OK\r\nX-A: \x7f\r\n\r\n',
    'HTTP/1.1 200 OK\r\nX A: 1\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n',
    'HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\naa',
    'HTTP/1.1 200 OK\r\nX-A: 1\r\n folded\r\n\r\n',
    'HTTP/1.1 199 OK\r\n\r\n',
    'HTTP/1.1 600 OK\r\nContent-Length: 0\r\n\r\n',
    'HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n',
    'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nbytes',
    'HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n',
    `HTTP/1.1 200 OK\r\n${'X-A: 1\r\n'.repeat(20_000)}\r\n`,
  ])
    assert.is(await statusOf(bytes), 502, JSON.stringify(bytes.slice(0, 90)));
});

test('each byte in a header of an app is forwarded or rejected, and the gateway continues', async () => {
  for (let byte = 0; byte < 256; byte++) {
    const status = await statusOf(
      `HTTP/1.1 200 OK\r\nX-A: a${String.fromCharCode(byte)}b\r\nContent-Length: 0\r\n\r\n`,
    );
    assert.ok(status === 200 || status === 502, `byte ${byte}: ${status}`);
  }
  assert.is((await world.ask('shop')).status, 200);
});

test('a body of an app that ends early has no end for the visitor either', async () => {
  for (const bytes of [
    'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhalf',
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n',
  ])
    assert.not.match(await answerTo(bytes), /\r\n0\r\n\r\n$/, JSON.stringify(bytes));
});

test('a response of HTTP/1.0 without a length arrives whole', async () => {
  assert.is(await statusOf('HTTP/1.0 200 OK\r\n\r\nbody'), 200);
  assert.is(
    await statusOf('HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'),
    200,
  );
});

test('a second response that an app sends without a request never answers the next request', async () => {
  let requests = 0;
  await world.serveRaw('poison', (socket) => {
    socket.on('data', (data) => {
      const path = data.toString().split(' ')[1];
      requests++;
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${path?.length}\r\n\r\n${path}`);
      setImmediate(() => socket.write('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\npoison'));
    });
  });
  for (const path of ['/one', '/two', '/three']) {
    assert.is((await world.ask('poison', path)).text, path);
    const before = requests;
    // The extra response arrives while the connection is idle.
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.is(requests, before);
  }
});

test('a response before the end of an upload arrives, and ends the forwarding of the upload', async () => {
  let received = 0;
  const server = await world.serve('early', (incoming, outgoing) => {
    incoming.on('data', (chunk) => {
      received += chunk.length;
    });
    outgoing.writeHead(413, { Connection: 'close' }).end('too large');
  });
  const client = world.connect(`POST / HTTP/1.1\r\nHost: ${hostOf('early')}\r\nContent-Length: 1000000\r\n\r\nfirst`);
  await until(() => client.received.includes('too large'), 'the response');
  await until(() => server.connections.size === 0, 'the connection to close');
  client.write('x'.repeat(1000));
  client.socket.destroy();
  await client.closed;
  assert.ok(received <= 5);
});

test.run();
