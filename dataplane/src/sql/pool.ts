/**
 * The few connections that one service holds to one project's database as one login. Work comes in as batches (one
 * implicit transaction in one round trip), as single queries with rows as objects, or as transactions that hold a
 * connection to themselves. Connections open when needed, carry a bounded number of batches each, and close when idle;
 * what can't be taken waits in a bounded queue. Called by the services (auth, rest), which hold one pool a project.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { Login } from '../tenant.js';
import { HeldAnswer } from './answer-memory.js';
import type { Parameter } from './encoder.js';
import { AnswerTooLargeError, ConnectionError, DatabaseError, PoolBusyError } from './errors.js';
import { type Holder, holds, holdsNoMore, isFull, makeRoom } from './full-server.js';
import { type Result, Session, StaleStatementError, type Statement } from './session.js';

export interface PoolLimits {
  connections: number;
  /** Batches under way on one connection that answers fast: fewer where they would wait too long behind each other. */
  underway: number;
  /** Pieces of work that wait for a connection; one more is refused with PoolBusyError. */
  waiting: number;
  waitingMs: number;
  idleMs: number;
  connectTimeoutMs: number;
  /** Timeout of each statement, unless a batch sets a shorter one for itself. */
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
 * Batches queue behind each other on a connection only while its present one is this young: a slow one delays nobody.
 */
const SLOW_MS = 20;
/** Statements in flight that a connection always accepts, however slow its last ones were. */
const LEAST_UNDERWAY = 4;
const SWEEP_MS = 1_000;
const CLOSE_GRACE_MS = 5_000;
/** After a connection was refused, those that are open must do for so long. */
const OPEN_AGAIN_MS = 1_000;
/**
 * A server that admits no more is asked again by one connection at a time, ever more seldom, for as long as work may
 * wait.
 */
const FULL_LOOK_MS = { first: 100, most: 1_000 };
/** Delay before a repetition: the failure that ended one connection mostly ends the others a moment later. */
const REPEAT_AFTER_MS = 100;
/** A connection that is silent for this long past the statement timeout is given up. */
const SILENCE_GRACE_MS = 5_000;
/** A password that Postgres refuses may be about to be replaced: for so long, looking so often. */
const PASSWORD_PATIENCE_MS = 2_000;
const PASSWORD_LOOK_MS = 20;
const WRONG_PASSWORD = '28P01';

export interface PoolHooks {
  /** Channels that every connection listens to. */
  listen?: readonly string[];
  onNotification?(channel: string, payload: string): void;
  /** A connection opened after a time without any: notifications may have been missed. */
  onReconnect?(): void;
}

export interface Queryable {
  /** One statement; its rows as objects, with values as `pg` parses them. */
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
  private openAgainAt = 0;
  private full: { lookMs: number; timer: NodeJS.Timeout | undefined } | undefined;
  private closed = false;
  private onEmpty: () => void = () => undefined;
  private sweeper: NodeJS.Timeout | undefined;

  constructor(
    public login: Login,
    limits: Partial<PoolLimits> = {},
    private readonly hooks: PoolHooks = {},
  ) {
    this.limits = { ...DEFAULT_LIMITS, ...limits };
  }

  /** For connections from now on: those that are open stay. */
  useLogin(login: Login): void {
    this.login = login;
  }

  /** For an answer of its database. */
  holdAnswer(): HeldAnswer {
    return new HeldAnswer(this.login);
  }

  /** Connections that are open now. */
  get size(): number {
    return this.sessions.length + this.opening;
  }

  /**
   * All statements in one round trip and one implicit transaction: an error undoes all of them. A `repeatable` batch,
   * one that only reads, is sent once more when its connection was lost.
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

  /** Closes connections that nobody uses now, and tells how many. */
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
    // Sent as it is taken, so that whoever is next in the queue finds this connection as busy as it then is.
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

  /** `work` between BEGIN and COMMIT on a connection of its own; ROLLBACK when it throws. */
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

  /** Takes no more work; what is under way may finish, for a while. */
  async close(): Promise<void> {
    this.closed = true;
    clearInterval(this.sweeper);
    clearTimeout(this.full?.timer);
    holdsNoMore(this);
    for (const waiter of this.queue.splice(0)) waiter.refuse(new ConnectionError('the pool was closed', false));
    this.closeIdle();
    if (this.sessions.length === 0) return;
    const gone = Promise.withResolvers<void>();
    this.onEmpty = gone.resolve;
    const deadline = setTimeout(() => this.dropAll(), CLOSE_GRACE_MS);
    await gone.promise;
    clearTimeout(deadline);
  }

  private dropAll(): void {
    for (const session of [...this.sessions]) session.drop(new ConnectionError('the pool was closed', true));
  }

  /** A connection that can take one more batch now, the least busy first. */
  private free(): Session | undefined {
    let best: Session | undefined;
    for (const session of this.sessions) {
      if (this.exclusive.has(session) || !this.hasRoom(session)) continue;
      if (!best || session.underway < best.underway) best = session;
    }
    // Rather than behind another batch, which may be slow, wait for a connection that can still be opened.
    return best && best.underway > 0 && this.canOpen() ? undefined : best;
  }

  /** For one batch more, which will be answered within `SLOW_MS` if those before it take as long as the latest did. */
  private hasRoom({ underway, waited, paceMs }: Session): boolean {
    const most = Math.max(LEAST_UNDERWAY, Math.floor(SLOW_MS / paceMs));
    return underway < Math.min(most, this.limits.underway) && waited <= SLOW_MS;
  }

  private wait(exclusive: boolean, take: Waiter['take'], refuse: Waiter['refuse']): void {
    if (this.closed) return refuse(new ConnectionError('the pool was closed', false));
    if (this.queue.length >= this.limits.waiting) return refuse(new PoolBusyError(this.queue.length));
    this.queue.push({ exclusive, expires: performance.now() + this.limits.waitingMs, take, refuse });
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

  /** The connection a transaction will have to itself: an idle one, else one that takes nothing new until it is. */
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
    if (!this.canOpen()) return;
    this.opening++;
    this.sweeper ??= setInterval(() => this.sweep(), SWEEP_MS).unref();
    holds(this);
    this.connect()
      .then(
        (session) => this.admit(session),
        (error: Error) => {
          this.opening--;
          this.openAgainAt = performance.now() + OPEN_AGAIN_MS;
          if (isFull(error)) return this.waitForRoom(error);
          // With nothing open and nothing opening nobody else would answer those who wait.
          if (this.size === 0) for (const waiter of this.queue.splice(0)) waiter.refuse(error);
        },
      )
      .finally(() => this.serveQueue());
  }

  private canOpen(): boolean {
    if (this.closed || this.size >= this.limits.connections) return false;
    if (this.full?.timer || (this.full && this.opening > 0)) return false;
    return this.size === 0 || performance.now() >= this.openAgainAt;
  }

  private waitForRoom(error: Error): void {
    makeRoom(this.login, error);
    if (this.full?.timer) return;
    const lookMs = Math.min(this.full ? this.full.lookMs * 2 : FULL_LOOK_MS.first, FULL_LOOK_MS.most);
    const look = () => {
      this.full = { lookMs, timer: undefined };
      this.serveQueue();
    };
    // Not all pools at the same moment.
    this.full = { lookMs, timer: setTimeout(look, lookMs * (0.75 + Math.random() / 2)).unref() };
  }

  private async connect(): Promise<Session> {
    const session = await this.logIn();
    const channels = this.hooks.listen ?? [];
    if (channels.length > 0)
      await session.run(channels.map((channel) => ({ text: `listen ${pg.escapeIdentifier(channel)}` })));
    return session;
  }

  /**
   * While passwords are rotated Postgres has the next one a moment before it takes the place of the one that is known
   * here: it is tried too, and one that is yet to be told is waited for.
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

  private admit(session: Session): void {
    this.opening--;
    clearTimeout(this.full?.timer);
    this.full = undefined;
    if (this.closed) return session.close();
    if (!session.usable) return;
    if (this.sessions.push(session) === 1) this.hooks.onReconnect?.();
  }

  private release(session: Session): void {
    const at = this.sessions.indexOf(session);
    if (at >= 0) this.sessions.splice(at, 1);
    this.exclusive.delete(session);
    if (this.sessions.length === 0) this.onEmpty();
    this.serveQueue();
  }

  private giveUp(waiter: Waiter): void {
    if (waiter.reserved) this.exclusive.delete(waiter.reserved);
    waiter.refuse(new PoolBusyError(this.queue.length + 1));
  }

  /** Once a second: closes what is idle, gives up what is silent, refuses those who waited too long. */
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
