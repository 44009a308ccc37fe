/** Tests the changes of a machine's record during a restore. Pure. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { afterDeletion, afterRestore, restoreAnswer } from './machine-restore.js';
import type { MachineRecord } from './record.js';

const restoring = JSON.stringify({ number: 3, snapshot: 'one', image: '7', diskGb: 40 });
const failure = JSON.stringify({ stage: 'boot', reason: 'MachineTimeout', message: 'too late' });
const recordOf = (change: Partial<MachineRecord>) => ({ hostKey: 'h', machineId: '1', ...change }) as MachineRecord;

test('afterDeletion forgets the host key of a machine that failed, and keeps that of a snapshot', () => {
  const failed = afterDeletion(recordOf({ failing: 'yes', failed: '1' }));
  assert.ok('hostKey' in failed);
  assert.is(failed.failed, '2');
  assert.not.ok('restored' in failed);
  const restored = afterDeletion(recordOf({ failing: 'restore', restoring, failed: '2' }));
  assert.not.ok('hostKey' in restored);
  assert.ok('failed' in restored && restored.failed === undefined, 'another request begins anew');
  assert.not.ok('restoring' in restored);
});

test('afterDeletion answers a restore that failed for the last time', () => {
  const record = recordOf({ failing: 'yes', restoring, failure });
  assert.not.ok('restored' in afterDeletion(record));
  const last = afterDeletion({ ...record, failed: '1' });
  const { number, snapshot, error } = restoreAnswer({ restored: last.restored as string }) ?? {};
  assert.equal([number, snapshot, error], [3, 'one', 'too late']);
  assert.not.ok('restoring' in last, 'the next machine is made from the snapshot too');
});

test('afterRestore answers the request', () => {
  assert.equal(afterRestore(recordOf({})), {});
  const change = afterRestore(recordOf({ restoring }));
  assert.ok('restoring' in change && change.restoring === undefined);
  assert.is(restoreAnswer({ restored: change.restored as string })?.number, 3);
});

test.run();
