import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, realpath, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { freePort, until } from '@slipway/testing';
import pg from 'pg';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { postgresAccount } from './account.js';
import type { LogRecord } from './log-record.js';
import { type PostgresOptions, type PostgresServer, startPostgres } from './server.js';
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
    const server = await home.start({ onLog: (line) => lines.push(line) });
    await query(server, "select 1 / 0, 'canary-in-a-statement'").catch(() => {});
    await query(server, "alter role slipway password 'canary-in-a-statement' nonsense").catch(() => {});
    await server.stop();
    assert.ok(lines.length > 0);
    assert.not.match(lines.join('\n'), /canary/);
  } finally {
    await home.remove();
  }
});

let logged: LogRecord[] = [];
let lines: string[] = [];
/** Returns whether a message of this database is decoded. */
let accepts = (_database: string, _isFatal: boolean) => true;
/** The server of the tests of records. */
let recorded: { home: Awaited<ReturnType<typeof temporaryHome>>; server: PostgresServer };

test.before(async () => {
  const home = await temporaryHome();
  const server = await home.start({
    onRecord: (record) => logged.push(record),
    onLog: (line) => lines.push(line),
    accepts: (database, isFatal) => accepts(database, isFatal),
  });
  recorded = { home, server };
  for (const name of ['one', 'two', 'loud']) await query(server, `create database "${name}"`);
});
test.before.each(() => {
  logged = [];
  lines = [];
});
test.after(() => recorded?.home.remove());

test('messages of 100 KiB that two sessions log at once arrive whole, each with its own database', async () => {
  const raise = (name: string) =>
    query(
      recorded.server,
      `do $$ begin for i in 1..50 loop raise warning '%', repeat('${name}"' || chr(10), 20480); end loop; end $$`,
      { database: name, application_name: 'test' },
    );
  await Promise.all([raise('one'), raise('two')]);
  await until(() => logged.length === 100, 'the messages');
  for (const name of ['one', 'two']) {
    const own = logged.filter(({ database }) => database === name);
    assert.is(own.length, 50);
    assert.ok(own.every(({ message }) => message === `${name}"\n`.repeat(20480)));
    assert.equal(
      [own[0]?.severity, own[0]?.user, own[0]?.code, own[0]?.application],
      ['WARNING', 'slipway', '01000', 'test'],
    );
  }
});

test('a message larger than a record may be is replaced, and the next one is whole', async () => {
  await query(recorded.server, `do $$ begin raise warning '%', repeat('x', 3000000); raise warning 'next'; end $$`);
  await until(() => logged.length === 2, 'the messages');
  const [large, next] = logged;
  assert.match(large?.message ?? '', /^\(a message of 3000\d{3} bytes\)$/);
  assert.equal([large?.database, large?.user, large?.code], ['postgres', 'slipway', '01000']);
  assert.is(next?.message, 'next');
});

test('a database name with a forged record and line breaks is one record of that name', async () => {
  const database = 'a\n{"dbname":"one","message":"x"}\n","dbname":"one","';
  await query(recorded.server, 'select 1', { database }).then(
    () => assert.unreachable(),
    () => undefined,
  );
  await until(() => logged.some(({ severity }) => severity === 'FATAL'), 'the message');
  assert.equal(
    logged.map((record) => record.database),
    [database],
  );
  // A line that continues a message begins with a tab.
  assert.ok(lines.length > 1 && lines.every((line) => /^\t|^\d{4}-/.test(line)));
});

test('a rejected connection is recognized before its message is decoded, also with the longest names', async () => {
  const heads: [string, boolean][] = [];
  accepts = (database, isFatal) => heads.push([database, isFatal]) > 0;
  await query(recorded.server, `do $$ begin raise warning '%', '","error_severity":"FATAL"'; end $$`);
  const name = '\u0001'.repeat(63);
  await query(recorded.server, 'select 1', { database: name, user: name }).catch(() => undefined);
  await until(() => logged.length === 2, 'the messages');
  accepts = () => true;
  assert.equal(heads, [
    ['postgres', false],
    ['\\u0001'.repeat(63), true],
  ]);
});

test('a flood of messages uses no disk, and dropped ones are not decoded', async () => {
  const { home, server } = recorded;
  let dropped = 0;
  accepts = (database) => {
    if (database === 'loud') dropped++;
    return database !== 'loud';
  };
  const before = await sizeOf(home.root);
  const flood = "do $$ begin for i in 1..100000 loop raise warning '%', repeat('x', 300); end loop; end $$";
  await query(server, flood, { database: 'loud' });
  await query(server, "do $$ begin raise warning 'quiet'; end $$");
  await until(() => logged.some(({ message }) => message === 'quiet'), 'the other message');
  assert.is(dropped, 100_000);
  assert.equal(
    logged.map(({ message }) => message),
    ['quiet'],
  );
  // The flood has 70 MB. Sessions write some statistics.
  const grown = (await sizeOf(home.root)) - before;
  assert.ok(grown < 20_000_000, `${grown} bytes`);
});

test('a killed server ends its log with its last message, and the next start logs too', async () => {
  const home = await temporaryHome();
  const records: LogRecord[] = [];
  try {
    const warn = (server: PostgresServer, text: string) => query(server, `do $$ begin raise warning '${text}'; end $$`);
    const first = await home.start({ onRecord: (record) => records.push(record) });
    await warn(first, 'before');
    process.kill(first.pid, 'SIGKILL');
    await first.exited;
    assert.ok(records.some(({ message }) => message === 'before'));
    const second = await home.start({ onRecord: (record) => records.push(record) });
    await warn(second, 'after');
    await second.stop();
    const warnings = records.filter(({ severity }) => severity === 'WARNING').map(({ message }) => message);
    assert.equal(warnings, ['before', 'after']);
    assert.is(records.at(-1)?.message, 'database system is shut down');
  } finally {
    await home.remove();
  }
});

test('the error of a failed start has the last lines of the log, before and after the collector runs', async () => {
  const home = await temporaryHome();
  try {
    const reasonOf = (settings: Record<string, string>) =>
      home.start({ settings }).then(String, (error: Error) => error.message);
    assert.match(
      await reasonOf({ shared_buffers: 'many' }),
      /^Postgres ended while starting: .*FATAL: {2}invalid value for parameter "shared_buffers"/s,
    );
    await (await home.start()).stop();
    await rm(path.join(await realpath(home.folder), 'global', 'pg_control'));
    assert.match(await reasonOf({}), /^Postgres ended while starting: .*pg_control/s);
  } finally {
    await home.remove();
  }
});

const sizeOf = async (folder: string) =>
  Number((await promisify(execFile)('du', ['-s', '--block-size=1', folder])).stdout.split('\t')[0]);

const password = 'canary-password';

async function query(
  server: PostgresServer,
  sql: string,
  to: { database?: string; user?: string; application_name?: string } = {},
) {
  const client = new pg.Client({
    host: server.socket,
    port: server.port,
    user: 'slipway',
    password,
    database: 'postgres',
    ...to,
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
  const start = async (options: Partial<PostgresOptions> = {}) => {
    const server = await startPostgres({
      folder,
      socketFolder: path.join(home, 's'),
      port,
      password,
      ...options,
      settings: { shared_buffers: '32MB', ...options.settings },
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
  return { root: home, folder, start, killKeepingLocks, remove };
}

test.run();
