/** Tests WebSockets of apps: their handshake, bytes in both directions, rejections, limits and ends. */
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { Duplex } from 'node:stream';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import WebSocket, { WebSocketServer } from 'ws';
import { AppWorld, type AppWorldOptions, type Container, hostOf } from './apps.testing.js';

const MIB = 1024 ** 2;

interface SocketApp extends Container {
  sockets: Set<WebSocket>;
  handshakes: IncomingMessage[];
}

/** App that returns each message, and all HTTP requests as `plain`. */
async function serveSockets(world: AppWorld, ref: string, extra: string[] = []): Promise<SocketApp> {
  const plain: RequestListener = (incoming, outgoing) => void outgoing.end(`plain ${incoming.headers.upgrade}`);
  const container = (await world.serve(ref, plain)) as SocketApp;
  container.sockets = new Set();
  container.handshakes = [];
  const sockets = new WebSocketServer({
    server: container.server as ReturnType<typeof createServer>,
    perMessageDeflate: true,
  });
  sockets.on('headers', (headers) => headers.push(...extra));
  sockets.on('connection', (socket, incoming) => {
    container.sockets.add(socket);
    container.handshakes.push(incoming);
    socket.on('error', () => undefined);
    socket.once('close', () => container.sockets.delete(socket));
    socket.on('message', (data, isBinary) => socket.send(data, { binary: isBinary }));
  });
  return container;
}

const inWorld = async (options: AppWorldOptions, run: (world: AppWorld) => Promise<void>) => {
  const world = await AppWorld.open(options);
  try {
    await run(world);
  } finally {
    await world.close();
  }
};

let world: AppWorld;
test.before(async () => {
  world = await AppWorld.open();
});
test.after(() => world.close());

function open(own: AppWorld, ref: string, path = '/', headers: Record<string, string> = {}) {
  const socket = new WebSocket(`ws://127.0.0.1:${own.port}${path}`, { headers: { host: hostOf(ref), ...headers } });
  socket.on('error', () => undefined);
  return socket;
}

/** Resolves to the status of a rejected handshake; 101 if it was accepted. */
const opened = (socket: WebSocket) =>
  new Promise<{ status: number; headers: IncomingMessage['headers']; text: string }>((resolve, reject) => {
    socket.once('upgrade', (response) => resolve({ status: 101, headers: response.headers, text: '' }));
    socket.once('unexpected-response', async (_, response) => {
      let text = '';
      for await (const chunk of response.setEncoding('utf8')) text += chunk;
      resolve({ status: response.statusCode as number, headers: response.headers, text });
    });
    socket.once('error', reject);
  });

const messageOf = (socket: WebSocket) =>
  new Promise<Buffer>((resolve) => socket.once('message', (data) => resolve(data as Buffer)));
const closed = (socket: WebSocket) => new Promise<number>((resolve) => socket.once('close', resolve));

test('a WebSocket of an app carries messages both ways, with the headers of the platform', async () => {
  const app = await serveSockets(world, 'chat', ['Set-Cookie: a=1; Domain=localhost', 'Set-Cookie: b=2', 'X-App: 1']);
  const socket = open(world, 'chat', '/room?x=1', {
    'x-forwarded-for': '203.0.113.7',
    'x-real-ip': '6.6.6.6',
    X_Forwarded_For: '6.6.6.6',
    forwarded: 'for=6.6.6.6',
    cookie: 'session=1',
    origin: 'http://chat.localhost:4000',
  });
  const { status, headers } = await opened(socket);
  assert.is(status, 101);
  assert.equal([headers['set-cookie'], headers['x-app']], [['b=2'], '1']);
  assert.ok(headers['sec-websocket-accept']);
  const [seen] = app.handshakes as [IncomingMessage];
  assert.is(seen.url, '/room?x=1');
  const { host, cookie, origin, forwarded } = seen.headers;
  assert.equal(
    [host, cookie, origin, forwarded],
    [hostOf('chat'), 'session=1', 'http://chat.localhost:4000', undefined],
  );
  const own = ['x-forwarded-for', 'x-real-ip', 'x-forwarded-host', 'x-forwarded-proto', 'x_forwarded_for'];
  assert.equal(
    own.map((name) => seen.headers[name]),
    ['203.0.113.7', '203.0.113.7', hostOf('chat'), 'http', undefined],
  );
  assert.is(headers['x-request-id'], seen.headers['x-request-id']);
  await until(() => socket.readyState === WebSocket.OPEN, 'the socket to open');
  for (const message of [Buffer.from('hello'), Buffer.alloc(3 * MIB, 7)]) {
    const answer = messageOf(socket);
    socket.send(message);
    assert.ok((await answer).equals(message));
  }
  socket.close(4000);
  assert.is(await closed(socket), 4000);
  await until(() => app.sockets.size === 0, 'the app’s socket to close');
});

test('an app that closes a WebSocket closes it for the visitor, with its code and last message', async () => {
  const app = await serveSockets(world, 'closer');
  const socket = open(world, 'closer');
  await opened(socket);
  await until(() => app.sockets.size === 1, 'the connection');
  const last = messageOf(socket);
  const end = closed(socket);
  for (const each of app.sockets) {
    each.send('last');
    each.close(4001);
  }
  assert.is((await last).toString(), 'last');
  assert.is(await end, 4001);
});

test('a visitor who reads slowly gets all that an app sent before it closed the connection', async () => {
  await world.serveRaw('sender', (socket) => {
    socket.once('data', () => {
      socket.write('HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n');
      socket.end(Buffer.alloc(20 * MIB, 'x'));
    });
  });
  const client = world.connect(handshake('sender'));
  // Buffers on the way to the visitor are full until the end.
  client.socket.on('data', () => {
    client.socket.pause();
    setTimeout(() => client.socket.resume(), 1);
  });
  const received = await client.closed;
  assert.is(received.length - received.indexOf('\r\n\r\n') - 4, 20 * MIB);
});

test('a visitor or an app that disappears closes the other end', async () => {
  const app = await serveSockets(world, 'gone');
  const first = open(world, 'gone');
  await opened(first);
  await until(() => app.sockets.size === 1, 'the connection');
  first.terminate();
  await until(() => app.connections.size === 0, 'the app’s connection to close');
  const second = open(world, 'gone');
  await opened(second);
  const end = closed(second);
  for (const connection of app.connections) connection.resetAndDestroy();
  assert.is(await end, 1006);
});

test('bytes that a visitor sends with the handshake reach the app after it', async () => {
  await world.serveRaw('head', (socket) => {
    let received = '';
    socket.on('data', (data) => {
      received += data;
      if (received.endsWith('early')) socket.write('got it');
      else socket.write('HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\nfirst ');
    });
  });
  const client = world.connect(`${handshake('head')}early`);
  await until(() => client.received.endsWith('\r\n\r\nfirst got it'), 'the bytes');
  client.socket.destroy();
});

const handshake = (ref: string, first = 'GET / HTTP/1.1', more = '') =>
  `${first}\r\nHost: ${hostOf(ref)}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
  `Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n${more}\r\n`;

test('an app that does not read stops the visitor who sends', async () => {
  let paused: Duplex | undefined;
  await world.serveRaw('stuck', (socket) => {
    paused = socket;
    socket.once('data', () => {
      socket.pause();
      socket.write('HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n');
    });
  });
  const client = world.connect(handshake('stuck'));
  await until(() => client.received.endsWith('\r\n\r\n'), 'the handshake');
  let written = 0;
  const chunk = Buffer.alloc(MIB);
  const write = () => {
    while (written < 200 * MIB) {
      written += chunk.length;
      if (!client.socket.write(chunk)) return void client.socket.once('drain', write);
    }
  };
  write();
  let before = -1;
  await until(() => {
    const isStill = written === before;
    before = written;
    return isStill;
  }, 'the visitor to stop');
  assert.ok(written < 100 * MIB, `${written} bytes were sent`);
  (paused as unknown as Duplex).destroy();
  await client.closed;
});

test('a rejection of the handshake by the app is forwarded, and its connection is closed', async () => {
  const container = await world.serve('strict', () => undefined);
  (container.server as ReturnType<typeof createServer>).on('upgrade', (_, socket: Duplex) =>
    socket.end(
      'HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic\r\nSet-Cookie: a=1; Domain=localhost\r\n' +
        'Access-Control-Allow-Origin: *\r\nContent-Length: 6\r\nConnection: keep-alive\r\n\r\nno way',
    ),
  );
  const { status, headers, text } = await opened(open(world, 'strict'));
  assert.equal([status, text], [401, 'no way']);
  assert.equal([headers['www-authenticate'], headers['set-cookie'], headers.connection], ['Basic', undefined, 'close']);
  assert.is(headers['access-control-allow-origin'], '*');
  await until(() => container.connections.size === 0, 'the connection to close');
  const received = await world.connect(`${handshake('strict')}GET /stolen HTTP/1.1\r\nHost: x\r\n\r\n`).closed;
  assert.equal(received.match(/HTTP\/1\.1/g), ['HTTP/1.1']);
});

test('a handshake with a body, another method or another protocol is no WebSocket', async () => {
  const app = await serveSockets(world, 'methods');
  for (const text of [
    handshake('methods', 'POST / HTTP/1.1'),
    `${handshake('methods', 'GET / HTTP/1.1', 'Content-Length: 5\r\n')}hello`,
    `${handshake('methods', 'GET / HTTP/1.1', 'Transfer-Encoding: chunked\r\n')}0\r\n\r\n`,
  ])
    assert.match(await world.connect(text).closed, 'A WebSocket is opened by GET, without a body');
  assert.equal(app.handshakes, []);
  const { text } = await world.ask('methods', '/', { headers: { connection: 'upgrade', upgrade: 'h2c' } });
  assert.is(text, 'plain undefined');
});

test('an app that answers a handshake with garbage, with another protocol or not at all gets 502 or 504', async () => {
  await inWorld({ apps: { handshakeMilliseconds: 100 } }, async (own) => {
    for (const [bytes, expected] of [
      ['garbage\r\n\r\n', 502],
      ['HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n', 502],
      ['HTTP/1.1 101 X\r\n\r\n', 502],
      ['HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n', 502],
      ['HTTP/1.1 101 X\r\nConnection: upgrade\r\nUpgrade: websocket\r\nX: a\rb\r\n\r\n', 502],
      ['', 504],
    ] as const) {
      await own.serveRaw('odd', (socket) => void socket.once('data', () => socket.write(bytes)));
      const { status, text, headers } = await opened(open(own, 'odd'));
      assert.is(status, expected, JSON.stringify(bytes));
      assert.match(JSON.parse(text).detail, 'The app d');
      assert.ok(headers['x-request-id']);
    }
    own.add('odd', 1);
    assert.is((await opened(open(own, 'odd'))).status, 502);
  });
});

test('an app that is suspended, not running or not at its own origin opens no WebSocket', async () => {
  const { port } = await serveSockets(world, 'states');
  world.add('resting', port, { suspended: true });
  world.add('unborn', undefined);
  for (const [ref, expected] of [
    ['resting', 503],
    ['unborn', 503],
  ] as const)
    assert.is((await opened(open(world, ref))).status, expected, ref);
  const elsewhere = await opened(open(world, 'x', '/p/states/', { host: 'localhost:4000' }));
  assert.equal([elsewhere.status, elsewhere.headers.link], [404, '<http://states.localhost:4000>; rel="canonical"']);
});

test('suspension and deletion close the WebSockets of an app, and a new version does not', async () => {
  const app = await serveSockets(world, 'versions');
  const other = await serveSockets(world, 'bystander');
  const [socket, beside] = [open(world, 'versions'), open(world, 'bystander')];
  await Promise.all([opened(socket), opened(beside)]);
  await until(() => app.sockets.size === 1 && other.sockets.size === 1, 'both connections');
  const next = await serveSockets(world, 'versions');
  const answer = messageOf(socket);
  socket.send('still the former version');
  assert.is((await answer).toString(), 'still the former version');
  const second = open(world, 'versions');
  await opened(second);
  await until(() => next.sockets.size === 1, 'the new version to get the second socket');
  const ends = [closed(socket), closed(second)];
  world.apps.forget('versions');
  await Promise.all(ends);
  await until(() => app.sockets.size + next.sockets.size === 0, 'both versions to lose their sockets');
  assert.is(other.sockets.size, 1);
  beside.terminate();
});

test('an app, a visitor and an account each get only their share of the WebSockets', async () => {
  const sockets = { most: 20, accountPerFree: 1, ofApp: 3, ofVisitor: 2 };
  await inWorld({ apps: { sockets } }, async (own) => {
    const app = await serveSockets(own, 'few');
    own.add('other', app.port);
    const statusOf = async (ref: string, address: string) =>
      (await opened(open(own, ref, '/', { 'x-forwarded-for': address }))).status;
    const statuses: number[] = [];
    for (const address of ['203.0.113.1', '203.0.113.1', '203.0.113.1', '203.0.113.2', '203.0.113.3'])
      statuses.push(await statusOf('few', address));
    assert.equal(statuses, [101, 101, 503, 101, 503]);
    assert.is(await statusOf('other', '203.0.113.1'), 101);
    own.apps.forget('few');
    await until(() => app.sockets.size === 1, 'the sockets to close');
    assert.is(await statusOf('few', '203.0.113.1'), 101);
  });
});

test.run();
