/** Tests which messages of Postgres reach the data plane. A small server replaces the data plane. */
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { LogRecord } from '@slipway/postgres';
import { readBounded } from '@slipway/program';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { DatabaseLogs } from './database-logs.js';

const record = (more: Partial<LogRecord> = {}): LogRecord => ({
  timestamp: '2026-01-05 10:00:00.000 UTC',
  pid: 1,
  severity: 'ERROR',
  message: 'm',
  database: 'p-db_one',
  user: 'authenticator.db_one',
  ...more,
});

let folder: string;
let server: Server | undefined;
let received: Record<string, unknown>[] = [];
let requests = 0;

test.before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-logs-'));
});
test.before.each(() => {
  received = [];
  requests = 0;
});
test.after.each(() => {
  server?.close();
  server?.closeAllConnections();
  server = undefined;
});
test.after(() => rm(folder, { recursive: true, force: true }));

async function listen(): Promise<void> {
  const listening = createServer(async (incoming, outgoing) => {
    requests += 1;
    received.push(...(JSON.parse((await readBounded(incoming, 2 ** 20)).toString()) as typeof received));
    outgoing.writeHead(204).end();
  });
  server = listening;
  await new Promise<void>((resolve) => listening.listen(path.join(folder, 's'), resolve));
}

function logsOf(refs: Record<string, string> = { db_one: 'shop', db_two: 'other' }) {
  const looks: string[][] = [];
  const leftOut: [string, number][] = [];
  const logs = new DatabaseLogs({
    socket: path.join(folder, 's'),
    refsOf: async (ids) => {
      looks.push([...ids]);
      return new Map(Object.entries(refs).filter(([id]) => ids.includes(id)));
    },
    onLeftOut: (database, count) => leftOut.push([database, count]),
  });
  return { logs, looks, leftOut };
}

test('lines reach the data plane under the refs of their projects, and unknown databases none', async () => {
  await listen();
  const { logs, looks } = logsOf();
  for (const id of ['db_one', 'db_gone', 'db_two', 'db_one']) logs.add(record({ database: `p-${id}` }));
  await until(() => received.length === 3, 'the lines');
  assert.equal(
    received.map(({ ref }) => ref),
    ['shop', 'other', 'shop'],
  );
  logs.add(record({ database: 'p-db_gone' }));
  logs.add(record());
  await until(() => received.length === 4, 'the next line');
  assert.equal(looks, [['db_one', 'db_gone', 'db_two']]);
  logs.close();
});

test('more than ten messages of a database in a second are left out and counted, of no other one', async () => {
  await listen();
  const { logs, leftOut } = logsOf();
  for (let n = 0; n < 500; n++) if (logs.accepts('p-db_one', false)) logs.add(record());
  assert.ok(logs.accepts('p-db_two', false));
  await until(() => received.length === 11, 'the number');
  assert.equal([received.at(-1)?.ref, received.at(-1)?.left_out], ['shop', 490]);
  assert.equal(leftOut, [['p-db_one', 490]]);
  logs.close();
});

test('rejected connections to a database leave room for the messages of its sessions', async () => {
  await listen();
  const { logs } = logsOf();
  for (let n = 0; n < 500; n++) if (logs.accepts('p-db_one', true)) logs.add(record({ severity: 'FATAL' }));
  for (let n = 0; n < 8; n++) if (logs.accepts('p-db_one', false)) logs.add(record({ message: 'own' }));
  await until(() => received.length === 11, 'the lines and the number');
  assert.equal([received.filter(({ message }) => message === 'own').length, received.at(-1)?.left_out], [8, 498]);
  logs.close();
});

test('lines are dropped while the data plane is unavailable, and at most 1000 wait', async () => {
  const { logs } = logsOf();
  logs.add(record({ message: 'lost' }));
  await sleep(400);
  await listen();
  for (let n = 0; n < 3_000; n++) logs.add(record());
  await until(() => received.length === 1_000, 'the lines');
  await sleep(300);
  assert.equal([received.length, requests], [1_000, 10]);
  assert.not.ok(received.some(({ message }) => message === 'lost'));
  logs.close();
});

test.run();
