import { ASKED_IN_THE_CLEAR } from '@slipway/installation';
import { startHostilePostgres } from '@slipway/postgres';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { silentLog } from '../../testing.js';
import { ClusterSessions } from './cluster-sessions.js';

for (const question of ['cleartext', 'md5'] as const) {
  test(`the superuser's password is not sent to a server that requests it by ${question}`, async () => {
    const server = await startHostilePostgres(question);
    const url = `postgres://postgres:nobody-may-catch-this@${server.host}:${server.port}/postgres`;
    const sessions = new ClusterSessions(url, silentLog);
    const tries = [() => sessions.query('SELECT 1'), () => sessions.connect('slipway-building-1')];
    for (const attempt of tries) {
      const said = await attempt().then(
        () => 'logged in',
        (error: Error) => error.message,
      );
      assert.is(said, ASKED_IN_THE_CLEAR);
    }
    await sessions.close();
    await server.close();
    assert.is(server.logins(), tries.length);
    assert.equal(server.received(), Buffer.alloc(0));
  });
}

test.run();
