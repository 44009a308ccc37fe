/**
 * Decides which tenants' sessions harm a server that others share. In: the sessions and the load that a look at the
 * server found, and the results of earlier looks. Out: the sessions to end, each with a reason. Pure. Used by
 * SessionWatch.
 *
 * A session is judged by the resources that it takes from others, never by its age: a restore of half an hour has few
 * locks and makes progress.
 */
import type { UnreadNotifications } from './notification-queue.js';

export interface TenantSession {
  pid: number;
  /** The start time. Together with `pid` it identifies one session: the system reuses process ids. */
  startedAt: string;
  database: string;
  /** The account that owns the project. Its projects share one budget. */
  account: string;
  /** Null for autovacuum, which runs the functions in a tenant's indexes and statistics. */
  role: string | null;
  /** True for a session with the login of `db_url`. */
  isOwner: boolean;
  /** Entries in the server's lock table: advisory locks, and locks on tables, rows and large objects. */
  locks: number;
  /** Entries in the table of predicate locks, which serializable transactions take. */
  predicateLocks: number;
  /** Bytes of memory that the session shares with no other process, and of its temporary files. */
  memory: number;
  /** Bytes by which `memory` grew since the last look. */
  growth: number;
  temporaryFiles: number;
  /** Undefined if the session does not listen, or the server does not show it. */
  unreadNotifications?: UnreadNotifications | undefined;
  /** Null until the session's transaction writes. */
  transactionId: string | null;
  /** Milliseconds for which autovacuum has analyzed the present table. Null: it analyzes no table. */
  analyzeMs: number | null;
}

export interface ServerLoad {
  /** Connections for sessions with `db_url`'s login. */
  connectionCapacity: number;
  /** Connections for all but superusers. */
  serviceCapacity: number;
  lockCapacity: number;
  predicateLockCapacity: number;
  /** Bytes for the server's sessions together. */
  memoryCapacity: number;
  temporaryFilesCapacity: number;
}

export type HarmReason =
  | 'Connections'
  | 'ServiceConnections'
  | 'LockTable'
  | 'PredicateLocks'
  | 'Memory'
  | 'TemporaryFiles'
  | 'NotificationQueue'
  | 'LongAnalyze'
  | 'IdleTransaction'
  | 'LongTransaction'
  | 'WalRetained';

export interface Harm {
  session: TenantSession;
  reason: HarmReason;
}

/**
 * Shares of connections, locks, memory or temporary files. SHARE_OF_ONE is the maximum share of the sessions of one
 * account. SHARE_OF_ALL is the maximum share of all sessions. Beyond it, sessions of the account with the largest share
 * are ended.
 */
const SHARE_OF_ONE = 0.25;
const SHARE_OF_ALL = 0.7;
/**
 * Share of the connections that services may use for one account. The data plane itself opens fewer. A program that
 * serves one project does not know which other projects the account has.
 */
const SERVICES_OF_ONE = 0.4;
const LEAST_OF_SERVICES = 16;
/**
 * Share of the notification queue that may wait for one session to read it. The session is ended when LOOKS_AT_QUEUE
 * looks in a row find it at the same page. Looks are counted, not time: after a pause of the whole machine a duration
 * means nothing.
 */
export const SHARE_OF_QUEUE = 0.5;
const LOOKS_AT_QUEUE = 10;

/**
 * Maximum milliseconds of an automatic ANALYZE. The server runs few of them at once, and the tables of all other
 * projects wait. `statement_timeout` does not apply to autovacuum.
 */
const ANALYZE_MS = 5 * 60_000;

/** Results of earlier looks, by session. */
export class HarmMemory {
  /** Sessions that keep a large share of the queue: the page of each, and the number of looks that found it there. */
  readonly queue = new Map<string, { page: string; looks: number }>();
}

export const keyOf = ({ pid, startedAt }: Pick<TenantSession, 'pid' | 'startedAt'>) => `${pid} ${startedAt}`;

/**
 * Returns the sessions to end. `memory` is of looks at the regular interval. It is undefined for a look that follows
 * another at once.
 */
export function harmsOf(sessions: readonly TenantSession[], load: ServerLoad, memory: HarmMemory | undefined): Harm[] {
  const newest = sessions.toSorted((a, b) => (a.startedAt < b.startedAt ? 1 : -1));
  const found = [
    ...greedy(newest, load.connectionCapacity, ({ isOwner }) => Number(isOwner), 'Connections'),
    ...serviceSessions(newest, Math.max(load.serviceCapacity * SERVICES_OF_ONE, LEAST_OF_SERVICES)),
    ...greedy(sessions, load.lockCapacity, ({ locks }) => locks, 'LockTable'),
    ...greedy(sessions, load.predicateLockCapacity, ({ predicateLocks }) => predicateLocks, 'PredicateLocks'),
    ...greedy(sessions, load.memoryCapacity, ({ memory }) => memory, 'Memory', atNextLook),
    ...greedy(sessions, load.temporaryFilesCapacity, ({ temporaryFiles }) => temporaryFiles, 'TemporaryFiles'),
    ...(memory ? queueHolders(sessions, memory) : []),
    ...longAnalyses(sessions),
  ];
  return found.filter(({ session }, at) => found.findIndex((other) => other.session === session) === at);
}

/** Returns the newest sessions of services beyond `most` per account. */
function serviceSessions(newest: readonly TenantSession[], most: number): Harm[] {
  const services = newest.filter(({ isOwner, role }) => !isOwner && role !== null);
  return [...Map.groupBy(services, ({ account }) => account).values()]
    .flatMap((all) => all.slice(0, Math.max(all.length - Math.floor(most), 0)))
    .map((session) => ({ session, reason: 'ServiceConnections' }));
}

const longAnalyses = (sessions: readonly TenantSession[]): Harm[] =>
  sessions
    .filter(({ analyzeMs }) => analyzeMs !== null && analyzeMs >= ANALYZE_MS)
    .map((session) => ({ session, reason: 'LongAnalyze' }));

/** Returns the memory that the session will have at the next look, if it grows as before. */
const atNextLook = ({ memory, growth }: TenantSession) => memory + Math.max(growth, 0);

/**
 * Returns the sessions to end of each account that has too large a share. The sessions with the largest `expected`
 * amount come first, until the rest is small enough.
 */
function greedy(
  sessions: readonly TenantSession[],
  capacity: number,
  amountOf: (session: TenantSession) => number,
  reason: HarmReason,
  expected = amountOf,
): Harm[] {
  const total = sum(sessions.map(amountOf));
  const accounts = [...Map.groupBy(sessions, ({ account }) => account).values()]
    .map((all) => ({ all, used: sum(all.map(amountOf)) }))
    .sort((a, b) => b.used - a.used);
  const isFull = total > capacity * SHARE_OF_ALL;
  return accounts
    .filter(({ used }, at) => used > capacity * SHARE_OF_ONE || (isFull && at === 0))
    .flatMap(({ all, used }) => {
      const most = isFull ? used - (total - capacity / 2) : capacity * SHARE_OF_ONE;
      return largest(all, sum(all.map(expected)), Math.max(most, 0), expected);
    })
    .map((session) => ({ session, reason }));
}

function largest(
  sessions: readonly TenantSession[],
  used: number,
  most: number,
  amountOf: (session: TenantSession) => number,
): TenantSession[] {
  let left = used;
  return sessions
    .toSorted((a, b) => amountOf(b) - amountOf(a))
    .filter((session) => {
      const isEnded = left > most && amountOf(session) > 0;
      if (isEnded) left -= amountOf(session);
      return isEnded;
    });
}

/**
 * Returns the sessions that keep the notification queue from being emptied. They listen, and stay in a transaction or
 * don't read from their connection. Sessions that send, or wait to send, are not ended: a queue that is read never
 * fills up.
 */
function queueHolders(sessions: readonly TenantSession[], { queue }: HarmMemory): Harm[] {
  const before = new Map(queue);
  queue.clear();
  for (const session of sessions) {
    const { share = 0, page = '' } = session.unreadNotifications ?? {};
    if (share < SHARE_OF_QUEUE) continue;
    const known = before.get(keyOf(session));
    queue.set(keyOf(session), { page, looks: known?.page === page ? known.looks + 1 : 1 });
  }
  return sessions
    .filter((session) => (queue.get(keyOf(session))?.looks ?? 0) >= LOOKS_AT_QUEUE)
    .map((session) => ({ session, reason: 'NotificationQueue' }));
}

const sum = (numbers: number[]) => numbers.reduce((total, each) => total + each, 0);
