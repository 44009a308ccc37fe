/**
 * Changes of one project's published tables, each once and in order of commit, from start to stop. After a broken
 * connection it continues at the slot's position, and skips delivered changes by their log position. A slot that
 * Postgres invalidated, because it was not read for too long, is reported as lost changes. Used by `Changes`.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { REPLICATION_ROLE } from '@slipway/installation';
import { delayOf } from '@slipway/program';
import type { Logger } from 'pino';
import type { BackendTenant } from '../../../projects/tenant.js';
import { DatabaseError } from '../../../sql/errors.js';
import type { OldTuple, Relation, Tuple, WalMessage } from './pgoutput.js';
import { Relations, TooManyRelations } from './relations.js';
import { ReplicationSession } from './replication-session.js';

/** Password of REPLICATION_ROLE in the Postgres at `host`, which no tenant has. */
export type ReplicationLogin = (host: string) => Promise<string>;

export interface Change {
  type: 'INSERT' | 'UPDATE' | 'DELETE';
  relation: Relation;
  /** Id of the transaction in the log: 32 bits. */
  xid: number;
  committedAt: Date;
  record: Tuple | undefined;
  old: OldTuple | undefined;
  /** True if the change was larger than MAX_WAL_BYTES and was not read. */
  isOversized?: boolean;
}

export interface StreamEvents {
  /** Delivers changes in order. The next ones wait until it resolves. */
  deliver(changes: readonly Change[]): Promise<void>;
  /** Called when changes have been missed. */
  onLost(): void;
  /** Called when the log can't be read; it is retried. */
  onTrouble(error: Error): void;
}

const PUBLICATION = 'supabase_realtime';
const BACKOFF = { firstMs: 200, maxMs: 5_000 };
/** Number and bytes of undelivered changes beyond which reading of the log pauses. */
const MAX_WAITING = { changes: 2_000, bytes: 16 * 1024 * 1024 };
const AT_ONCE = 200;
const CONFIRM_MS = 5_000;
/** Number of consecutive errors by Postgres after which the slot is created again. */
const GIVE_UP_AFTER = 8;

type Item = { change: Change; bytes: number } | { endLsn: bigint };

export class ChangeStream {
  readonly #slot: string;
  readonly #stopped = new AbortController();
  readonly #relations = new Relations();
  readonly #waiting: Item[] = [];
  #waitingBytes = 0;
  #session: ReplicationSession | undefined;
  #hasSlot = false;
  #running: Promise<void> | undefined;
  #ready = Promise.withResolvers<void>();
  #delivering = false;
  /** Transaction that is being read. */
  #transaction = { finalLsn: 0n, committedAt: new Date(0), xid: 0, index: 0 };
  /** The position in the log: the first `index` changes of the transaction that commits at `finalLsn` are processed. */
  #processed = { finalLsn: 0n, index: 0 };
  #confirmed = 0n;
  /** Number of errors by Postgres since the last successful read. */
  #refusals = 0;

  constructor(
    private readonly tenant: BackendTenant,
    private readonly login: ReplicationLogin,
    private readonly events: StreamEvents,
    private readonly log: Logger,
  ) {
    this.#slot = tenant.replicationSlot;
    this.#ready.promise.catch(() => undefined);
  }

  /** Resolves once changes that are committed from now on will be delivered. */
  start(): Promise<void> {
    this.#running ??= this.#run();
    return this.#ready.promise;
  }

  async stop(): Promise<void> {
    this.#stopped.abort();
    this.#session?.close();
    this.#ready.reject(new Error('stopped'));
    await this.#running;
    if (this.#hasSlot)
      await this.#dropSlot().catch(() => this.log.warn({ slot: this.#slot }, 'replication slot left behind'));
  }

  async #run(): Promise<void> {
    const confirming = setInterval(() => this.#confirm(), CONFIRM_MS);
    let failures = 0;
    while (!this.#stopped.signal.aborted) {
      const begun = performance.now();
      try {
        await this.#read();
      } catch (error) {
        if (this.#stopped.signal.aborted) break;
        if (performance.now() - begun > BACKOFF.maxMs) [failures, this.#refusals] = [0, 0];
        failures++;
        this.#onFailure(error as Error);
        await pause(delayOf(BACKOFF, failures), undefined, this.#stopped).catch(() => undefined);
      }
    }
    clearInterval(confirming);
  }

  async #read(): Promise<void> {
    const session = await ReplicationSession.open(await this.#replicationLogin());
    this.#session = session;
    this.#relations.clear();
    try {
      // A stop during the opening found no session to close.
      this.#stopped.signal.throwIfAborted();
      if (!this.#hasSlot) await this.#begin(session);
      const ended = session.read(this.#slot, PUBLICATION, {
        onMessage: (message) => this.#take(message),
        onCaughtUp: (lsn, wantsReply) => this.#caughtUp(lsn, wantsReply),
      });
      this.#ready.resolve();
      await ended;
    } finally {
      this.#session = undefined;
      session.close();
    }
  }

  async #replicationLogin() {
    const { host, port, database } = this.tenant.authenticator;
    return { host, port, database, user: REPLICATION_ROLE, password: await this.login(host), project: this.tenant.ref };
  }

  /** Creates the slot. Postgres waits for open transactions first, so that all later ones are complete. */
  async #begin(session: ReplicationSession): Promise<void> {
    await session.createSlot(this.#slot);
    this.#hasSlot = true;
    this.#processed = { finalLsn: 0n, index: 0 };
    this.#confirmed = 0n;
  }

  #onFailure(error: Error): void {
    this.log.warn({ why: error.message, slot: this.#slot }, 'changes of a database not readable now');
    this.events.onTrouble(error);
    if (error instanceof TooManyRelations) return this.#lose();
    if (!(error instanceof DatabaseError) || AWAY.test(error.code)) return;
    this.#refusals++;
    const isLost = LOST.has(error.code) && /replication slot/.test(error.message);
    if (this.#hasSlot && (isLost || this.#refusals >= GIVE_UP_AFTER)) this.#lose();
  }

  #lose(): void {
    this.#hasSlot = false;
    this.#refusals = 0;
    // New subscribers wait for the next slot.
    this.#ready = Promise.withResolvers<void>();
    this.#ready.promise.catch(() => undefined);
    this.events.onLost();
  }

  #take(message: WalMessage): void {
    const transaction = this.#transaction;
    switch (message.kind) {
      case 'begin':
        this.#transaction = { ...message, index: 0 };
        break;
      case 'relation':
        this.#relations.set(message.relation);
        break;
      case 'commit':
        this.#waiting.push({ endLsn: message.endLsn });
        this.#transaction = { ...transaction, index: 0 };
        void this.#deliver();
        break;
      case 'insert':
      case 'update':
      case 'delete':
        transaction.index++;
        if (this.#isNew(transaction)) this.#add(message, transaction);
        break;
      case 'oversized':
        transaction.index++;
        if (this.#isNew(transaction)) this.#addOversized(message, transaction);
        break;
      default:
    }
  }

  #isNew({ finalLsn, index }: { finalLsn: bigint; index: number }): boolean {
    const processed = this.#processed;
    if (finalLsn < processed.finalLsn || (finalLsn === processed.finalLsn && index <= processed.index)) return false;
    this.#processed = { finalLsn, index };
    return true;
  }

  #add(
    message: WalMessage & { kind: 'insert' | 'update' | 'delete' },
    { committedAt, xid }: { committedAt: Date; xid: number },
  ): void {
    const relation = this.#relations.get(message.oid);
    if (relation === undefined) return;
    const type = message.kind.toUpperCase() as Change['type'];
    const record = message.kind === 'delete' ? undefined : message.record;
    const old = message.kind === 'insert' ? undefined : message.old;
    const bytes = sizeOf(record) + sizeOf(old?.values);
    this.#waiting.push({ change: { type, relation, xid, committedAt, record, old }, bytes });
    this.#waitingBytes += bytes;
    if (this.#isFilled(1)) this.#session?.pause();
    void this.#deliver();
  }

  #addOversized(
    { type, oid }: WalMessage & { kind: 'oversized' },
    { committedAt, xid }: { committedAt: Date; xid: number },
  ): void {
    const relation = this.#relations.get(oid);
    if (relation === undefined) return;
    const change = { type, relation, xid, committedAt, record: undefined, old: undefined, isOversized: true };
    this.#waiting.push({ change, bytes: 0 });
    this.log.warn({ slot: this.#slot, oid }, 'oversized change skipped');
    void this.#deliver();
  }

  async #deliver(): Promise<void> {
    if (this.#delivering) return;
    this.#delivering = true;
    while (this.#waiting.length > 0 && !this.#stopped.signal.aborted) {
      const items = this.#waiting.slice(0, AT_ONCE);
      const changes = items.flatMap((item) => ('change' in item ? item.change : []));
      if (changes.length > 0) await this.events.deliver(changes);
      this.#waiting.splice(0, items.length);
      for (const item of items) {
        if ('change' in item) this.#waitingBytes -= item.bytes;
        else if (item.endLsn > this.#confirmed) this.#confirmed = item.endLsn;
      }
      if (!this.#isFilled(1 / 2)) this.#session?.resume();
    }
    this.#delivering = false;
  }

  #isFilled(share: number): boolean {
    return this.#waiting.length > MAX_WAITING.changes * share || this.#waitingBytes > MAX_WAITING.bytes * share;
  }

  /** Confirms positions also without changes, because changes of other databases advance the log too. */
  #caughtUp(lsn: bigint, wantsReply: boolean): void {
    if (this.#waiting.length === 0 && this.#transaction.index === 0 && lsn > this.#confirmed) this.#confirmed = lsn;
    if (wantsReply) this.#confirm();
  }

  #confirm(): void {
    if (this.#confirmed > 0n) this.#session?.confirm(this.#confirmed);
  }

  async #dropSlot(): Promise<void> {
    const session = await ReplicationSession.open(await this.#replicationLogin());
    try {
      await session.dropSlot(this.#slot);
    } finally {
      session.close();
    }
  }
}

const sizeOf = (tuple: Tuple = []) => tuple.reduce((bytes, value) => bytes + (value?.length ?? 0), 0);

/**
 * Matches SQLSTATEs of a Postgres that is starting, recovering, stopping or full (classes 57 and 53): the slot may
 * still be valid.
 */
const AWAY = /^(57|53)/;
/** SQLSTATEs of a slot that is missing, or that Postgres has invalidated. */
const LOST = new Set(['42704', '55000']);
