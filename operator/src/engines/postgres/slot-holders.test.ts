import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { TenantSession } from './harm.js';
import { type Slot, SlotHolders, type Write } from './slot-holders.js';
import { sessionOf } from './tenant-session.testing.js';

const LIMIT = 1000;
const holder = sessionOf('holder', 1);
const beingMade: Slot = { database: 'p-reader', restart: 0, confirmed: 0, isBeingMade: true };

interface Second {
  sessions?: TenantSession[];
  slots?: Slot[];
  position?: number;
  /** The writes that the log shows in this second. Undefined: the log was not read. */
  writes?: Write[] | 'unknown';
}

/** Looks once a second. Returns the first session that is ended, with its second. */
function firstEnd(seconds: number, at: (second: number) => Second) {
  const holders = new SlotHolders();
  for (let second = 0; second <= seconds; second++) {
    const { sessions = [holder], slots = [beingMade], position = 0, writes } = at(second);
    const [harm] = holders.look(sessions, { slots, position, limit: LIMIT }, second * 1000);
    if (harm) return { second, reason: harm.reason, pid: harm.session.pid };
    if (writes) holders.wrote(writes === 'unknown' ? undefined : writes, second * 1000);
  }
  return undefined;
}
const MINUTE = 60;
const write = (transactionId: string, database: string | null = null): Write => ({ transactionId, database });

test('a transaction is ended after a minute without a write, even if it sends SELECT 1 each second', () => {
  const end = firstEnd(60 * MINUTE, () => ({ writes: [write('8', 'p-other')] }));
  assert.equal(end, { second: MINUTE, reason: 'IdleTransaction', pid: 1 });
});

test('a restore of 25 minutes that writes once in 50 seconds is not ended', () => {
  const at = (second: number) => ({ writes: second % 50 === 0 ? [write('7')] : [] });
  assert.is(firstEnd(25 * MINUTE, at), undefined);
});

test('a transaction that delays a slot is ended after 30 minutes, even if it keeps writing', () => {
  const end = firstEnd(60 * MINUTE, () => ({ writes: [write('7')] }));
  assert.equal(end, { second: 30 * MINUTE, reason: 'LongTransaction', pid: 1 });
});

test('a write of a subtransaction counts only for the transactions of its database', () => {
  assert.is(
    firstEnd(5 * MINUTE, () => ({ writes: [write('9', holder.database)] })),
    undefined,
  );
  assert.is(firstEnd(5 * MINUTE, () => ({ writes: [write('9', 'p-other')] }))?.reason, 'IdleTransaction');
});

test('a write counts only for its own transaction, not for others of the same database', () => {
  const writer = { ...holder, pid: 2, transactionId: '9' };
  const at = () => ({ sessions: [holder, writer], writes: [write('9', holder.database)] });
  assert.equal(firstEnd(5 * MINUTE, at), { second: MINUTE, reason: 'IdleTransaction', pid: 1 });
});

test('no transaction is ended as idle while its writes are unknown', () => {
  assert.is(
    firstEnd(29 * MINUTE, () => ({ writes: 'unknown' })),
    undefined,
  );
});

test('a transaction is charged only for the time in which it delays a slot', () => {
  const at = (second: number) => ({ slots: second % 50 === 49 ? [] : [beingMade] });
  assert.is(firstEnd(60 * MINUTE, at), undefined);
});

test('no transaction is ended that has no transaction id or delays no slot of another project', () => {
  const own = { ...beingMade, database: holder.database };
  assert.is(
    firstEnd(60 * MINUTE, () => ({ slots: [own] })),
    undefined,
  );
  assert.is(
    firstEnd(60 * MINUTE, () => ({ slots: [] })),
    undefined,
  );
  assert.is(
    firstEnd(60 * MINUTE, () => ({ sessions: [{ ...holder, transactionId: null }] })),
    undefined,
  );
});

test('a transaction is ended when a slot keeps half of its maximum log for it, and a later one is not', () => {
  const late = { ...holder, pid: 2, transactionId: '8' };
  const at = (second: number) => ({
    sessions: second < 10 ? [holder] : second === 10 ? [holder, late] : [late],
    slots: [{ ...beingMade, isBeingMade: false, confirmed: Math.min(second * 49, 490) }],
    position: Math.min(second * 49, 490),
  });
  assert.is(firstEnd(60 * MINUTE, at), undefined);
  const slots = (second: number) => [{ ...beingMade, isBeingMade: false, confirmed: second * 51 }];
  const end = firstEnd(60 * MINUTE, (second) => ({ slots: slots(second), position: second * 51 }));
  assert.equal(end, { second: 10, reason: 'WalRetained', pid: 1 });
});

test('a connected slot that keeps little log causes no end of a transaction', () => {
  const slots = [{ ...beingMade, isBeingMade: false, confirmed: 60 }];
  assert.is(
    firstEnd(60 * MINUTE, () => ({ slots })),
    undefined,
  );
  const more = [{ ...beingMade, isBeingMade: false, confirmed: 63 }];
  assert.is(firstEnd(60 * MINUTE, () => ({ slots: more }))?.reason, 'IdleTransaction');
});

test('an excused session, which waits for another project, gets a new minute', () => {
  const holders = new SlotHolders();
  const look = (second: number) =>
    holders.look([holder], { slots: [beingMade], position: 0, limit: LIMIT }, second * 1000);
  look(0);
  assert.is(look(MINUTE).length, 1);
  holders.excuse(holder, MINUTE * 1000);
  assert.is(look(2 * MINUTE - 1).length, 0);
  assert.is(look(2 * MINUTE).length, 1);
});

test.run();
