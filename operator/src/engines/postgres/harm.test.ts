import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { HarmMemory, harmsOf, type ServerLoad, type TenantSession } from './harm.js';
import { sessionOf } from './tenant-session.testing.js';

const QUIET: ServerLoad = {
  connectionCapacity: 1000,
  serviceCapacity: 50,
  lockCapacity: 1000,
  predicateLockCapacity: 1000,
  memoryCapacity: 1000,
  temporaryFilesCapacity: 1000,
};

const restore = sessionOf('restore', 2);
const other: TenantSession = { ...restore, pid: 3, database: 'p-other' };

/** Puts each database into an account of its own. */
const strangers = (sessions: readonly TenantSession[]) =>
  sessions.map((session) => ({ ...session, account: session.database }));

/**
 * Returns the databases of the sessions that are ended after `looks` looks at the queue; `found` returns the sessions
 * of each look.
 */
function endedByQueue(found: (look: number) => TenantSession[], looks = 30): Set<string> {
  const memory = new HarmMemory();
  const ended = new Set<string>();
  for (let look = 0; look < looks; look++)
    for (const { session, reason } of harmsOf(found(look), QUIET, memory))
      if (reason === 'NotificationQueue') ended.add(session.database);
  return ended;
}
const unread = (share: number, page: number) => ({ unreadNotifications: { share, page: String(page) } });

test('a session is ended when half of the notification queue waits for it, and no other session is', () => {
  const holder = { ...other, ...unread(0.5, 0) };
  const found = () => [holder, restore, { ...restore, pid: 4, ...unread(0.49, 0) }];
  assert.equal(endedByQueue(found), new Set(['p-other']));
});

test('a session that advances in the notification queue is not ended, however much of the queue waits', () => {
  assert.equal(
    endedByQueue((look) => [{ ...other, ...unread(0.9, look >> 3) }]),
    new Set(),
  );
});

test('a session that is late in the notification queue only once is not ended', () => {
  const found = (look: number) => [look % 9 === 0 ? other : { ...other, ...unread(1, 0) }];
  assert.equal(endedByQueue(found), new Set());
});

for (const [amount, reason] of [
  ['memory', 'Memory'],
  ['temporaryFiles', 'TemporaryFiles'],
] as const) {
  test(`the largest session of an account is ended when the account exceeds its share of ${reason}`, () => {
    const sessions = [
      { ...restore, [amount]: 200 },
      { ...other, pid: 5, [amount]: 100 },
      { ...other, [amount]: 200 },
    ];
    const harms = harmsOf(strangers(sessions), QUIET, new HarmMemory());
    assert.equal(
      harms.map((harm) => [harm.session.pid, harm.reason]),
      [[other.pid, reason]],
    );
  });
}

test('growing sessions are ended until the others, with their growth by the next look, fit into memory', () => {
  const growing = Array.from({ length: 5 }, (_, n) => ({ ...other, pid: 10 + n, memory: 60, growth: 60 }));
  const ended = (sessions: readonly TenantSession[]) =>
    harmsOf(strangers(sessions), QUIET, new HarmMemory()).map(({ session }) => session.pid);
  assert.equal(ended(growing), [10, 11, 12]);
  assert.equal(ended(growing.map((each) => ({ ...each, growth: 0 }))), [10]);
  assert.equal(ended(growing.slice(0, 4)), []);
});

test('a service beyond its account’s share loses only its newest sessions', () => {
  const services = (account: string, count: number) =>
    Array.from({ length: count }, (_, n) => ({
      ...restore,
      pid: n,
      startedAt: String(100 + n),
      database: `p-${account}-${n % 3}`,
      account,
      isOwner: false,
    }));
  const sessions = [...services('crowd', 22), ...services('other', 20), { ...restore, account: 'crowd' }];
  assert.equal(
    harmsOf(sessions, QUIET, new HarmMemory()).map(({ session, reason }) => [session.account, session.pid, reason]),
    [
      ['crowd', 21, 'ServiceConnections'],
      ['crowd', 20, 'ServiceConnections'],
    ],
  );
  const small = { ...QUIET, serviceCapacity: 20 };
  assert.equal(harmsOf(services('small', 16), small, new HarmMemory()), []);
  assert.is(harmsOf(services('small', 17), small, new HarmMemory()).length, 1);
});

test('an automatic ANALYZE is ended after five minutes, and counts as no connection of a service', () => {
  const analyzing = (pid: number, analyzeMs: number | null): TenantSession => ({
    ...{ ...restore, pid, analyzeMs, role: null, isOwner: false },
  });
  const workers = [analyzing(5, 300_000), analyzing(6, 299_999), analyzing(7, null)];
  const endedOf = (sessions: readonly TenantSession[]) =>
    harmsOf(sessions, QUIET, new HarmMemory()).map(({ session, reason }) => [session.pid, reason]);
  assert.equal(endedOf(workers), [[5, 'LongAnalyze']]);
  const services = Array.from({ length: 20 }, (_, n) => ({ ...restore, pid: 10 + n, isOwner: false }));
  assert.equal(endedOf([...services, ...workers.slice(1)]), []);
});

test('the projects of one account share one limit', () => {
  const sessions = [
    { ...restore, locks: 200 },
    { ...restore, pid: 9, database: 'p-another', locks: 100 },
  ];
  assert.equal(harmsOf(strangers(sessions), QUIET, new HarmMemory()), []);
  assert.equal(
    harmsOf(sessions, QUIET, new HarmMemory()).map(({ session, reason }) => [session.pid, reason]),
    [[restore.pid, 'LockTable']],
  );
});

test.run();
