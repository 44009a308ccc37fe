/** Tests the socket of a machine's logs. A program in the test's place responds as the machine's journalctl. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { MACHINE_UNITS } from '@slipway/crds';
import { UNIT_LOG_BYTES, type UnitLogLine, unitLogPath } from '@slipway/installation';
import { until } from '@slipway/testing';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SshError } from '../ssh/ssh-error.js';
import { LogSocket, requestOf } from './log-socket.js';
import { journalArguments } from './unit-logs.js';
import type { CommandRunner } from './units.js';

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-logs-'));
const socketPath = path.join(folder, 'logs.sock');
const BEGIN = Date.parse('2026-11-29T10:00:00.000Z');
const commands: (readonly string[])[] = [];
const logged: string[] = [];
const log = pino({}, { write: (line: string) => void logged.push(line) });

let respond: CommandRunner['run'];
const printed = (stdout: string) => async () => ({ exitCode: 0, stdout, stderr: '' });
const machine: CommandRunner = {
  run(args, options, signal) {
    commands.push(args);
    return respond(args, options, signal);
  },
};

let socket: LogSocket;
test.before.each(async () => {
  commands.length = 0;
  logged.length = 0;
  // A leftover of a killed operator.
  writeFileSync(socketPath, '');
  socket = await LogSocket.open(machine, { path: socketPath, log });
});
test.after.each(() => socket.close());
test.after(() => rmSync(folder, { recursive: true, force: true }));

/** The journal's form of one line. */
const journal = (second: number, message: unknown, fields: object = {}) => {
  const micros = `${BEGIN + second * 1000}000`;
  return `${JSON.stringify({ __REALTIME_TIMESTAMP: micros, PRIORITY: '6', MESSAGE: message, ...fields })}\n`;
};
/** Lines in the order of journalctl --reverse. */
const reversed = (...lines: string[]) => lines.toReversed().join('');

function get(at: string, method = 'GET'): Promise<{ status: number; lines: UnitLogLine[]; bytes: number }> {
  return new Promise((resolve, reject) => {
    const outgoing = request({ socketPath, path: at, method }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      response.on('end', () => {
        const status = response.statusCode as number;
        resolve({ status, lines: status === 200 ? JSON.parse(text) : [], bytes: Buffer.byteLength(text) });
      });
    });
    outgoing.on('error', reject).end();
  });
}
const messagesOf = ({ lines }: { lines: UnitLogLine[] }) => lines.map(({ message }) => message);

test('lines are returned newest last, and what is no entry of the journal is left out', async () => {
  const bytes = [...Buffer.from('bytes')];
  const notText = ['no JSON\n', '\n', 'null\n', '[]\n', '"x"\n', '{"MESSAGE":"no time"}\n', journal(9, null)];
  const output = reversed(journal(1, 'one'), ...notText, journal(2, bytes), journal(3, [255, 254]), journal(4, 'four'));
  respond = printed(`${output}{"MESSAGE":"cut`);
  const { status, lines } = await get('/auth?limit=10');
  assert.is(status, 200);
  assert.equal(
    lines.map(({ time, message }) => `${time.slice(17, 19)} ${message}`),
    ['01 one', '02 bytes', '03 ÿþ', '04 four'],
  );
});

test('limit, since and level choose the newest lines', async () => {
  const levels = ['info', 'error', 'info', 'error', 'info'] as const;
  const lines = levels.map((level, index) => journal(index, `${index}`, { PRIORITY: level === 'error' ? '3' : '6' }));
  respond = printed(reversed(...lines));
  const query = async (extra: Parameters<typeof unitLogPath>[1]) => messagesOf(await get(unitLogPath('auth', extra)));
  assert.equal(await query({ limit: 2 }), ['3', '4']);
  assert.equal(await query({ limit: 9, level: 'error' }), ['1', '3']);
  assert.equal(await query({ limit: 1, level: 'warn' }), ['3']);
  assert.equal(await query({ limit: 9, since: BEGIN + 2_500 }), ['3', '4']);
});

test('the command has fixed arguments, and none of them is from the request', () => {
  for (const unit of MACHINE_UNITS) {
    const args = journalArguments(unit, { limit: 5, since: 1_500, level: 'error' });
    assert.equal(args, [
      '--no-pager',
      '--quiet',
      '--all',
      '--reverse',
      '--output=json',
      '--output-fields=MESSAGE,PRIORITY',
      '--lines=10000',
      '--since=@1',
      `_SYSTEMD_UNIT=slipway-${unit}.service`,
    ]);
  }
  assert.ok(journalArguments('auth', { limit: 5 }).includes('--lines=505'));
});

test('requests that are not valid run no command', async () => {
  respond = printed('');
  const paths = [
    '/',
    '/ssh?limit=1',
    '/slipway-auth?limit=1',
    '/auth.service?limit=1',
    '/auth/?limit=1',
    '/%61uth?limit=1',
    '/__proto__?limit=1',
    '/auth',
    '/auth?limit=0',
    '/auth?limit=1001',
    '/auth?limit=-1',
    '/auth?limit=1;reboot',
    '/auth?limit=1&since=',
    '/auth?limit=1&since=-1',
    '/auth?limit=1&since=today',
    '/auth?limit=1&since=999999999999999',
    '/auth?limit=1&level=all',
    '/auth?limit=1&level=',
  ];
  for (const at of paths) assert.is((await get(at)).status, 400, at);
  assert.is((await get('/auth?limit=1', 'POST')).status, 400);
  assert.equal(commands, []);
  assert.equal(requestOf('/auth?limit=7&since=5&level=warn'), {
    unit: 'auth',
    query: { limit: 7, since: 5, level: 'warn' },
  });
});

test('a response is limited to its bytes, and keeps the newest lines', async () => {
  const text = `${'"\\'.repeat(4_000)}`;
  respond = printed(reversed(...Array.from({ length: 400 }, (_, index) => journal(index, `${index} ${text}`))));
  const { status, lines, bytes } = await get('/auth?limit=1000');
  assert.is(status, 200);
  assert.ok(bytes <= UNIT_LOG_BYTES && bytes > UNIT_LOG_BYTES / 2, `${bytes}`);
  assert.match(lines.at(-1)?.message ?? '', /^399 /);
});

test('a machine that does not respond is a 503, and its message is not logged', async () => {
  respond = () => Promise.reject(new SshError('command-failed', 'text of the machine'));
  assert.is((await get('/auth?limit=1')).status, 503);
  assert.match(logged.join(''), 'command-failed');
  assert.not.match(logged.join(''), 'text of the machine');
});

test('a command ends when the API closes the connection', async () => {
  let signal: AbortSignal | undefined;
  respond = (_args, _options, ends) => {
    signal = ends;
    return new Promise((_, reject) => ends.addEventListener('abort', () => reject(ends.reason)));
  };
  const outgoing = request({ socketPath, path: '/auth?limit=1' }).on('error', () => undefined);
  outgoing.end();
  await until(() => signal, 'the command runs');
  outgoing.destroy();
  const reason = await until(() => signal?.reason as Error | undefined, 'the command ends');
  assert.is(reason.message, 'The API closed the connection.');
});

test('two commands run at once, six wait, and further requests are a 503', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  respond = () => promise.then(() => ({ exitCode: 0, stdout: journal(1, 'x'), stderr: '' }));
  const statuses: number[] = [];
  const answers = Array.from({ length: 12 }, async () => statuses.push((await get('/auth?limit=1')).status));
  await until(() => statuses.length === 4, 'four are rejected');
  assert.equal([statuses, commands.length], [[503, 503, 503, 503], 2]);
  resolve();
  await Promise.all(answers);
  assert.is(statuses.filter((status) => status === 200).length, 8);
});

test.run();
