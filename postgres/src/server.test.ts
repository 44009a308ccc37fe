import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { freePort, until } from '@slipway/testing';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { postgresAccount } from './account.js';
import { type PostgresServer, startPostgres } from './server.js';
import { startTestPostgres } from './testing.js';

test('a started server accepts connections over its socket, rejects a wrong password, and stops', async () => {
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

test('a start ends a server or processes of an earlier start, and finds all rows', async () => {
  const home = await temporaryHome();
  try {
    const first = await home.start();
    await query(first, 'create table kept as select 1 as n');
    const second = await home.start();
    assert.is.not(second.pid, first.pid, 'the second start ended the first server');
    const busy = query(second, 'select pg_sleep(600)').catch(() => 'cut off');
    await until(
      async () => (await query(second, "select 1 from pg_stat_activity where query like '%(600)'")).length > 0,
      'the query to run',
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

test('a server starts over lock files with the number of a zombie or of another program', async () => {
  const home = await temporaryHome();
  const account = (await postgresAccount()) ?? {};
  // This shell becomes a program that never reaps its children. If the child ends later, it becomes a zombie. The shell
  // may reap a child that ends earlier.
  const parent = spawn('sh', ['-c', 'sleep 1 & echo $!; exec sleep 600'], {
    ...account,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const other = spawn('sleep', ['600'], { ...account, stdio: 'ignore' });
  try {
    const zombie = Number(await once(parent.stdout, 'data'));
    await until(
      async () => (await readFile(`/proc/${zombie}/stat`, 'utf8')).includes(') Z '),
      'the parent to leave a zombie',
    );
    await query(await home.start(), 'create table kept as select 1 as n');
    for (const pid of [zombie, other.pid as number]) {
      await home.killKeepingLocks(pid);
      const next = await home.start();
      assert.equal(await query(next, 'select n from kept'), [{ n: 1 }]);
    }
    assert.is(other.exitCode ?? other.signalCode, null, 'the other program runs on');
  } finally {
    parent.kill('SIGKILL');
    other.kill('SIGKILL');
    await home.remove();
  }
});

test('data of another major version is rejected with an error that names both versions', async () => {
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

test('a start fails and changes nothing if a data folder with databases has no marker file', async () => {
  const home = await temporaryHome();
  try {
    const first = await home.start();
    await query(first, 'create database used');
    await first.stop();
    const marker = path.join(await realpath(home.folder), 'slipway-initialised');
    await rm(marker);
    const message = await home.start().then(String, (error) => error.message);
    assert.match(message, /has databases that were in use, but its file slipway-initialised is missing/);
    await writeFile(marker, '');
    const databases = await query(await home.start(), `select datname from pg_database where datname = 'used'`);
    assert.equal(databases, [{ datname: 'used' }]);
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

test('the log contains no statement, and so no secret of one', async () => {
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
  /** Kills the server, and replaces its process id in the lock files by `pid`. */
  const killKeepingLocks = async (pid: number) => {
    const server = running.at(-1) as PostgresServer;
    const files = [
      path.join(await realpath(folder), 'postmaster.pid'),
      path.join(server.socket, `.s.PGSQL.${port}.lock`),
    ];
    const texts = await Promise.all(files.map((file) => readFile(file, 'utf8')));
    process.kill(server.pid, 'SIGKILL');
    await server.exited;
    for (const [at, file] of files.entries()) {
      await writeFile(file, (texts[at] as string).replace(String(server.pid), String(pid)));
    }
  };
  const remove = async () => {
    for (const server of running) await server.stop('immediate');
    await rm(home, { recursive: true, force: true });
  };
  return { folder, start, killKeepingLocks, remove };
}

test.run();
