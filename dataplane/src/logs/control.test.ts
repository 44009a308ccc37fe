/** Tests the control server for logs of projects, by requests at its socket. */
import { mkdtemp, rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import { request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readBounded } from '@slipway/program';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { startLogsControl } from './control.js';
import { ProjectLogs } from './project-logs.js';

const log = pino({ level: 'silent' });
const projects: Record<string, string> = { shop: 'uid-1', other: 'uid-2' };
let folder: string;
let socketPath: string;
let logs: ProjectLogs;
let server: Server;

test.before(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'slipway-control-'));
  socketPath = path.join(folder, 's');
});
test.before.each(async () => {
  logs = new ProjectLogs({ folder: undefined, uidOf: (ref) => projects[ref], uids: () => undefined, log });
  server = await startLogsControl({ socket: socketPath }, logs, log);
});
test.after.each(async () => {
  server.close();
  server.closeAllConnections();
  await logs.close();
});
test.after(() => rm(folder, { recursive: true, force: true }));

async function call(method: string, url: string, body?: string | Buffer) {
  const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
  request({ socketPath, path: url, method, agent: false }, (response) => {
    readBounded(response, 2 ** 20).then(
      (text) => resolve({ status: response.statusCode ?? 0, text: text.toString() }),
      reject,
    );
  })
    .on('error', reject)
    .end(body);
  return promise;
}

const linesOf = async (ref: string) => {
  const { text } = await call('GET', `/${ref}/postgres`);
  return (JSON.parse(text) as Record<string, unknown>[]).map(({ time, ...line }) => line);
};

test('lines of databases appear in the logs of their projects alone', async () => {
  const lines = [
    { ref: 'shop', level: 'error', message: 'no table', code: '42P01', role: 'authenticator.x' },
    { ref: 'other', level: 'warn', message: 'x'.repeat(5_000) },
    { ref: 'unknown', level: 'info', message: 'nobody reads this' },
    { ref: 'other', level: 'warn', message: '', left_out: 7 },
  ];
  assert.is((await call('POST', '/postgres', JSON.stringify(lines))).status, 204);
  assert.equal(await linesOf('shop'), [
    { level: 'error', message: 'no table', code: '42P01', role: 'authenticator.x' },
  ]);
  assert.equal(await linesOf('other'), [
    { level: 'warn', message: 'x'.repeat(1_000) },
    { level: 'warn', message: 'more lines in this second', left_out: 7 },
  ]);
  assert.is((await call('GET', '/unknown/postgres')).status, 404);
});

test('a request that is not an array of lines is a 400, a larger one a 413, and neither writes a line', async () => {
  const line = { ref: 'shop', level: 'info', message: 'm' };
  const bodies = [
    '',
    '{',
    '{}',
    'null',
    '[null]',
    '["x"]',
    JSON.stringify([line, { ...line, ref: 1 }]),
    JSON.stringify([line, { ...line, level: 'fatal' }]),
    JSON.stringify([line, { ...line, message: {} }]),
    JSON.stringify([line, { ...line, code: 5 }]),
    JSON.stringify([line, { ...line, role: ['x'] }]),
    JSON.stringify([line, { ...line, left_out: -1 }]),
    JSON.stringify(Array(101).fill(line)),
    JSON.stringify([line, { ...line, more: Array(2_000).fill(0) }]),
  ];
  for (const body of bodies) assert.is((await call('POST', '/postgres', body)).status, 400, body.slice(0, 80));
  assert.is((await call('POST', '/postgres', Buffer.alloc(1024 * 1024 + 1, 32))).status, 413);
  assert.equal(await linesOf('shop'), []);
});

test('only lines of databases can be sent', async () => {
  const line = JSON.stringify([{ ref: 'shop', level: 'info', message: 'm' }]);
  for (const url of ['/auth', '/', '/shop/postgres', '/postgres/x']) {
    assert.is((await call('POST', url, line)).status, 404, url);
  }
  assert.is((await call('PUT', '/postgres', line)).status, 404);
});

test('at a port, a request without the right token reads and writes nothing', async () => {
  const token = 'a token that only the gateways and the API have';
  const port = await startLogsControl({ listen: '127.0.0.1:0', token: () => token }, logs, log);
  try {
    const { port: number } = port.address() as AddressInfo;
    const origin = `http://127.0.0.1:${number}`;
    const line = { ref: 'shop', level: 'error', message: 'no table' };
    const send = (authorization: string) => ({
      method: 'POST',
      body: JSON.stringify([line]),
      headers: { authorization },
    });
    for (const authorization of ['', token, 'Bearer ', `Bearer ${token}x`]) {
      assert.is((await fetch(`${origin}/postgres`, send(authorization))).status, 401);
      assert.is((await fetch(`${origin}/shop/postgres`, { headers: { authorization } })).status, 401);
    }
    assert.equal(await linesOf('shop'), []);
    assert.is((await fetch(`${origin}/postgres`, send(`Bearer ${token}`))).status, 204);
    const read = await fetch(`${origin}/shop/postgres`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(
      ((await read.json()) as { message: string }[]).map(({ message }) => message),
      ['no table'],
    );
  } finally {
    port.close();
    port.closeAllConnections();
  }
});

test.run();
