/** Tests connections without a token, from this machine and from others. They must not block programs with a token. */
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket, type TcpNetConnectOpts } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Target } from '../conformance/target.js';
import { startTestApiServer, type TestApiServer } from '../testing.js';
import { CONNECTION_LIMITS, ConnectionGuard, type ConnectionLimits } from './connection-guard.js';

const SECRETS = '/api/v1/secrets';
/** Another loopback address, which stands for another machine. */
const ELSEWHERE = '127.0.0.2';

const sockets = new Set<Socket>();
let server: TestApiServer;
let target: Target;

test.before(async () => {
  server = await startTestApiServer();
  target = new Target('ours', server.kubeconfig);
});

test.after.each(() => {
  for (const socket of sockets) socket.destroy();
  sockets.clear();
});

test.after(async () => {
  target?.close();
  await server?.close();
});

const port = () => Number(new URL(server.url).port);

/** Connects without sending anything. */
async function idle(count: number, localAddress = '127.0.0.1'): Promise<Socket[]> {
  const made = Array.from({ length: count }, () => connect({ host: '127.0.0.1', port: port(), localAddress }));
  for (const socket of made) {
    sockets.add(socket.on('error', () => undefined));
    socket.once('close', () => sockets.delete(socket));
  }
  await Promise.all(made.map((socket) => Promise.race([once(socket, 'connect'), once(socket, 'close')])));
  return made;
}

/** Sends a request on a new connection. */
const asProgram = async () => (await target.send('GET', SECRETS)).code;

for (const [what, address] of [
  ['this machine', '127.0.0.1'],
  ['another machine', ELSEWHERE],
] as const) {
  test(`local programs are served while ${what} has thousands of connections without a handshake`, async () => {
    for (let round = 0; round < 5; round++) {
      await idle(450, address);
      assert.is(await asProgram(), 200);
    }
  });

  test(`local programs are served while ${what} has thousands of connections with half a header`, async () => {
    for (let round = 0; round < 5; round++) {
      for (let i = 0; i < 60; i++) {
        const socket = connectTls({ host: '127.0.0.1', port: port(), localAddress: address, ca: server.ca } as never);
        sockets.add(socket.on('error', () => undefined));
        socket.once('secureConnect', () => socket.write('GET / HTTP/1.1\r\nHost: x\r\nX-Slow: '));
      }
      await idle(400, address);
      assert.is(await asProgram(), 200);
    }
  });
}

test('one network can have a limited number of connections without a token', async () => {
  const made = await idle(100, ELSEWHERE);
  const open = () => made.filter((socket) => !socket.destroyed);
  // The server accepts the connections in its own order, so any of them may end next.
  while (open().length > 32) await Promise.race(open().map((socket) => once(socket, 'close')));
  assert.is(open().length, 32);
  const [other] = await idle(1, '127.0.0.3');
  assert.is(other?.destroyed, false);
});

test('a connection without a token is closed after a timeout, and one with a token stays open', async () => {
  const short = await startTestApiServer({ limits: { pendingMilliseconds: 300 } });
  const at = { host: '127.0.0.1', port: Number(new URL(short.url).port) };
  try {
    const silent = connect(at).on('error', () => undefined);
    const known = connectTls({ ...at, ca: short.ca } as never).on('error', () => undefined);
    const ask = async () => {
      known.write(`GET ${SECRETS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${short.token}\r\n\r\n`);
      const [chunk] = await once(known, 'data');
      return String(chunk).slice(0, 12);
    };
    await once(known, 'secureConnect');
    assert.is(await ask(), 'HTTP/1.1 200');
    await once(silent, 'close');
    assert.is(await ask(), 'HTTP/1.1 200');
    known.destroy();
  } finally {
    await short.close();
  }
});

test('the body of a request without a token is not read', async () => {
  const socket = connectTls({ host: '127.0.0.1', port: port(), ca: server.ca } as never).on('error', () => undefined);
  sockets.add(socket);
  await once(socket, 'secureConnect');
  socket.write(`POST ${SECRETS} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n{`);
  const [chunk] = await once(socket, 'data');
  assert.match(String(chunk), /^HTTP\/1\.1 401 [\s\S]*connection: close/i);
  socket.resume();
  await once(socket, 'close');
});

/** Starts a guard at all addresses of this machine. `accepted` has the guarded connections in order. */
async function guarded(limits: Partial<ConnectionLimits>, work: (port: number, accepted: Socket[]) => Promise<void>) {
  const guard = new ConnectionGuard({ ...CONNECTION_LIMITS, ...limits }, pino({ level: 'silent' }));
  const accepted: Socket[] = [];
  const listener = createServer((socket) => {
    accepted.push(socket.on('error', () => undefined));
    guard.accept(socket);
  });
  await new Promise<void>((resolve) => listener.listen(0, '0.0.0.0', resolve));
  try {
    await work((listener.address() as AddressInfo).port, accepted);
  } finally {
    for (const socket of accepted) socket.destroy();
    listener.close();
    guard.close();
  }
}

/** Resolves with the server's end of the connection. */
async function connected(accepted: Socket[], options: TcpNetConnectOpts): Promise<Socket> {
  const before = accepted.length;
  const socket = connect(options).on('error', () => undefined);
  sockets.add(socket);
  while (accepted.length === before) await new Promise((resolve) => setImmediate(resolve));
  return accepted[before] as Socket;
}

test('a guard counts connections of one client port to two addresses separately', async () => {
  await guarded({ ofOneNetwork: 2 }, async (port, accepted) => {
    const client = { port, localAddress: '127.0.0.9' };
    const first = await connected(accepted, { ...client, host: '127.0.0.1' });
    const same = { ...client, localPort: first.remotePort as number };
    const second = await connected(accepted, { ...same, host: '127.0.0.2' });
    assert.is(second.remotePort, first.remotePort);
    for (const socket of [first, second]) {
      socket.destroy();
      await once(socket, 'close');
    }
    const [third, fourth] = [
      await connected(accepted, { ...client, host: '127.0.0.1' }),
      await connected(accepted, { ...client, host: '127.0.0.1' }),
    ];
    assert.equal([third.destroyed, fourth.destroyed], [false, false]);
  });
});

test('a guard counts a local program as local even when it connects to a network address', async () => {
  await guarded({ ofOneNetwork: 1 }, async (port, accepted) => {
    const own = { port, host: '127.0.0.5', localAddress: '127.0.0.5' };
    const made = [await connected(accepted, own), await connected(accepted, own)];
    assert.equal(
      made.map(({ destroyed }) => destroyed),
      [false, false],
    );
  });
});

test.run();
