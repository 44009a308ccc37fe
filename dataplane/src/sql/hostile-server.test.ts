/**
 * What a hostile party learns that answers where a tenant's Postgres should be: a fake, as no Postgres of ours is one.
 */
import { type AddressInfo, createServer } from 'node:net';
import { ASKED_IN_THE_CLEAR } from '@slipway/crds';
import { type PasswordQuestion, startHostilePostgres } from '@slipway/postgres';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ReplicationSession } from '../realtime/changes/replication-session.js';
import type { Login } from '../tenant.js';
import { HeldAnswer } from './answer-memory.js';
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
    test(`${who} sends nothing to a server that asks for a password by ${question}, and says why it left`, async () => {
      const server = await startHostilePostgres(question);
      const { host, port } = server;
      const login = { host, port, database: 'p-first', user: 'slipway_realtime', password: 'nobody-may-catch-this' };
      const said = await open(login).then(
        () => 'logged in',
        (error: Error) => error.message,
      );
      await server.close();
      assert.is(server.asked(), 1);
      assert.equal(server.caught(), Buffer.alloc(0));
      assert.ok(said.includes(ASKED_IN_THE_CLEAR), said);
    });
  }
}

test('a session ends when the database sends data without a batch', async () => {
  const message = (type: string, ...body: number[]) =>
    Buffer.from([type.charCodeAt(0), 0, 0, 0, body.length + 4, ...body]);
  const ready = message('Z', 0x49);
  const answer = [message('1'), message('2'), message('C', 0), ready, message('D', 0, 0)];
  const server = createServer((socket) => {
    socket.on('error', () => undefined);
    socket.once('data', () => {
      socket.write(Buffer.concat([message('R', 0, 0, 0, 0), ready]));
      socket.on('data', () => socket.write(Buffer.concat(answer)));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const login = { host: '127.0.0.1', port, database: 'p-first', user: 'authenticator', password: 'x' };
  const session = await Session.open(login, OPTIONS);
  await session.run([{ text: 'select' }]);
  const { usable } = session;
  session.close();
  server.close();
  assert.is(usable, false);
});

test.run();
