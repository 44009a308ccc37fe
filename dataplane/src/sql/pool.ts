/**
 * Connections of one service to one project's database with one login. Work is a batch (one implicit transaction in one
 * round trip), a single query with rows as objects, or a transaction with its own connection. Connections open on
 * demand, carry a bounded number of batches each, and close when idle. Further work waits in a bounded queue. Each
 * service (such as auth or rest) has one pool for each project.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { delayOf } from '@slipway/program';
import pg from 'pg';
import { AccountFullError, afterTrial, checkShare, countForAccount, turnOf } from './account-shares.js';
import { HeldAnswer } from './answer-memory.js';
import type { Parameter } from './encoder.js';
import { AnswerTooLargeError, ConnectionError, DatabaseError, PoolBusyError } from './errors.js';
import { type Holder, holds, holdsNoMore, isFull, makeRoom, makeRoomInAccount } from './full-server.js';
import type { Login } from './login.js';
import { type Result, Session, StaleStatementError, type Statement } from './session.js';

export interface PoolLimits {
  connections: number;
  /** Batches in flight on one fast connection; fewer if they would wait too long behind each other. */
  underway: number;
  /** Waiting work; a further piece is rejected with PoolBusyError. */
  waiting: number;
  waitingMs: number;
  idleMs: number;
  connectTimeoutMs: number;
  /** Timeout of each statement, unless a batch sets a shorter one. */
  statementTimeoutMs: number;
  statementsPerConnection: number;
}

const DEFAULT_LIMITS: PoolLimits = {
  connections: 4,
  underway: 16,
  waiting: 1000,
  waitingMs: 10_000,
  idleMs: 10_000,
  connectTimeoutMs: 5_000,
  statementTimeoutMs: 30_000,
  statementsPerConnection: 200,
};

/**
 * Maximum milliseconds that a batch has been in flight if another batch may be queued behind it on the same connection.
 * So a slow batch delays no other.
 */
const SLOW_MS = 20;
/** Number of statements in flight that a connection always accepts, even if its last statements were slow. */
const LEAST_UNDERWAY = 4;
const SWEEP_MS = 1_000;
const CLOSE_GRACE_MS = 5_000;
/** Milliseconds until the next new connection after one was rejected. */
const OPEN_AGAIN_MS = 1_000;
/** Delays between attempts at a full server. One connection at a time tries, as long as work may wait. */
const FULL_LOOKS = { firstMs: 125, maxMs: 1_250, jitter: 0.4 };
/**
 * Milliseconds until work is repeated, because the cause that closed one connection mostly closes others a moment
 * later.
 */
const REPEAT_AFTER_MS = 100;
/** Milliseconds without a response, in addition to the statement timeout, after which a connection is closed. */
const SILENCE_GRACE_MS = 5_000;
/**
 * Milliseconds to wait for a new password after one was rejected, because a rotation may be about to replace it, and
 * between attempts.
 */
const PASSWORD_PATIENCE_MS = 2_000;
const PASSWORD_LOOK_MS = 20;
const WRONG_PASSWORD = '28P01';

export interface PoolHooks {
  /** Channels to which every connection listens. */
  listen?: readonly string[];
  onNotification?(channel: string, payload: string): void;
  /** Called when a first connection is opened again: notifications may have been lost. */
  onReconnect?(): void;
}

export interface Queryable {
  /** Runs one statement. Returns rows as objects, with values as `pg` parses them. */
  query<T = Record<string, unknown>>(text: string, values?: readonly Parameter[]): Promise<T[]>;
}

interface Waiter {
  exclusive: boolean;
  expires: number;
  reserved?: Session;
  take(session: Session): void;
  refuse(error: Error): void;
}

export class Pool implements Queryable, Holder {
  private readonly limits: PoolLimits;
  private readonly sessions: Session[] = [];
  private readonly exclusive = new Set<Session>();
  private readonly queue: Waiter[] = [];
  private opening = 0;
  /** Functions that stop counting a connection for its account. */
  private readonly leave = new Map<Session, () => void>();
  private openAgainAt = 0;
  private full: { looks: number; timer: NodeJS.Timeout | undefined } | undefined;
  private closed = false;
  private onEmpty: () => void = () => undefined;
  private sweeper: NodeJS.Timeout | undefined;

  private readonly lookAgain = () => this.serveQueue();

  constructor(
    public login: Login,
    limits: Partial<PoolLimits> = {},
    private readonly hooks: PoolHooks = {},
  ) {
    this.limits = { ...DEFAULT_LIMITS, ...limits };
  }

  /** Login of new connections; open ones stay. */
  useLogin(login: Login): void {
    this.login = login;
  }

  /** Reserves memory for a result of this database. */
  holdAnswer(): HeldAnswer {
    return new HeldAnswer(this.login);
  }

  /** Number of open connections. */
  get size(): number {
    return this.sessions.length + this.opening;
  }

  /**
   * Runs all statements in one round trip and one implicit transaction: an error undoes all of them. A `repeatable`
   * batch, which only reads, is sent once more if its connection was lost.
   */
  async batch(statements: readonly Statement[], { repeatable = false } = {}): Promise<Result[]> {
    try {
      return await this.send(statements);
    } catch (error) {
      if (error instanceof StaleStatementError) return this.send(statements.map(({ name: _, ...unnamed }) => unnamed));
      if (!(error instanceof ConnectionError && repeatable && error.sent)) throw error;
      if (error instanceof AnswerTooLargeError) throw error;
      await sleep(REPEAT_AFTER_MS);
      return this.send(statements);
    }
  }

  /** Closes idle connections. Returns their number. */
  closeIdle(): number {
    const idle = this.sessions.filter((session) => session.underway === 0 && !this.exclusive.has(session));
    for (const session of idle) session.close();
    return idle.length;
  }

  giveWay(): void {
    if (Number.isFinite(this.limits.idleMs)) this.closeIdle();
  }

  private send(statements: readonly Statement[]): Promise<Result[]> {
    const session = this.queue.length === 0 && this.free();
    if (session) return session.run(statements);
    // Sent immediately, so that the next in the queue is assigned by this connection's new load.
    return new Promise((resolve, refuse) => this.wait(false, (free) => resolve(free.run(statements)), refuse));
  }

  async query<T = Record<string, unknown>>(
    text: string,
    values: readonly Parameter[] = [],
    name?: string,
  ): Promise<T[]> {
    const [result] = await this.batch([{ text, values, describe: true, ...(name ? { name } : {}) }]);
    return objects<T>(result as Result);
  }

  /** Runs `work` between BEGIN and COMMIT on its own connection; ROLLBACK if it throws. */
  async transaction<T>(work: (transaction: Queryable) => Promise<T>): Promise<T> {
    const session = await new Promise<Session>((take, refuse) => this.wait(true, take, refuse));
    try {
      await session.run([{ text: 'begin' }]);
      const result = await work({
        query: async (text, values = []) => {
          const [answer] = await session.run([{ text, values, describe: true }]);
          return objects(answer as Result);
        },
      });
      await session.run([{ text: 'commit' }]);
      return result;
    } catch (error) {
      if (session.usable) await session.run([{ text: 'rollback' }]).catch(() => session.close());
      throw error;
    } finally {
      this.exclusive.delete(session);
      this.serveQueue();
    }
  }

  /** Rejects further work. Work in flight may finish within a time limit. */
  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.sweeper);
    clearTimeout(this.full?.timer);
    holdsNoMore(this);
    for (const waiter of this.queue.splice(0)) waiter.refuse(new ConnectionError('the pool was closed', false));
    this.closeIdle();
    if (this.sessions.length === 0) return;
    const allClosed = Promise.withResolvers<void>();
    this.onEmpty = allClosed.resolve;
    const deadline = setTimeout(() => this.dropAll(), CLOSE_GRACE_MS);
    await allClosed.promise;
    clearTimeout(deadline);
  }

  private dropAll(): void {
    for (const session of [...this.sessions]) session.drop(new ConnectionError('the pool was closed', true));
  }

  /** Returns the least busy connection with room for one more batch. */
  private free(): Session | undefined {
    let best: Session | undefined;
    for (const session of this.sessions) {
      if (this.exclusive.has(session) || !this.hasRoom(session)) continue;
      if (!best || session.underway < best.underway) best = session;
    }
    // Waits for a connection that can still be opened, instead of queueing behind another batch, which may be slow.
    return best && best.underway > 0 && this.canOpen() ? undefined : best;
  }

  /** True if one more batch will be answered within `SLOW_MS`, estimated from the latest batches. */
  private hasRoom({ underway, waited, paceMs }: Session): boolean {
    const most = Math.max(LEAST_UNDERWAY, Math.floor(SLOW_MS / paceMs));
    return underway < Math.min(most, this.limits.underway) && waited <= SLOW_MS;
  }

  private wait(exclusive: boolean, take: Waiter['take'], refuse: Waiter['refuse']): void {
    if (this.closed) return refuse(new ConnectionError('the pool was closed', false));
    if (this.queue.length >= this.limits.waiting) return refuse(new PoolBusyError(this.queue.length));
    this.queue.push({ exclusive, expires: performance.now() + this.limits.waitingMs, take, refuse });
    // Started even before the first connection, because work may wait while others of the account are being opened.
    this.sweeper ??= setInterval(() => this.sweep(), SWEEP_MS).unref();
    this.serveQueue();
  }

  private serveQueue(): void {
    for (let waiter = this.queue[0]; waiter; waiter = this.queue[0]) {
      const session = waiter.exclusive ? this.reserve(waiter) : this.free();
      if (!session || (waiter.exclusive && session.underway > 0)) break;
      this.queue.shift();
      waiter.take(session);
    }
    if (this.queue.length > this.opening) this.open();
  }

  /**
   * Reserves a connection for a transaction: an idle one, or else one that accepts no further work until it is idle.
   */
  private reserve(waiter: Waiter): Session | undefined {
    if (waiter.reserved?.usable) return waiter.reserved;
    const shared = this.sessions.filter((session) => !this.exclusive.has(session));
    const least = shared.sort((one, other) => one.underway - other.underway)[0];
    if (!least || (least.underway > 0 && this.canOpen())) return undefined;
    this.exclusive.add(least);
    waiter.reserved = least;
    return least;
  }

  private open(): void {
    if (!this.mayGrow()) return;
    const { login } = this;
    const turn = turnOf(login);
    if (turn === 'next') return afterTrial(login, this.lookAgain);
    if (turn === 'full') {
      // Work with a reserved connection waits for it.
      if (this.size === 0) this.waitForRoom(() => makeRoomInAccount(login));
      return;
    }
    this.opening++;
    const counted = countForAccount(login);
    holds(this);
    this.connect()
      .then(
        (session) => this.admit(session, counted.leave),
        (error: Error) => {
          this.opening--;
          counted.leave();
          this.openAgainAt = performance.now() + OPEN_AGAIN_MS;
          if (error instanceof AccountFullError) return this.waitForRoom(() => makeRoomInAccount(login));
          if (isFull(error)) return this.waitForRoom(() => makeRoom(this.login, error));
          // Without an open or opening connection no other code would reject the waiting work.
          if (this.size === 0) for (const waiter of this.queue.splice(0)) waiter.refuse(error);
        },
      )
      .finally(() => {
        counted.endTrial();
        this.serveQueue();
      });
  }

  /** True if waiting for a new connection is useful. */
  private canOpen(): boolean {
    return this.mayGrow() && (this.size === 0 || turnOf(this.login) !== 'full');
  }

  private mayGrow(): boolean {
    if (this.closed || this.size >= this.limits.connections) return false;
    if (this.full?.timer || (this.full && this.opening > 0)) return false;
    return this.size === 0 || performance.now() >= this.openAgainAt;
  }

  private waitForRoom(makeRoom: () => void): void {
    makeRoom();
    if (this.full?.timer) return;
    const looks = (this.full?.looks ?? 0) + 1;
    const look = () => {
      this.full = { looks, timer: undefined };
      this.serveQueue();
    };
    this.full = { looks, timer: setTimeout(look, delayOf(FULL_LOOKS, looks)).unref() };
  }

  private async connect(): Promise<Session> {
    const session = await this.logIn();
    // The sweep covers only admitted connections, and others of the account wait for the end of this trial.
    const silent = new ConnectionError('the database did not answer in time', false);
    const deadline = setTimeout(() => session.drop(silent), this.limits.connectTimeoutMs);
    try {
      await checkShare(this.login, session);
      const channels = this.hooks.listen ?? [];
      if (channels.length > 0)
        await session.run(channels.map((channel) => ({ text: `listen ${pg.escapeIdentifier(channel)}` })));
      return session;
    } catch (error) {
      session.close();
      throw error;
    } finally {
      clearTimeout(deadline);
    }
  }

  /**
   * Logs in. During a rotation Postgres gets the next password a moment before it becomes the present one here: both
   * are tried, and an unknown one is waited for.
   */
  private async logIn(): Promise<Session> {
    const refused = new Map<string, unknown>();
    const deadline = performance.now() + PASSWORD_PATIENCE_MS;
    for (;;) {
      const { nextPassword, ...login } = this.login;
      const password = [login.password, nextPassword].find((each) => each !== undefined && !refused.has(each));
      if (password === undefined) {
        if (this.closed || performance.now() > deadline) throw refused.get(login.password);
        await sleep(PASSWORD_LOOK_MS, undefined, { ref: false });
        continue;
      }
      try {
        return await this.openAs({ ...login, password });
      } catch (error) {
        if (!isWrongPassword(error)) throw error;
        refused.set(password, error);
      }
    }
  }

  private openAs(login: Login): Promise<Session> {
    return Session.open(login, {
      connectTimeoutMs: this.limits.connectTimeoutMs,
      statementTimeoutMs: this.limits.statementTimeoutMs,
      maxStatements: this.limits.statementsPerConnection,
      holdAnswer: () => this.holdAnswer(),
      onNotification: (channel, payload) => this.hooks.onNotification?.(channel, payload),
      onReady: () => (this.closed ? this.closeIdle() : this.serveQueue()),
      onClose: (closed) => this.release(closed),
    });
  }

  private admit(session: Session, leave: () => void): void {
    this.opening--;
    if (session.usable) this.leave.set(session, leave);
    else leave();
    clearTimeout(this.full?.timer);
    this.full = undefined;
    if (this.closed) return session.close();
    if (!session.usable) return;
    if (this.sessions.push(session) === 1) this.hooks.onReconnect?.();
  }

  private release(session: Session): void {
    const at = this.sessions.indexOf(session);
    if (at >= 0) this.sessions.splice(at, 1);
    this.leave.get(session)?.();
    this.leave.delete(session);
    this.exclusive.delete(session);
    if (this.sessions.length === 0) this.onEmpty();
    this.serveQueue();
  }

  private giveUp(waiter: Waiter): void {
    if (waiter.reserved) this.exclusive.delete(waiter.reserved);
    waiter.refuse(new PoolBusyError(this.queue.length + 1));
  }

  /** Runs each second: closes idle connections, drops silent ones, rejects work that waited too long. */
  private sweep(): void {
    const now = performance.now();
    for (const session of [...this.sessions]) {
      const idle = session.underway === 0 && !this.exclusive.has(session);
      if (idle && now - session.idleSince > this.limits.idleMs) session.close();
      else if (session.waited > this.limits.statementTimeoutMs + SILENCE_GRACE_MS)
        session.drop(new ConnectionError('the database did not answer in time', true));
    }
    while (this.queue[0] && this.queue[0].expires < now) this.giveUp(this.queue.shift() as Waiter);
    if (this.size === 0 && this.queue.length === 0) {
      clearInterval(this.sweeper);
      this.sweeper = undefined;
      holdsNoMore(this);
    }
  }
}

const isWrongPassword = (error: unknown) =>
  ((error as ConnectionError).cause as { code?: string } | undefined)?.code === WRONG_PASSWORD;

function objects<T>({ fields, rows }: Result): T[] {
  const parsers = fields.map(({ type }) => pg.types.getTypeParser(type, 'text') as (text: string) => unknown);
  return rows.map(
    (row) =>
      Object.fromEntries(
        fields.map(({ name }, i) => [name, row[i] ? parsers[i]?.((row[i] as Buffer).toString()) : null]),
      ) as T,
  );
}

export {
  AnswerTooLargeError,
  ConnectionError,
  DatabaseError,
  type Parameter,
  PoolBusyError,
  type Result,
  type Statement,
};
