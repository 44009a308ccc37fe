/** Tests sockets that lead to a machine. A direct connection to a server here replaces SSH. */
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SocketForward } from './socket-forward.js';

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-forward-'));
const local = path.join(folder, 'local.sock');
const remote = path.join(folder, 'remote.sock');
const MOST = 1024 * 1024;

const test = suite('forwarded sockets');
let server: Server;
let forward: SocketForward;
/** The response of the machine to each chunk that it receives. */
let respond: (socket: Socket) => void = () => undefined;

const direct = {
  connect: async (to: string) => connect({ path: to, allowHalfOpen: true }),
};

test.before(async () => {
  server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.on('data', () => respond(socket));
  });
  await new Promise<void>((resolve) => server.listen(remote, resolve));
  forward = await SocketForward.open(direct, { local, remote, mostPerAnswer: MOST });
});
test.after(async () => {
  await forward.close();
  server.close();
  rmSync(folder, { recursive: true });
});

/** Resolves with the number of bytes that arrived when `enough` of them did, or when the connection ended. */
const received = (socket: Socket, enough = Number.POSITIVE_INFINITY) =>
  new Promise<number>((resolve) => {
    let bytes = 0;
    const count = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes >= enough) done();
    };
    const done = () => {
      socket.off('data', count);
      resolve(bytes);
    };
    socket.on('data', count);
    socket.once('close', done);
  });

test('answers below the limit pass, also if they are above it together', async () => {
  respond = (socket) => socket.write(Buffer.alloc(MOST));
  const socket = connect(local);
  for (let request = 0; request < 4; request += 1) {
    const answer = received(socket, MOST);
    socket.write('request');
    assert.is(await answer, MOST);
  }
  socket.destroy();
});

test('an answer without an end closes the connection at the limit', async () => {
  respond = (socket) => {
    const more = () => {
      if (!socket.destroyed) socket.write(Buffer.alloc(64 * 1024), more);
    };
    more();
  };
  const socket = connect(local);
  socket.on('error', () => undefined);
  const answer = received(socket);
  socket.write('request');
  const bytes = await answer;
  assert.ok(bytes > 0 && bytes <= MOST, `${bytes} bytes arrived`);
});

test.run();
