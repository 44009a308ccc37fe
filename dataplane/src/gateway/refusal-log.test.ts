import { Writable } from 'node:stream';
import { pino } from 'pino';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { RefusalLog } from './refusal-log.js';

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
  const refusals = new RefusalLog(pino({ level: 'info' }, sink));
  const note = (path: string) => refusals.note({ refused: 'invalid-key' }, attemptAt(path));
  return { refusals, lines, note };
}

test('of a flood in one second ten are named and the others counted, in one line', () => {
  const { refusals, lines, note } = newLog();
  for (let count = 0; count < 1000; count++) note('/todos');
  refusals.close();
  assert.equal(
    lines.map(({ reason, leftOut }) => reason ?? leftOut),
    [...Array(10).fill('invalid-key'), 990],
  );
});

test('what floods one project’s lines, its own services’ answers too, hides nobody else’s', () => {
  const { refusals, lines, note } = newLog();
  for (let count = 0; count < 1000; count++) refusals.noteAnswer(403, attemptAt('/hello', 'loud'));
  note('/todos');
  refusals.close();
  assert.equal(
    lines.map(({ ref, reason, leftOut }) => [ref, reason ?? leftOut]),
    [...Array(10).fill(['loud', 'by-the-service']), ['shop', 'invalid-key'], ['loud', 990]],
  );
});

test('over all projects a hundred are named in a second, and the others counted, in one line', () => {
  const { refusals, lines } = newLog();
  for (let count = 0; count < 1000; count++) {
    refusals.note({ refused: 'invalid-key' }, attemptAt('/todos', `shop-${count}`));
  }
  refusals.close();
  assert.equal(
    lines.map(({ reason, leftOut }) => reason ?? leftOut),
    [...Array(100).fill('invalid-key'), 900],
  );
});

test('after the second is over the next is named again', async () => {
  const { refusals, lines, note } = newLog();
  for (let count = 0; count < 11; count++) note('/todos');
  for (let tries = 0; tries < 500 && !lines.some(({ leftOut }) => leftOut === 1); tries++) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  note('/after');
  refusals.close();
  assert.equal([lines.length, lines.at(-1)?.path], [12, '/after']);
});

test('what a service refused itself is a line too, and what it gave is none', () => {
  const { refusals, lines } = newLog();
  for (const status of [200, 401, 403, 404, 500]) refusals.noteAnswer(status, attemptAt('/todos'));
  refusals.close();
  assert.equal(
    lines.map(({ reason, status, path, address }) => [reason, status, path, address]),
    [401, 403].map((status) => ['by-the-service', status, '/todos', '192.0.2.1']),
  );
});

test('a line is short however long the path is, and holds no query', () => {
  const { refusals, lines, note } = newLog();
  note(`/${'x'.repeat(10_000)}`);
  refusals.close();
  const text = JSON.stringify(lines);
  assert.ok(text.length < 600, text);
  assert.not.match(text, /canary/);
});

test.run();
