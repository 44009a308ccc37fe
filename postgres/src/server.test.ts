import { chmod, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type PostgresServer, startPostgres } from './server.js';
import { freePort, startTestPostgres } from './testing.js';

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

test('a start over a server that outlived its starter, or over processes that outlived their server, finds all rows', async () => {
  const home = await temporaryHome();
  try {
    const first = await home.start();
    await query(first, 'create table kept as select 1 as n');
    const second = await home.start();
    assert.is.not(second.pid, first.pid, 'the first server was ended');
    const busy = query(second, 'select pg_sleep(600)').catch(() => 'cut off');
    await until(
      async () => (await query(second, "select 1 from pg_stat_activity where query like '%(600)'")).length > 0,
    );
    process.kill(second.pid, 'SIGKILL');
    await second.exited;
    const third = await home.start();
    assert.equal(await query(third, 'select n from kept'), [{ n: 1 }]);
    await third.stop();
    await busy;
  } finally {
    await home.remove();
  }
});

test('data of another major version is refused in a sentence that names both', async () => {
  const home = await temporaryHome();
  try {
    await (await home.start()).stop();
    await writeFile(path.join(await realpath(home.folder), 'PG_VERSION'), '99\n');
    const message = await home.start().then(String, (error) => error.message);
    assert.match(message, /is of Postgres 99, and this program brings Postgres 18/);
  } finally {
    await home.remove();
  }
});

test('an immediate stop loses nothing that was committed', async () => {
  const home = await temporaryHome();
  try {
    const first = await home.start();
    await query(first, 'create table kept as select 1 as n');
    await first.stop('immediate');
    const second = await home.start();
    assert.equal(await query(second, 'select n from kept'), [{ n: 1 }]);
    await second.stop();
  } finally {
    await home.remove();
  }
});

test('no statement, and so no secret in one, reaches the log', async () => {
  const home = await temporaryHome();
  const lines: string[] = [];
  try {
    const server = await home.start((line) => lines.push(line));
    await query(server, "select 1 / 0, 'canary-in-a-statement'").catch(() => {});
    await query(server, "alter role slipway password 'canary-in-a-statement' nonsense").catch(() => {});
    await server.stop();
    assert.ok(lines.length > 0);
    assert.not.match(lines.join('\n'), /canary/);
  } finally {
    await home.remove();
  }
});

const password = 'canary-password';

async function query(server: PostgresServer, sql: string) {
  const client = new pg.Client({
    host: server.socket,
    port: server.port,
    user: 'slipway',
    password,
    database: 'postgres',
  });
  client.on('error', () => {});
  await client.connect();
  try {
    return (await client.query(sql)).rows;
  } finally {
    await client.end().catch(() => {});
  }
}

async function temporaryHome() {
  const home = await mkdtemp(path.join(tmpdir(), 'slipway-test-'));
  await chmod(home, 0o711);
  const port = await freePort();
  const folder = path.join(home, 'data');
  const running: PostgresServer[] = [];
  const start = async (onLog?: (line: string) => void) => {
    const server = await startPostgres({
      folder,
      socketFolder: path.join(home, 's'),
      port,
      password,
      settings: { shared_buffers: '32MB' },
      ...(onLog ? { onLog } : {}),
    });
    running.push(server);
    return server;
  };
  const remove = async () => {
    for (const server of running) await server.stop('immediate');
    await rm(home, { recursive: true, force: true });
  };
  return { folder, start, remove };
}

async function until(holds: () => Promise<boolean>) {
  while (!(await holds())) await sleep(20);
}

test.run();
