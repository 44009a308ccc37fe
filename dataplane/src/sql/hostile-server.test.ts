/** Tests that a hostile server in place of a tenant's Postgres gets no password. The server is a fake. */
import { type AddressInfo, createServer } from 'node:net';
import { ASKED_IN_THE_CLEAR } from '@slipway/installation';
import { type PasswordQuestion, startHostilePostgres } from '@slipway/postgres';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ReplicationSession } from '../services/realtime/changes/replication-session.js';
import { HeldAnswer } from './answer-memory.js';
import type { Login } from './login.js';
import { Session } from './session.js';

const OPTIONS = {
  connectTimeoutMs: 5_000,
  statementTimeoutMs: 5_000,
  maxStatements: 1,
  holdAnswer: () => new HeldAnswer({ host: '127.0.0.1', port: 1, database: 'hostile' }),
  onNotification: () => undefined,
  onReady: () => undefined,
  onClose: () => undefined,
};
const ways: [string, (login: Login) => Promise<unknown>][] = [
  ['what reads changes', (login) => ReplicationSession.open(login)],
  ['what runs statements', (login) => Session.open(login, OPTIONS)],
];
const questions: PasswordQuestion[] = ['cleartext', 'md5'];

for (const [who, open] of ways) {
  for (const question of questions) {
    test(`${who} sends nothing to a server that requests a password by ${question}, and reports why`, async () => {
      const server = await startHostilePostgres(question);
      const { host, port } = server;
      const login = { host, port, database: 'p-first', user: 'slipway_realtime', password: 'nobody-may-catch-this' };
      const result = await open(login).then(
        () => 'logged in',
        (error: Error) => error.message,
      );
      await server.close();
      assert.is(server.logins(), 1);
      assert.equal(server.received(), Buffer.alloc(0));
      assert.ok(result.includes(ASKED_IN_THE_CLEAR), result);
    });
  }
}

function message(type: string, ...body: number[]): Buffer {
  const header = Buffer.alloc(5, type);
  header.writeInt32BE(body.length + 4, 1);
  return Buffer.concat([header, Buffer.from(body)]);
}
const READY = message('Z', 0x49);
const ANSWER = [message('1'), message('2'), message('C', 0), READY];

/** Opens a session to a server that sends `response` to the first batch. Returns whether it is usable afterwards. */
async function isUsableAfter(response: Buffer[]): Promise<boolean> {
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write(Buffer.concat([message('R', 0, 0, 0, 0), READY]));
      socket.on('data', () => socket.write(Buffer.concat(response)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const login = { host: '127.0.0.1', port, database: 'p-first', user: 'authenticator', password: 'x' };
  const session = await Session.open(login, OPTIONS);
  try {
    await session.run([{ text: 'select' }]);
    return session.usable;
  } finally {
    session.close();
    server.close();
  }
}

test('a session ends when the database sends data although no batch is in flight', async () => {
  assert.is(await isUsableAfter([...ANSWER, message('D', 0, 0)]), false);
});

test('notifications during a batch do not count against the size of its result', async () => {
  const large = Buffer.concat([Buffer.from('\0\0\0\x01flood\0'), Buffer.alloc(250_000, 'x'), Buffer.alloc(1)]);
  const header = message('A').subarray(0, 5);
  header.writeInt32BE(large.length + 4, 1);
  const notifications = Array.from({ length: 300 }, () => [header, large]).flat();
  assert.is(await isUsableAfter([...notifications, ...ANSWER]), true);
});

test.run();
