import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startTestPostgres } from './testing.js';

test('a started server takes connections over its socket, refuses a wrong password, and stops', async () => {
  const server = await startTestPostgres();
  try {
    const client = new pg.Client(server.admin());
    await client.connect();
    const { rows } = await client.query('show server_version');
    assert.match(rows[0].server_version, /^18\./);
    await client.end();
    const stranger = new pg.Client({ ...server.admin(), password: 'wrong' });
    const refusal = await stranger.connect().catch((error) => error.code);
    assert.is(refusal, '28P01');
  } finally {
    await server.close();
  }
});

test.run();
