import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { FunctionLog, LineSplitter, newestOf, OutputMeter } from './logs.js';

const LIMITS = { logLines: 1_000, logLineBytes: 4_096, logBytes: 1024 * 1024 };

test('a line splitter forwards the last lines of a chunk beyond its limit, and counts the others', () => {
  const seen: string[] = [];
  const dropped: number[] = [];
  const splitter = new LineSplitter(
    { longest: 100, most: 3 },
    (line) => seen.push(line),
    (count) => dropped.push(count),
  );
  assert.is(splitter.push(Buffer.from('a\nb\nc\nd\ne\nf')), 5);
  assert.equal([seen, dropped], [['c', 'd', 'e'], [2]]);
  assert.is(splitter.push(Buffer.from('g\nh\ni\n')), 3);
  assert.equal([seen.slice(3), dropped], [['fg', 'h', 'i'], [2]]);
  assert.is(splitter.push(Buffer.from('\n'.repeat(65_536))), 65_536);
  assert.equal([seen.length, dropped], [9, [2, 65_533]]);
});

test('a line splitter forwards the marked line of a chunk even if it exceeds its limit afterwards', () => {
  for (const before of ['', 'a\n']) {
    const seen: string[] = [];
    const splitter = new LineSplitter(
      { longest: 100, most: 2, mark: 'token ' },
      (line) => seen.push(line),
      () => undefined,
    );
    splitter.push(Buffer.from(`${before}token serves\nb token \nc\nd\n`));
    splitter.push(Buffer.from('e\nf\ng\n'));
    assert.equal(seen, ['token serves', 'c', 'd', 'f', 'g']);
  }
});

test('a log meter charges a flood of short lines as much as a flood of long lines', () => {
  const pauseOf = (bytes: number, lines: number) => new OutputMeter(1_024).charge(bytes, lines);
  assert.ok(pauseOf(10_000, 10_000) > 100 * pauseOf(10_000, 1));
  assert.is(pauseOf(1, 0), 0);
});

test('a log meter admits output again after the time that it has charged', () => {
  let now = 10_000;
  const meter = new OutputMeter(1_024, () => now);
  const pause = meter.charge(10_240, 0);
  assert.is(pause, 9_000);
  now += pause / 2;
  assert.ok(meter.charge(1_024, 0) > 0);
  now = 60_000;
  assert.is(meter.charge(1_024, 0), 0);
});

test('a log keeps its newest lines within its limit of bytes, whatever the characters', () => {
  const log = new FunctionLog(LIMITS);
  for (let n = 0; n < 3_000; n++) log.add('info', 1, '\u{4e16}'.repeat(4_096));
  const lines = log.read();
  const bytes = lines.reduce((sum, { message }) => sum + 2 * message.length, 0);
  assert.ok(bytes <= LIMITS.logBytes);
  assert.is(lines.at(-1)?.sequence, 3_000);
  log.add('info', 1, 'x');
  assert.is(log.read().at(-1)?.message, 'x');
});

test('lines of several functions are in the order of time, and limited in number and bytes', () => {
  let second = 0;
  const now = () => new Date(Date.UTC(2026, 0, 5, 10, 0, (second += 1)));
  const limits = { logLines: 1_000, logLineBytes: 4_096, logBytes: 16 * 1024 * 1024 };
  const [a, b] = [new FunctionLog(limits, now), new FunctionLog(limits, now)];
  a.add('info', 1, 'one');
  b.add('error', 2, 'two');
  a.add('info', 1, 'three');
  const logs = [
    { name: 'a', log: a },
    { name: 'b', log: b },
  ];
  assert.equal(
    newestOf(logs, 9).map((line) => [line.function, line.message]),
    [
      ['a', 'one'],
      ['b', 'two'],
      ['a', 'three'],
    ],
  );
  assert.equal(
    newestOf(logs, 2).map(({ message }) => message),
    ['two', 'three'],
  );
  // Six bytes each in JSON.
  for (let line = 0; line < 100; line += 1) b.add('info', 2, '\u0001'.repeat(4_000));
  const many = newestOf(logs, 1_000);
  assert.ok(many.length < 50 && many.length > 30, String(many.length));
  assert.ok(JSON.stringify(many).length <= 1024 * 1024);
});

test.run();
