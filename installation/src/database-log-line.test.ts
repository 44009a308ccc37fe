/** Tests which messages of Postgres an owner reads, and in which form. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type DatabaseMessage, databaseLineOf } from './database-log-line.js';

const record = (more: Partial<DatabaseMessage> = {}): DatabaseMessage => ({
  severity: 'ERROR',
  message: 'm',
  database: 'p-db_one',
  user: 'authenticator.db_one',
  ...more,
});

test('a line has the level, message, code and role, and no statement, detail or context', () => {
  const secrets = { detail: 'canary', hint: 'canary', context: 'canary', statement: 'canary', internalQuery: 'canary' };
  assert.equal(databaseLineOf({ ...secrets, ...record({ code: '42P01', message: 'no table' }) }), {
    id: 'db_one',
    level: 'error',
    message: 'no table',
    code: '42P01',
    role: 'authenticator.db_one',
  });
  const levels = ['LOG', 'NOTICE', 'WARNING', 'ERROR', 'FATAL', 'PANIC'].map(
    (severity) => databaseLineOf(record({ severity }))?.level,
  );
  assert.equal(levels, ['info', 'info', 'warn', 'error', 'error', 'error']);
});

test('a message is redacted, made printable and cut', () => {
  const messageOf = (message: string, severity = 'LOG') => databaseLineOf(record({ message, severity }))?.message;
  assert.is(
    messageOf("duration: 1.2 ms  statement: alter role a password 'x'"),
    'duration: 1.2 ms  statement: [redacted]',
  );
  assert.is(messageOf('at postgresql://a:secret@h/x', 'ERROR'), 'at postgresql://[redacted]@h/x');
  assert.is(messageOf('a\u001b[31m', 'ERROR'), 'a [31m');
  assert.is(messageOf('x '.repeat(100_000), 'ERROR')?.length, 1_000);
  assert.is(databaseLineOf(record({ user: `${'r'.repeat(200)}\n` }))?.role, 'r'.repeat(100));
});

test('messages of the superuser, of replication and of databases that are not of projects have no line', () => {
  assert.is(databaseLineOf(record({ user: 'slipway' })), undefined);
  assert.is(databaseLineOf(record({ user: 'slipway_realtime' })), undefined);
  for (const database of ['postgres', 'slipway', '', 'db_one', 'p-', "p-x' OR true --", 'p-a\np-db_one']) {
    assert.is(databaseLineOf(record({ database })), undefined, database);
  }
  const { database: _, ...without } = record();
  assert.is(databaseLineOf(without), undefined);
});

test('the first try of several statements by /query has no line', () => {
  const message = 'cannot insert multiple commands into a prepared statement';
  assert.is(databaseLineOf(record({ message, application: 'slipway-query' })), undefined);
  assert.is(databaseLineOf(record({ message, application: 'psql' }))?.message, message);
  assert.is(databaseLineOf(record({ application: 'slipway-query' }))?.message, 'm');
});

test.run();
