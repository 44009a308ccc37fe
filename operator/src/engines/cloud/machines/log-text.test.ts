/** Tests how lines of units are read and redacted. Their texts are those of the programs on a machine. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type JournalEntry, unitLines } from './log-text.js';

const AT = '2026-11-29T10:00:00.000Z';
const entry = (message: string, priority = 6): JournalEntry => ({ time: Date.parse(AT), priority, message });
const read = (unit: Parameters<typeof unitLines>[0], ...messages: string[]) =>
  unitLines(
    unit,
    messages.map((message) => entry(message)),
  ).map(({ level, message }) => [level, message]);
const postgres = (level: string, text: string) => `2026-11-29 10:00:00.531 UTC [974] ${level}:  ${text}`;

test('a line of a service has its level, message and fields', () => {
  const line = {
    level: 40,
    time: 1,
    pid: 2,
    hostname: 'h',
    path: '/token',
    status: 400,
    err: { a: 1 },
    msg: 'rejected',
  };
  const [shown] = unitLines('auth', [entry(JSON.stringify(line))]);
  assert.equal(shown, { time: AT, level: 'warn', message: 'rejected path=/token status=400 err={"a":1}' });
  const levels = [10, 20, 30, 40, 50, 60].map((level) => read('auth', JSON.stringify({ level, msg: 'm' }))[0]?.[0]);
  assert.equal(levels, ['debug', 'debug', 'info', 'warn', 'error', 'error']);
});

test('a line that is not of the logger has the priority of the journal', () => {
  for (const text of ['Error: no memory', '{"level":"x","msg":"m"}', '{"level":30', '[1]', '{}', 'null']) {
    const shown = unitLines(
      'auth',
      [0, 3, 4, 5, 6, 7].map((priority) => entry(text, priority)),
    );
    assert.equal(
      shown.map(({ level }) => level),
      ['error', 'error', 'warn', 'info', 'info', 'debug'],
      text,
    );
    assert.is(shown[0]?.message, text);
  }
});

test('a line of nginx has its level, and no query of an address', () => {
  const start = '2026/11/29 10:00:00 [crit] 876#876: *17 connect() failed';
  const request = 'request: "GET /rest/v1/x?apikey=abc&a=b HTTP/1.1", referrer: "https://a.example/?code=xyz"';
  assert.equal(read('nginx', `${start}, ${request}`), [
    [
      'error',
      '876#876: *17 connect() failed, request: "GET /rest/v1/x?[redacted] HTTP/1.1", ' +
        'referrer: "https://a.example/?[redacted]"',
    ],
  ]);
  assert.equal(
    ['warn', 'notice', 'emerg'].map((level) => read('nginx', `2026/11/29 10:00:00 [${level}] x`)[0]?.[0]),
    ['warn', 'info', 'error'],
  );
});

test('lines of Postgres have their level, and no statement, detail or context', () => {
  const lines = read(
    'postgres',
    '\tthe end of a statement that was not read',
    "password 'first'",
    postgres('LOG', 'ready'),
    postgres('ERROR', 'role "a" does not exist'),
    '\tand its second line',
    postgres('DETAIL', 'Failing row contains (secret-row).'),
    '\tmore-of-the-row',
    postgres('HINT', 'Create it.'),
    postgres('STATEMENT', "alter role a password 'one'"),
    "\tpassword 'two'",
    postgres('STATEMENT', ''),
    "password 'three'",
    postgres('CONTEXT', "portal with parameters: $1 = 'four'"),
    postgres('FATAL', 'password authentication failed for user "a"'),
    postgres('DEBUG1', 'x'),
  );
  assert.equal(lines, [
    ['info', 'LOG: ready'],
    ['error', 'ERROR: role "a" does not exist\nand its second line'],
    ['error', 'HINT: Create it.'],
    ['error', 'FATAL: password authentication failed for user "a"'],
    ['debug', 'DEBUG1: x'],
  ]);
});

test('statements that a setting of Postgres logs are redacted', () => {
  const texts = [
    "statement: alter role a password 'one'",
    'duration: 12.5 ms  statement: select 1',
    "duration: 1.250 ms  execute <unnamed>: select 'two'",
    "bind s1: select 'three'",
  ];
  for (const text of texts) {
    const [line] = read('postgres', postgres('LOG', text), '\tfrom accounts');
    assert.is(line?.[1], `LOG: ${text.slice(0, text.lastIndexOf(':') + 1)} [redacted]`);
  }
  assert.is(
    read('postgres', postgres('LOG', 'checkpoint complete: wrote 10'))[0]?.[1],
    'LOG: checkpoint complete: wrote 10',
  );
});

test('control characters are replaced, and a message is cut', () => {
  assert.equal(read('auth', 'a\u001b[31m\u0000b\r\nc\td\ud800'), [['info', 'a [31m b \nc\td\ufffd']]);
  assert.is(read('auth', 'x '.repeat(100_000))[0]?.[1]?.length, 8 * 1024);
});

test('hostile messages are read in time that grows with their length alone', () => {
  const hostile = [
    'eyJ',
    'eyJ-',
    'a://',
    '@',
    'token=',
    'token:"',
    'Bearer ',
    '?',
    '2026-11-29 ',
    'password ',
    '{"a":',
  ];
  const pieces = hostile.map((text) => text.repeat(2 ** 16));
  const timeOf = (copies: number) => {
    const begun = process.cpuUsage();
    for (const text of pieces) {
      const entries = Array.from({ length: copies }, () => entry(text));
      for (const unit of ['auth', 'nginx', 'postgres'] as const) unitLines(unit, entries);
    }
    return process.cpuUsage(begun).user;
  };
  timeOf(1);
  // A backtracking expression needs minutes for one of them.
  assert.ok(timeOf(4) < 5_000_000);
});

test.run();
