import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { harmsOf, type ServerLoad, type Stalls, type TenantSession } from './harm.js';

const QUIET: ServerLoad = { lockCapacity: 1000, predicateLockCapacity: 1000, retainedWal: 0, retainedWalLimit: 1000 };

const building: TenantSession = {
  pid: 1,
  startedAt: 'now',
  database: 'p-first',
  locks: 1,
  predicateLocks: 0,
  isIdleInTransaction: false,
  hasTransactionId: true,
  age: 1,
  blocksReader: true,
  progress: 'building index: sorting',
  showsProgress: true,
  waitsForClient: false,
};

/** The seconds after which a session that stands still is ended. */
function patienceFor(session: TenantSession): number {
  const stalls: Stalls = new Map();
  for (let seconds = 0; ; seconds++) if (harmsOf([session], QUIET, stalls, seconds * 1000).length > 0) return seconds;
}

test('a statement whose counters stand still has the patience of any statement when it works on', () => {
  assert.is(patienceFor(building), 60);
});

test('a COPY that stands still is ended early when it waits for its client', () => {
  assert.is(patienceFor({ ...building, waitsForClient: true }), 5);
});

test.run();
