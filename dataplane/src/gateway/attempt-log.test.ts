import { Writable } from 'node:stream';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { TokenProblem } from '../identity/tokens.js';
import { AttemptLog } from './attempt-log.js';

const INVALID_KEY = { refused: 'invalid-key', problem: new TokenProblem('signature') } as const;

const attemptAt = (path: string, ref = 'shop') => ({
  ref,
  place: { service: 'rest', path, query: 'apikey=canary' },
  requestId: '1-1',
  method: 'GET',
  address: '192.0.2.1',
});

function newLog() {
  const lines: Record<string, unknown>[] = [];
  const sink = new Writable({ write: (line, _, done) => done(void lines.push(JSON.parse(String(line)))) });
  const attempts = new AttemptLog(pino({ level: 'info' }, sink));
  const note = (path: string) => attempts.refused(INVALID_KEY, attemptAt(path));
  return { attempts, lines, note };
}

test('a flood of rejections logs ten lines in a second, and one line with the number of the others', () => {
  const { attempts, lines, note } = newLog();
  for (let count = 0; count < 1000; count++) note('/todos');
  attempts.close();
  assert.equal(
    lines.map(({ reason, leftOut }) => reason ?? leftOut),
    [...Array(10).fill('invalid-key'), 990],
  );
});

test('a flood of one project’s lines drops no line of another project', () => {
  const { attempts, lines, note } = newLog();
  for (let count = 0; count < 1000; count++)
    attempts.answered({ status: 403, code: undefined }, attemptAt('/hello', 'loud'));
  note('/todos');
  attempts.close();
  assert.equal(
    lines.map(({ ref, reason, leftOut }) => [ref, reason ?? leftOut]),
    [...Array(10).fill(['loud', 'by-the-service']), ['shop', 'invalid-key'], ['loud', 990]],
  );
});

test('rejections of all projects together log a hundred lines in a second, and the number of the others', () => {
  const { attempts, lines } = newLog();
  for (let count = 0; count < 1000; count++) {
    attempts.refused(INVALID_KEY, attemptAt('/todos', `shop-${count}`));
  }
  attempts.close();
  assert.equal(
    lines.map(({ reason, leftOut }) => reason ?? leftOut),
    [...Array(100).fill('invalid-key'), 900],
  );
});

test('a flood of failures logs ten lines in a second and the number of the others, apart from rejections', () => {
  const { attempts, lines, note } = newLog();
  for (let count = 0; count < 1000; count++)
    attempts.failed(new Error('no connection'), 'service unreachable', attemptAt('/x'));
  note('/todos');
  attempts.close();
  assert.equal(
    lines.map(({ msg, leftOut }) => leftOut ?? msg),
    [...Array(10).fill('service unreachable'), 'caller rejected', 990],
  );
  assert.is(lines[0]?.ref, 'shop');
  assert.match(JSON.stringify(lines[0]?.err), /no connection/);
});

test('the next rejection is logged after the second has passed', async () => {
  const { attempts, lines, note } = newLog();
  for (let count = 0; count < 11; count++) note('/todos');
  for (let tries = 0; tries < 500 && !lines.some(({ leftOut }) => leftOut === 1); tries++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  note('/after');
  attempts.close();
  assert.equal([lines.length, lines.at(-1)?.path], [12, '/after']);
});

test('a rejection by a service is logged, and a success is not', () => {
  const { attempts, lines } = newLog();
  for (const status of [200, 401, 403, 404, 500]) attempts.answered({ status, code: undefined }, attemptAt('/todos'));
  attempts.close();
  assert.equal(
    lines.map(({ reason, status, path, address }) => [reason, status, path, address]),
    [401, 403].map((status) => ['by-the-service', status, '/todos', '192.0.2.1']),
  );
});

test('a logged path has a maximum length and no query', () => {
  const { attempts, lines, note } = newLog();
  note(`/${'x'.repeat(10_000)}`);
  attempts.close();
  const text = JSON.stringify(lines);
  assert.ok(text.length < 600, text);
  assert.not.match(text, /canary/);
});

test.run();
