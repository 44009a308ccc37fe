/**
 * Decides which tenants' sessions harm a server that others share. In: what a look at the server found, and what
 * earlier looks remembered. Out: the sessions to end, each with a reason. Pure. Used by SessionWatch.
 *
 * A session is judged by what it takes from others, never by its age: a restore of half an hour holds few locks and
 * moves on.
 */

export interface TenantSession {
  pid: number;
  /** With `pid`, one session and no later one of the same number. */
  startedAt: string;
  database: string;
  /** The account that owns the project; its projects share one budget. */
  account: string;
  role: string;
  /** Logged in as `db_url` does. */
  isOwner: boolean;
  /** Entries in the server's lock table: advisory locks, and locks on tables, rows and large objects. */
  locks: number;
  /** Entries in the table of predicate locks, which serializable transactions take. */
  predicateLocks: number;
  /** Bytes of memory that it shares with no other process, and of its temporary files. */
  memory: number;
  temporaryFiles: number;
  /** Puts notifications into the queue, or waits for its turn. */
  sendsNotifications: boolean;
  isInTransaction: boolean;
  /** Seconds ago that its transaction began; 0 outside of one. */
  transactionAge: number;
  /** In a transaction, and without a statement. */
  isIdleInTransaction: boolean;
  hasTransactionId: boolean;
  /** Whole transactions ago that its own began. */
  age: number;
  /**
   * The reader of changes waits for its transaction to end, directly or through others, and the session itself waits
   * for no lock.
   */
  blocksReader: boolean;
  /** Differs from the last look's when the session did something: began a statement, copied rows, built an index. */
  progress: string;
  /** Copies rows or builds an index, whose progress Postgres shows. */
  showsProgress: boolean;
  /** Waits until its client sends or reads. */
  waitsForClient: boolean;
}

export interface ServerLoad {
  connectionCapacity: number;
  lockCapacity: number;
  predicateLockCapacity: number;
  /** Bytes for the server's sessions together. */
  memoryCapacity: number;
  temporaryFilesCapacity: number;
  /** Used share of the notification queue, and how much of it was used since the last look. */
  queueUsage: number;
  queueGrowth: number;
  /**
   * Bytes of log that a slot holds back though its connected reader has confirmed them (so for a transaction), and the
   * most it may.
   */
  retainedWal: number;
  retainedWalLimit: number;
}

export type HarmReason =
  | 'Connections'
  | 'LockTable'
  | 'PredicateLocks'
  | 'Memory'
  | 'TemporaryFiles'
  | 'NotificationQueue'
  | 'ReplicationBlocked'
  | 'WalRetained';

export interface Harm {
  session: TenantSession;
  reason: HarmReason;
}

/**
 * Shares of connections, locks, memory or temporary files: the most that one account's sessions may have, and the most
 * that all may have before those of the largest account are ended.
 */
const SHARE_OF_ONE = 0.25;
const SHARE_OF_ALL = 0.7;
/**
 * Shares of the queue: above the first the sender is ended, above the second the session with the oldest transaction,
 * which may be the listener that blocks the queue.
 */
const SHARE_OF_QUEUE = 0.25;
const MOST_OF_QUEUE = 0.75;
/** Share of the queue that counts as a flood between two looks. One notification of an app takes a millionth. */
const FLOOD = 0.005;
/** Share of the WAL that a slot may hold back, after which Postgres invalidates the slot. */
const SHARE_OF_WAL = 0.5;
/** How long others wait for a transaction that does nothing, and for one whose statement shows no progress. */
const IDLE_PATIENCE_MS = 5_000;
const STATEMENT_PATIENCE_MS = 60_000;

/** Since when a session harms others without any progress. */
export type Stalls = Map<string, { since: number; progress: string }>;

export const keyOf = ({ pid, startedAt }: TenantSession) => `${pid} ${startedAt}`;

export function harmsOf(sessions: readonly TenantSession[], load: ServerLoad, stalls: Stalls, now: number): Harm[] {
  const newest = sessions.toSorted((a, b) => (a.startedAt < b.startedAt ? 1 : -1));
  const found = [
    ...greedy(newest, load.connectionCapacity, ({ isOwner }) => Number(isOwner), 'Connections'),
    ...greedy(sessions, load.lockCapacity, ({ locks }) => locks, 'LockTable'),
    ...greedy(sessions, load.predicateLockCapacity, ({ predicateLocks }) => predicateLocks, 'PredicateLocks'),
    ...greedy(sessions, load.memoryCapacity, ({ memory }) => memory, 'Memory'),
    ...greedy(sessions, load.temporaryFilesCapacity, ({ temporaryFiles }) => temporaryFiles, 'TemporaryFiles'),
    ...queueHolders(sessions, load),
    ...stalled(sessions, load, stalls, now),
  ];
  return found.filter(({ session }, at) => found.findIndex((other) => other.session === session) === at);
}

/** The sessions of an account with too large a share, the largest first, until the rest is small enough. */
function greedy(
  sessions: readonly TenantSession[],
  capacity: number,
  amountOf: (session: TenantSession) => number,
  reason: HarmReason,
): Harm[] {
  const total = sum(sessions.map(amountOf));
  const accounts = [...Map.groupBy(sessions, ({ account }) => account).values()]
    .map((all) => ({ all, held: sum(all.map(amountOf)) }))
    .sort((a, b) => b.held - a.held);
  const isFull = total > capacity * SHARE_OF_ALL;
  return accounts
    .filter(({ held }, at) => held > capacity * SHARE_OF_ONE || (isFull && at === 0))
    .flatMap(({ all, held }) => {
      const most = isFull ? held - (total - capacity / 2) : capacity * SHARE_OF_ONE;
      return largest(all, held, Math.max(most, 0), amountOf);
    })
    .map((session) => ({ session, reason }));
}

function largest(
  sessions: readonly TenantSession[],
  held: number,
  most: number,
  amountOf: (session: TenantSession) => number,
): TenantSession[] {
  let left = held;
  return sessions
    .toSorted((a, b) => amountOf(b) - amountOf(a))
    .filter((session) => {
      const isEnded = left > most && amountOf(session) > 0;
      if (isEnded) left -= amountOf(session);
      return isEnded;
    });
}

/**
 * Sessions that fill the notification queue. It is kept by a listener in a transaction, and Postgres does not show who
 * listens. So the sessions of the databases that flood it are ended, senders and transactions alike; if that is not
 * enough, the oldest transaction of any database, those that wrote last, as a restore does.
 */
function queueHolders(sessions: readonly TenantSession[], { queueUsage, queueGrowth }: ServerLoad): Harm[] {
  if (queueUsage < SHARE_OF_QUEUE) return [];
  const floods = new Set(sessions.filter((each) => each.sendsNotifications).map(({ database }) => database));
  const isFlooded = queueGrowth > FLOOD && floods.size > 0;
  const ended = isFlooded
    ? sessions.filter((each) => floods.has(each.database) && (each.isInTransaction || each.sendsNotifications))
    : queueUsage > MOST_OF_QUEUE
      ? sessions
          .filter((each) => each.isInTransaction && !each.showsProgress)
          .toSorted(
            (a, b) => Number(a.hasTransactionId) - Number(b.hasTransactionId) || b.transactionAge - a.transactionAge,
          )
          .slice(0, 1)
      : [];
  return ended.map((session) => ({ session, reason: 'NotificationQueue' }));
}

/** Sessions that hold up the reader of changes, or the log of every slot, and do nothing meanwhile. */
function stalled(sessions: readonly TenantSession[], load: ServerLoad, stalls: Stalls, now: number): Harm[] {
  const isRetained = load.retainedWal > load.retainedWalLimit * SHARE_OF_WAL;
  const withId = sessions.filter(({ hasTransactionId }) => hasTransactionId);
  const oldest = isRetained ? withId.toSorted((a, b) => b.age - a.age)[0] : undefined;
  const suspects = sessions.filter((session) => session.blocksReader || session === oldest);
  const keys = new Set(suspects.map(keyOf));
  for (const key of stalls.keys()) if (!keys.has(key)) stalls.delete(key);
  return suspects.flatMap((session) => {
    const known = stalls.get(keyOf(session));
    if (known?.progress !== session.progress) {
      stalls.set(keyOf(session), { since: now, progress: session.progress });
      return [];
    }
    // A statement whose counters stand still may be in a phase that Postgres does not count, unless it waits for its
    // client.
    const isQuiet = session.isIdleInTransaction || (session.showsProgress && session.waitsForClient);
    if (now - known.since < (isQuiet ? IDLE_PATIENCE_MS : STATEMENT_PATIENCE_MS)) return [];
    return [{ session, reason: session.blocksReader ? 'ReplicationBlocked' : 'WalRetained' }];
  });
}

const sum = (numbers: number[]) => numbers.reduce((total, each) => total + each, 0);
