/**
 * One Postgres server with the databases of projects in it, whatever runs it. In: a superuser's URL. Out: databases
 * made, put right and removed; a server that can't be reached is an outcome, not an exception. Called by engines.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { databaseOf } from '@slipway/crds';
import {
  dropDatabase,
  forgetDatabase,
  identifier,
  naming,
  newDatabaseId,
  openReplication,
  ownRecord,
  prepareCluster,
  prepareRegistry,
  registeredDatabase,
  type Session,
  shutDatabase,
  takeSpare,
  transaction,
} from '@slipway/project-database';
import type { Logger } from 'pino';
import { Limit } from '../../runtime/limit.js';
import { TransientError } from '../../runtime/transient-error.js';
import type { DatabaseClaim, DatabaseRequest, EngineOutcome, RemoveRequest } from '../engine.js';
import { ClusterSessions } from './cluster-sessions.js';
import { DatabaseChanges } from './database-changes.js';
import { DatabasePrewarmer } from './database-prewarmer.js';
import { DatabaseSizes, type Housed } from './database-sizes.js';
import type { HarmReason } from './harm.js';
import { freeOwnersSlots, isOf, type Observed, observe, repairs } from './project-database.js';
import { retainDatabase } from './retained-database.js';
import { type EndedSession, SessionWatch } from './session-watch.js';
import { startUpkeep } from './upkeep.js';

export interface DatabaseServerSettings {
  /** URL of a superuser. */
  adminUrl: string;
  /** How many databases are kept ready for who comes next; 0: each is made when it is asked for. */
  spares: number;
  /** All in it are of one project: whoever may use the server may have them. */
  ofOne: boolean;
  /** Returns the password of the role that reads changes for realtime; without it that role can't log in. */
  replicationPassword?: (() => Promise<string | undefined>) | undefined;
  /** Told of each project whose roles or database somebody changed. */
  onChange?: ((ref: string) => void) | undefined;
  /** Called for each session of the project that was ended because it harmed others. */
  onSessionEnded?: ((ref: string, ended: EndedSession) => void) | undefined;
  /** Called when the project's database became read-only because of its size. */
  onDatabaseFull?: ((ref: string, message: string) => void) | undefined;
  log: Logger;
}

/** DROP DATABASE waits for a checkpoint: many at once would leave no connection to who wants a database. */
const REMOVALS = 2;
/** Tries for a spare, as another project may take it, or it may be deleted. */
const SPARE_TRIES = 3;
/** Harm that a client can do again within one look at the sessions. */
const REFUSED_AFTER = new Set<HarmReason>([
  'LockTable',
  'PredicateLocks',
  'Memory',
  'TemporaryFiles',
  'NotificationQueue',
]);
const REFUSE_TRIES = 10;
const REFUSE_PAUSE_MS = 100;
const UNDEFINED_DATABASE = '3D000';
const UNDEFINED_OBJECT = '42704';

const ready = { state: 'ready', value: undefined } satisfies EngineOutcome;

/** The database of a project, which may be there or not. */
interface Found {
  databaseId: string;
  /** The server's own record says so. */
  isRecorded: boolean;
  /** The owner whose data it keeps, after the project was deleted. */
  retainedFor: string | undefined;
  observed: Observed;
}

export class DatabaseServer {
  readonly #settings: DatabaseServerSettings;
  readonly #sessions: ClusterSessions;
  /** Takes SQL that speaks of the group of owners. */
  readonly #named: Session;
  readonly #prewarmer: DatabasePrewarmer;
  readonly #changes: DatabaseChanges;
  readonly #removals = new Limit(REMOVALS);
  /** Undefined where one project has the whole server. */
  readonly #watch: SessionWatch | undefined;
  /** The project of each database. */
  readonly #projects = new Map<string, Housed>();
  /** Undefined where `#watch` is. */
  readonly #sizes: DatabaseSizes | undefined;
  readonly #refusing = new Set<string>();
  #endUpkeep: (() => void) | undefined;
  #started: Promise<void> | undefined;

  constructor(settings: DatabaseServerSettings) {
    this.#settings = settings;
    this.#sessions = new ClusterSessions(settings.adminUrl, settings.log);
    this.#named = naming(this.#sessions);
    this.#prewarmer = new DatabasePrewarmer(this.#sessions, settings.spares, settings.log);
    if (!settings.ofOne) {
      const onEnded = (ended: EndedSession) => {
        const project = this.#projects.get(ended.database);
        if (project) settings.onSessionEnded?.(project.ref, ended);
        if (!REFUSED_AFTER.has(ended.reason) || this.#refusing.has(ended.role)) return;
        this.#refusing.add(ended.role);
        void this.#refuse(ended.role).finally(() => this.#refusing.delete(ended.role));
      };
      const accountOf = (database: string) => this.#projects.get(database)?.owner;
      this.#watch = new SessionWatch(settings.adminUrl, accountOf, onEnded, settings.log);
      const onFull = (database: string, message: string) => {
        const project = this.#projects.get(database);
        if (project) settings.onDatabaseFull?.(project.ref, message);
      };
      this.#sizes = new DatabaseSizes(this.#sessions, this.#projects, onFull, settings.log);
    }
    this.#changes = new DatabaseChanges(this.#sessions, (ref) => settings.onChange?.(ref), settings.log);
  }

  /** Makes the server ready and fills up the spares; what asks for a database meanwhile waits for it. */
  start(): Promise<void> {
    this.#started ??= this.#prepare().catch((error) => {
      this.#started = undefined;
      throw error;
    });
    return this.#started;
  }

  /** Returns the id of the project's database; undefined where there is none, or the server can't be reached. */
  async recordedId(ref: string): Promise<string | undefined> {
    try {
      await this.start();
      const { own } = await registeredDatabase(this.#sessions, ref, ref);
      return own?.databaseId;
    } catch (error) {
      this.#settings.log.warn({ ref, why: (error as Error).message }, 'database id not read');
      return undefined;
    }
  }

  /** Makes the database, or puts right what has drifted from what was asked. */
  ensure(request: DatabaseRequest): Promise<EngineOutcome> {
    return this.#withPostgres(async () => {
      const { ref, owner, plan, suspended } = request.project;
      const found = await this.#find(ref, request);
      const { databaseId, observed, retainedFor } = found;
      if (!observed.exists) {
        const outcome = await this.#make(request, found);
        if (outcome.state === 'ready') this.#projects.set(databaseOf(databaseId), { ref, owner, plan });
        return named(request, found, outcome);
      }
      if (isKeptFromOthers(found, owner)) return retainedForAnother;
      if (await this.#isStrangers(owner, request, found)) return strangersDatabase;
      this.#projects.set(databaseOf(databaseId), { ref, owner, plan });
      const needed = await repairs(databaseId, observed, request.passwords, !suspended);
      if (suspended) await shutDatabase(this.#sessions, databaseOf(databaseId));
      await freeOwnersSlots(this.#sessions, databaseId, observed, request.passwords.owner);
      const isTakenBack = retainedFor !== undefined && !suspended;
      const record = isTakenBack || !found.isRecorded ? [ownRecord(ref, databaseId)] : [];
      const statements = [...needed.flatMap((repair) => repair.statements), ...record];
      if (statements.length > 0) await this.#named.query(transaction(statements));
      if (needed.length === 0) return named(request, found, ready);
      const restored = needed.map(({ drift }) => drift);
      this.#settings.log.info({ ref, restored }, 'database drift repaired');
      return named(request, found, { ...ready, restored });
    });
  }

  /**
   * Finds the project's database. The id that its Secret names counts only where neither a record nor a foreign
   * database speaks against it.
   */
  async #find(ref: string, { databaseId: claimedId, passwords, former }: DatabaseClaim): Promise<Found> {
    const { own, isClaimAnothers } = await registeredDatabase(this.#sessions, ref, claimedId);
    if (own) return { ...own, observed: await observe(this.#named, own.databaseId) };
    const observed = isClaimAnothers ? undefined : await observe(this.#named, claimedId);
    const isFree = observed && !observed.exists && observed.roles.length === 0;
    const isOwn = observed && (await this.#isKnown({ passwords, former }, observed));
    const databaseId = isFree || isOwn ? claimedId : newDatabaseId();
    const nothing = { exists: false, open: false, accessAsItShouldBe: false, roles: [] };
    const unrecorded = { databaseId, isRecorded: false, retainedFor: undefined };
    return { ...unrecorded, observed: databaseId === claimedId && observed ? observed : nothing };
  }

  /** Left behind under this name, as when somebody took the finalizer off its project: it is not for who comes next. */
  async #isStrangers(owner: string, claim: DatabaseClaim, { observed, retainedFor }: Found): Promise<boolean> {
    if (this.#settings.ofOne || claim.existed || !observed.exists || retainedFor === owner) return false;
    return !(await this.#isKnown(claim, observed));
  }

  async #isKnown(
    { passwords, former }: Pick<DatabaseClaim, 'passwords' | 'former'>,
    observed: Observed,
  ): Promise<boolean> {
    for (const known of [passwords, former]) if (known && (await isOf(observed, known))) return true;
    return false;
  }

  /** Ready when neither the database nor its roles are there, or what is retained is closed. */
  remove(request: RemoveRequest): Promise<EngineOutcome> {
    const { ref, owner, retain } = request;
    return this.#withPostgres(async () => {
      const found = await this.#find(ref, request);
      const { databaseId, observed } = found;
      // Its project never had it, and so can't take it along.
      if (isKeptFromOthers(found, owner)) return ready;
      if (await this.#isStrangers(owner, request, found)) {
        this.#settings.log.warn(
          { ref },
          'a database that is not known as the project’s was left, as it may be another’s',
        );
        return ready;
      }
      this.#projects.delete(databaseOf(databaseId));
      if (retain && observed.exists) await retainDatabase(this.#sessions, ref, databaseId, owner);
      else {
        await this.#removals.run(() => dropDatabase(this.#sessions, databaseOf(databaseId), databaseId));
        await forgetDatabase(this.#sessions, ref);
      }
      return ready;
    });
  }

  async close(): Promise<void> {
    await this.#started?.catch(() => {});
    this.#endUpkeep?.();
    this.#sizes?.close();
    await this.#watch?.close();
    this.#changes.close();
    await this.#prewarmer.close();
    await this.#sessions.close();
  }

  async #prepare(): Promise<void> {
    await prepareCluster(this.#sessions);
    await prepareRegistry(this.#sessions);
    const password = await this.#settings.replicationPassword?.();
    if (password !== undefined) await openReplication(this.#sessions, password);
    this.#endUpkeep ??= startUpkeep(this.#sessions, this.#settings.log);
    this.#changes.start();
    this.#watch?.start();
    this.#sizes?.start();
    await this.#prewarmer.start();
  }

  async #make(
    { project, passwords, existed, databaseId: claimedId }: DatabaseRequest,
    { databaseId, isRecorded, observed }: Found,
  ): Promise<EngineOutcome> {
    if (existed) return databaseLost(isRecorded ? databaseId : claimedId);
    if (observed.roles.length > 0) await dropDatabase(this.#sessions, databaseOf(databaseId), databaseId);
    for (let attempt = 1; ; attempt++) {
      const id = await this.#prewarmer.take();
      try {
        await takeSpare(this.#sessions, id, databaseId, passwords, [ownRecord(project.ref, databaseId)]);
        if (project.suspended) await shutDatabase(this.#sessions, databaseOf(databaseId));
        return ready;
      } catch (error) {
        const { code } = error as { code?: string };
        if (attempt === SPARE_TRIES || (code !== UNDEFINED_DATABASE && code !== UNDEFINED_OBJECT)) throw error;
      }
    }
  }

  /**
   * Refuses new sessions of the role: a client that connects again at once would do the same harm again.
   * DatabaseChanges notices this as it does any change of a role, so that a reconcile allows them again some seconds
   * later, also if this process dies meanwhile.
   */
  async #refuse(role: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#sessions.query(`ALTER ROLE ${identifier(role)} CONNECTION LIMIT 0`);
        return;
      } catch (error) {
        // The lock table may be full until the session that was ended is gone.
        if (attempt === REFUSE_TRIES) {
          this.#settings.log.warn({ role, why: (error as Error).message }, 'new sessions were not refused');
          return;
        }
        await sleep(REFUSE_PAUSE_MS);
      }
    }
  }

  /** Postgres that can't be reached or refuses is an outcome, not an exception: the project's status says so. */
  async #withPostgres(work: () => Promise<EngineOutcome>): Promise<EngineOutcome> {
    try {
      await this.start();
      return await work();
    } catch (error) {
      if (isDefect(error)) throw error;
      const { code, message } = error as { code?: string; message: string };
      this.#settings.log.warn({ code, why: message }, 'Postgres statement rejected');
      if (code === OUT_OF_SHARED_MEMORY) throw new TransientError(explain(code), { cause: error });
      return { state: 'failed', reason: 'PostgresUnavailable', message: explain(code), retry: true };
    }
  }
}

/**
 * The lock table is full: the watch ends the session that fills it within a second, and the project is as well as it
 * was.
 */
const OUT_OF_SHARED_MEMORY = '53200';

/** An error of our own code, which says nothing about Postgres: the reconcile reports it as unexpected. */
const isDefect = (error: unknown) =>
  [TypeError, ReferenceError, RangeError, SyntaxError].some((kind) => error instanceof kind);

export const databaseLost = (databaseId: string): EngineOutcome => ({
  state: 'failed',
  reason: 'DatabaseLost',
  message: `the database ${databaseOf(databaseId)} is gone: restore it from a backup, or delete the project`,
  retry: true,
});

/** The outcome, with the id of the database where the request named another. */
const named = ({ databaseId }: DatabaseRequest, found: Found, outcome: EngineOutcome): EngineOutcome =>
  outcome.state === 'ready' && found.databaseId !== databaseId ? { ...outcome, databaseId: found.databaseId } : outcome;

const isKeptFromOthers = ({ retainedFor }: Found, owner: string) => retainedFor !== undefined && retainedFor !== owner;

// The names of the database are not in these messages: the caller is another owner.
const retainedForAnother: EngineOutcome = {
  state: 'failed',
  reason: 'DatabaseRetained',
  message:
    'the database of an earlier project of this name is retained for its owner: ' +
    'choose another metadata.name, or let that owner have the project',
  retry: true,
};

const strangersDatabase: EngineOutcome = {
  state: 'failed',
  reason: 'DatabaseTaken',
  message:
    "a database of an earlier project of this name is there, and is not this project's: choose another metadata.name, or let an " +
    'administrator drop it or record whom it is retained for (docs/operations.md)',
  retry: true,
};

/** Postgres's own words may quote a statement: only its code is shown. */
const explain = (code: string | undefined) =>
  `Postgres did not do what was asked${code ? ` (${code})` : ''}; it is tried again`;
