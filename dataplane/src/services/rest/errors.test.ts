import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { ConnectionError, DatabaseError, PoolBusyError } from '../../sql/pool.js';
import { toRestError } from './errors.js';

const test = suite('errors');

const STATUSES: [sqlstate: string, status: number][] = [
  ['08006', 503],
  ['23503', 409],
  ['23505', 409],
  ['23502', 400],
  ['25006', 405],
  ['25001', 500],
  ['28000', 403],
  ['40001', 500],
  ['42501', 403],
  ['42703', 400],
  ['42883', 404],
  ['42P01', 404],
  ['42P17', 500],
  ['53300', 503],
  ['53400', 500],
  ['54001', 500],
  ['57014', 500],
  ['57P01', 503],
  ['P0001', 400],
  ['P0002', 500],
  ['PT418', 418],
  ['PT999', 999],
  ['PTabc', 500],
  ['XX000', 500],
  ['22P02', 400],
  ['21000', 500],
];
for (const [code, status] of STATUSES)
  test(`SQLSTATE ${code} becomes status ${status}`, () =>
    assert.is(toRestError(new DatabaseError('m', code), false).status, status));

test('a missing privilege returns 401 without a user, and 403 with a user', () => {
  const error = toRestError(new DatabaseError('permission denied for table x', '42501'), true);
  assert.equal([error.status, error.headers['WWW-Authenticate']], [401, 'Bearer']);
});

test('an unreachable database and a full queue are errors that the caller may retry', () => {
  assert.equal(
    [
      toRestError(new ConnectionError('x', true), false).status,
      toRestError(new ConnectionError('x', true), false).code,
    ],
    [503, 'PGRST000'],
  );
  assert.equal(
    [toRestError(new PoolBusyError(3), false).status, toRestError(new PoolBusyError(3), false).code],
    [504, 'PGRST003'],
  );
});

test('a database that is out of resources or unreachable returns 503 with Retry-After', () => {
  for (const error of [new DatabaseError('out of shared memory', '53200'), new ConnectionError('x', true)]) {
    const { status, headers } = toRestError(error, false);
    assert.equal([status, headers['Retry-After']], [503, '1']);
  }
});

test('a raised PGRST error with malformed JSON returns PGRST121', () => {
  assert.is(toRestError(new DatabaseError('plain', 'PGRST'), false).code, 'PGRST121');
  assert.is(
    toRestError(new DatabaseError('{"code":"1","message":"m"}', 'PGRST'), false).details,
    'DETAIL is missing in the RAISE statement',
  );
});

test.run();
