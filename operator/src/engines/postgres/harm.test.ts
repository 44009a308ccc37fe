import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { harmsOf, type ServerLoad, type Stalls, type TenantSession } from './harm.js';

const QUIET: ServerLoad = {
  connectionCapacity: 1000,
  lockCapacity: 1000,
  predicateLockCapacity: 1000,
  memoryCapacity: 1000,
  temporaryFilesCapacity: 1000,
  queueUsage: 0,
  queueGrowth: 0,
  retainedWal: 0,
  retainedWalLimit: 1000,
};

const building: TenantSession = {
  pid: 1,
  startedAt: 'now',
  database: 'p-first',
  account: 'first@example.com',
  role: 'postgres.first',
  isOwner: true,
  locks: 1,
  predicateLocks: 0,
  memory: 0,
  temporaryFiles: 0,
  sendsNotifications: false,
  isInTransaction: true,
  transactionAge: 1,
  isIdleInTransaction: false,
  hasTransactionId: true,
  age: 1,
  blocksReader: true,
  progress: 'building index: sorting',
  showsProgress: true,
  waitsForClient: false,
};

/** Each database is of an account of its own. */
const strangers = (sessions: readonly TenantSession[]) =>
  sessions.map((session) => ({ ...session, account: session.database }));

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

const restore: TenantSession = {
  ...building,
  pid: 2,
  database: 'p-restore',
  blocksReader: false,
  transactionAge: 1800,
};
const listener: TenantSession = {
  ...restore,
  pid: 3,
  database: 'p-listener',
  hasTransactionId: false,
  transactionAge: 9,
};
const sender: TenantSession = {
  ...listener,
  pid: 4,
  database: 'p-sender',
  sendsNotifications: true,
  transactionAge: 0,
};
/** A restore between two tables: nothing of it shows progress. */
const betweenTables = { ...restore, showsProgress: false };

const QUEUES: [string, TenantSession[], Partial<ServerLoad>, string[]][] = [
  ['nobody is ended while the queue is small', [sender, listener], { queueUsage: 0.2, queueGrowth: 0.1 }, []],
  [
    'the database that floods the queue loses its senders and its transactions, and no other does',
    [sender, { ...listener, database: 'p-sender' }, restore, listener],
    { queueUsage: 0.3, queueGrowth: 0.1 },
    ['p-sender', 'p-sender'],
  ],
  [
    'a notification of an app is no flood, though another keeps the queue',
    [sender, listener],
    { queueUsage: 0.3, queueGrowth: 0.0001 },
    [],
  ],
  [
    'a listener in a transaction is ended before a restore that is older',
    [betweenTables, { ...listener, showsProgress: false }],
    { queueUsage: 0.8 },
    ['p-listener'],
  ],
  ['a restore that copies rows is not ended for the queue', [restore], { queueUsage: 0.9 }, []],
];

for (const [promise, sessions, load, ended] of QUEUES) {
  test(promise, () => {
    const harms = harmsOf(strangers(sessions), { ...QUIET, ...load }, new Map(), 0);
    assert.equal(
      harms.map(({ session }) => session.database),
      ended,
    );
  });
}

for (const [amount, reason] of [
  ['memory', 'Memory'],
  ['temporaryFiles', 'TemporaryFiles'],
] as const) {
  test(`the largest session of an account is ended when the account has too large a share: ${reason}`, () => {
    const sessions = [
      { ...restore, [amount]: 200 },
      { ...sender, pid: 5, [amount]: 100 },
      { ...sender, [amount]: 200 },
    ];
    const harms = harmsOf(strangers(sessions), QUIET, new Map(), 0);
    assert.equal(
      harms.map((harm) => [harm.session.pid, harm.reason]),
      [[sender.pid, reason]],
    );
  });
}

test('projects of one account have one share together', () => {
  const sessions = [
    { ...restore, locks: 200 },
    { ...restore, pid: 9, database: 'p-another', locks: 100 },
  ];
  assert.equal(harmsOf(strangers(sessions), QUIET, new Map(), 0), []);
  assert.equal(
    harmsOf(sessions, QUIET, new Map(), 0).map(({ session, reason }) => [session.pid, reason]),
    [[restore.pid, 'LockTable']],
  );
});

test.run();
