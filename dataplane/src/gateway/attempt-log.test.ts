import { Writable } from 'node:stream';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { AttemptLog } from './attempt-log.js';

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
  const note = (path: string) => attempts.refused({ refused: 'invalid-key' }, attemptAt(path));
  return { attempts, lines, note };
}

test('of a flood in one second ten are named and the others counted, in one line', () => {
  const { attempts, lines, note } = newLog();
  for (let count = 0; count < 1000; count++) note('/todos');
  attempts.close();
  assert.equal(
    lines.map(({ reason, leftOut }) => reason ?? leftOut),
    [...Array(10).fill('invalid-key'), 990],
  );
});

test('what floods one project’s lines, its own services’ answers too, hides nobody else’s', () => {
  const { attempts, lines, note } = newLog();
  for (let count = 0; count < 1000; count++) attempts.answered(403, attemptAt('/hello', 'loud'));
  note('/todos');
  attempts.close();
  assert.equal(
    lines.map(({ ref, reason, leftOut }) => [ref, reason ?? leftOut]),
    [...Array(10).fill(['loud', 'by-the-service']), ['shop', 'invalid-key'], ['loud', 990]],
  );
});

test('over all projects a hundred are named in a second, and the others counted, in one line', () => {
  const { attempts, lines } = newLog();
  for (let count = 0; count < 1000; count++) {
    attempts.refused({ refused: 'invalid-key' }, attemptAt('/todos', `shop-${count}`));
  }
  attempts.close();
  assert.equal(
    lines.map(({ reason, leftOut }) => reason ?? leftOut),
    [...Array(100).fill('invalid-key'), 900],
  );
});

test('of a flood of failures in one second ten are named and the others counted, beside those who were refused', () => {
  const { attempts, lines, note } = newLog();
  for (let count = 0; count < 1000; count++)
    attempts.failed(new Error('it is away'), 'a service is away', attemptAt('/x'));
  note('/todos');
  attempts.close();
  assert.equal(
    lines.map(({ msg, leftOut }) => leftOut ?? msg),
    [...Array(10).fill('a service is away'), 'caller rejected', 990],
  );
  assert.is(lines[0]?.ref, 'shop');
  assert.match(JSON.stringify(lines[0]?.err), /it is away/);
});

test('after the second is over the next is named again', async () => {
  const { attempts, lines, note } = newLog();
  for (let count = 0; count < 11; count++) note('/todos');
  for (let tries = 0; tries < 500 && !lines.some(({ leftOut }) => leftOut === 1); tries++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  note('/after');
  attempts.close();
  assert.equal([lines.length, lines.at(-1)?.path], [12, '/after']);
});

test('what a service refused itself is a line too, and what it gave is none', () => {
  const { attempts, lines } = newLog();
  for (const status of [200, 401, 403, 404, 500]) attempts.answered(status, attemptAt('/todos'));
  attempts.close();
  assert.equal(
    lines.map(({ reason, status, path, address }) => [reason, status, path, address]),
    [401, 403].map((status) => ['by-the-service', status, '/todos', '192.0.2.1']),
  );
});

test('a line is short however long the path is, and holds no query', () => {
  const { attempts, lines, note } = newLog();
  note(`/${'x'.repeat(10_000)}`);
  attempts.close();
  const text = JSON.stringify(lines);
  assert.ok(text.length < 600, text);
  assert.not.match(text, /canary/);
});

test.run();
