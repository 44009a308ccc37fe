/**
 * One Postgres server with the databases of projects, independent of where it runs. In: a superuser's URL. Out:
 * databases that are created, repaired and removed. An unreachable server is an outcome, not an exception. Called by
 * engines.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { normalAddress, type Plan } from '@slipway/crds';
import { databaseOf } from '@slipway/installation';
import { ConcurrencyLimit } from '@slipway/program';
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
import type { DatabaseClaim, DatabaseRequest, EngineOutcome, RemoveRequest, Usage } from '../../capabilities/index.js';
import { TransientError } from '../../runtime/transient-error.js';
import { ClusterSessions } from './cluster-sessions.js';
import { DatabaseChanges } from './database-changes.js';
import { DatabasePrewarmer } from './database-prewarmer.js';
import { DatabaseSizes, type Housed } from './database-sizes.js';
import { PostgresDisk } from './postgres-disk.js';
import { freeOwnersSlots, isOf, type Observed, observe, repairs } from './project-database.js';
import { retainDatabase } from './retained-database.js';
import { type EndedSession, SessionWatch } from './session-watch.js';
import { startUpkeep } from './upkeep.js';
import { WalRate } from './wal-rate.js';

export interface DatabaseServerSettings {
  /** URL of a superuser. */
  adminUrl: string;
  /** The number of spare databases to keep ready. With 0, each database is made on request. */
  spares: number;
  /** True if all databases of the server belong to one project: each client of the server may use all of them. */
  ofOne: boolean;
  /** Returns the password of the role that reads changes for realtime. Without a password that role can't log in. */
  replicationPassword?: (() => Promise<string | undefined>) | undefined;
  /** Called for each project whose roles or database were changed from outside. */
  onChange?: ((ref: string) => void) | undefined;
  /** Called for each session of the project that was ended because it harmed others. */
  onSessionEnded?: ((ref: string, ended: EndedSession) => void) | undefined;
  /** Called when the project's database became read-only, or its logins were shut, because of its size. */
  onDatabaseFull?: ((ref: string, message: string) => void) | undefined;
  /** The quota of each plan in bytes. Default: the plans' own. */
  databaseBytes?: Readonly<Record<Plan, number>>;
  /** Size of the server's volume. Undefined: the server is on this machine. */
  volumeBytes?: number | undefined;
  log: Logger;
}

/**
 * Limits of concurrent removals. DROP DATABASE waits for a checkpoint, and many removals at once would leave no
 * connection for requests of databases. The queue is limited by the number of the controller's workers.
 */
const REMOVALS = { most: 2, waiting: Infinity };
/** Maximum attempts to assign a spare database: another project may get it first, or it may be deleted. */
const SPARE_TRIES = 3;
/**
 * Reasons of an ended session after which new sessions of the role are rejected, because a client could do the same
 * harm again before the next look.
 */
const REFUSED_AFTER = new Set<EndedSession['reason']>([
  'LockTable',
  'PredicateLocks',
  'Memory',
  'TemporaryFiles',
  'WalRate',
]);
const REFUSE_TRIES = 10;
const REFUSE_PAUSE_MS = 100;
const UNDEFINED_DATABASE = '3D000';
const UNDEFINED_OBJECT = '42704';

const ready = { state: 'ready', value: undefined } satisfies EngineOutcome;

/** The database of a project, which may exist or not. */
interface Found {
  databaseId: string;
  /** True if the server's own record names this database. */
  isRecorded: boolean;
  /** The owner whose data the database retains after the deletion of the project. */
  retainedFor: string | undefined;
  observed: Observed;
}

export class DatabaseServer {
  readonly #settings: DatabaseServerSettings;
  readonly #sessions: ClusterSessions;
  /** Runs SQL that names the group of owners. */
  readonly #named: Session;
  readonly #prewarmer: DatabasePrewarmer;
  readonly #changes: DatabaseChanges;
  readonly #removals = new ConcurrencyLimit(REMOVALS);
  /** Undefined if one project has the whole server. */
  readonly #watch: SessionWatch | undefined;
  /** The project of each database. */
  readonly #projects = new Map<string, Housed>();
  /** Undefined if `#watch` is. */
  readonly #sizes: DatabaseSizes | undefined;
  /** Undefined if `#watch` is. */
  readonly #walRate: WalRate | undefined;
  /** Sessions of `#sizes` and `#walRate` alone: removals that wait for the disk must not delay them. */
  readonly #sizeSessions: ClusterSessions;
  readonly #refusing = new Set<string>();
  #endUpkeep: (() => void) | undefined;
  #started: Promise<void> | undefined;

  constructor(settings: DatabaseServerSettings) {
    this.#settings = settings;
    this.#sessions = new ClusterSessions(settings.adminUrl, settings.log);
    this.#sizeSessions = new ClusterSessions(settings.adminUrl, settings.log);
    this.#named = naming(this.#sessions);
    this.#prewarmer = new DatabasePrewarmer(this.#sessions, settings.spares, settings.log);
    if (!settings.ofOne) {
      const onEnded = (ended: EndedSession) => {
        const project = this.#projects.get(ended.database);
        if (project) settings.onSessionEnded?.(project.ref, ended);
        const { role, reason } = ended;
        if (role === null || !REFUSED_AFTER.has(reason) || this.#refusing.has(role)) return;
        this.#refusing.add(role);
        void this.#refuse(role).finally(() => this.#refusing.delete(role));
      };
      const accountOf = (database: string) => this.#projects.get(database)?.owner;
      this.#watch = new SessionWatch({
        url: settings.adminUrl,
        session: this.#sessions,
        accountOf,
        onEnded,
        log: settings.log,
      });
      const onFull = (database: string, message: string) => {
        const project = this.#projects.get(database);
        if (project) settings.onDatabaseFull?.(project.ref, message);
      };
      this.#walRate = new WalRate(this.#sizeSessions, this.#projects, onEnded, settings.log);
      const disk = new PostgresDisk(this.#sizeSessions, settings.volumeBytes);
      this.#sizes = new DatabaseSizes(
        this.#sizeSessions,
        this.#projects,
        onFull,
        settings.log,
        disk,
        settings.databaseBytes,
      );
    }
    this.#changes = new DatabaseChanges(this.#sessions, (ref) => settings.onChange?.(ref), settings.log);
  }

  /** Prepares the server and starts to make spares. Requests for a database wait for it. */
  start(): Promise<void> {
    this.#started ??= this.#prepare().catch((error) => {
      this.#started = undefined;
      throw error;
    });
    return this.#started;
  }

  /** Returns the id of the project's database. Undefined if there is none, or the server can't be reached. */
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

  /** Returns the size and the quota of the project's database. Undefined if they are not known. */
  usage(ref: string): Usage | undefined {
    const [database] = [...this.#projects].find(([, project]) => project.ref === ref) ?? [];
    return database === undefined ? undefined : this.#sizes?.usage(database);
  }

  /** Creates the database, or repairs its drift from the request. */
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
      const shut = this.#sizes?.shutRoles(databaseOf(databaseId)) ?? [];
      const needed = await repairs(databaseId, observed, request.passwords, { open: !suspended, shut });
      if (suspended) await shutDatabase(this.#sessions, databaseOf(databaseId));
      await freeOwnersSlots(this.#sessions, databaseId, observed, request.passwords.owner);
      const isTakenBack = retainedFor !== undefined && !suspended;
      const record = isTakenBack || !found.isRecorded ? [ownRecord(ref, databaseId)] : [];
      const statements = [...needed.flatMap((repair) => repair.statements), ...record];
      if (statements.length > 0) await this.#named.query(transaction(statements));
      if (needed.length === 0) return named(request, found, ready);
      return named(request, found, { ...ready, restored: needed.map(({ drift }) => drift) });
    });
  }

  /**
   * Finds the project's database. The id in the project's Secret counts only if it contradicts neither a record nor the
   * database of another project.
   */
  async #find(ref: string, { databaseId: claimedId, passwords, former }: DatabaseClaim): Promise<Found> {
    const { own, isClaimAnothers } = await registeredDatabase(this.#sessions, ref, claimedId);
    // An earlier release recorded addresses in their original spelling.
    const retainedFor = own?.retainedFor === undefined ? undefined : normalAddress(own.retainedFor);
    if (own) return { ...own, retainedFor, observed: await observe(this.#named, own.databaseId) };
    const observed = isClaimAnothers ? undefined : await observe(this.#named, claimedId);
    const isFree = observed && !observed.exists && observed.roles.length === 0;
    const isOwn = observed && (await this.#isKnown({ passwords, former }, observed));
    const databaseId = isFree || isOwn ? claimedId : newDatabaseId();
    const nothing = { exists: false, open: false, accessAsItShouldBe: false, roles: [] };
    const unrecorded = { databaseId, isRecorded: false, retainedFor: undefined };
    return { ...unrecorded, observed: databaseId === claimedId && observed ? observed : nothing };
  }

  /**
   * True for a database that another project of this name left behind, as when somebody removed that project's
   * finalizer. The next project of the name must not get it.
   */
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

  /** Ready when both the database and its roles are deleted, or when the retained database is closed. */
  remove(request: RemoveRequest): Promise<EngineOutcome> {
    const { ref, owner, retain } = request;
    return this.#withPostgres(async () => {
      const found = await this.#find(ref, request);
      const { databaseId, observed } = found;
      // This project never had the database, so its removal must not drop it.
      if (isKeptFromOthers(found, owner)) return ready;
      if (await this.#isStrangers(owner, request, found)) {
        this.#settings.log.warn({ ref }, 'database not dropped: it belongs to another project');
        return ready;
      }
      this.#projects.delete(databaseOf(databaseId));
      if (retain && observed.exists) await retainDatabase(this.#sessions, ref, databaseId, owner);
      else {
        await this.#removals.run(databaseId, () => dropDatabase(this.#sessions, databaseOf(databaseId), databaseId));
        await forgetDatabase(this.#sessions, ref);
      }
      return ready;
    });
  }

  async close(): Promise<void> {
    await this.#started?.catch(() => {});
    this.#endUpkeep?.();
    this.#sizes?.close();
    this.#walRate?.close();
    await this.#watch?.close();
    this.#changes.close();
    await this.#prewarmer.close();
    await this.#sessions.close();
    await this.#sizeSessions.close();
  }

  async #prepare(): Promise<void> {
    await prepareCluster(this.#sessions);
    await prepareRegistry(this.#sessions);
    await this.#sizes?.prepare();
    const password = await this.#settings.replicationPassword?.();
    if (password !== undefined) await openReplication(this.#sessions, password);
    this.#endUpkeep ??= startUpkeep(this.#sessions, this.#settings.log);
    this.#changes.start();
    this.#watch?.start();
    this.#sizes?.start();
    this.#walRate?.start();
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
   * Refuses new sessions of the role: a client that reconnects at once would do the same harm again. DatabaseChanges
   * detects this like any change of a role. A reconcile then allows sessions again some seconds later, also if this
   * process dies in between.
   */
  async #refuse(role: string): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await this.#sessions.query(`ALTER ROLE ${identifier(role)} CONNECTION LIMIT 0`);
        return;
      } catch (error) {
        // The lock table may stay full until the ended session has exited.
        if (attempt === REFUSE_TRIES) {
          this.#settings.log.warn({ role, why: (error as Error).message }, 'new sessions not refused');
          return;
        }
        await sleep(REFUSE_PAUSE_MS);
      }
    }
  }

  /**
   * Runs `work`. If Postgres can't be reached or rejects a statement, that is an outcome, not an exception: the
   * project's status reports it.
   */
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
 * SQLSTATE of a full lock table. The watch ends the session that fills the table within a second. Until then, the
 * project's status does not change.
 */
const OUT_OF_SHARED_MEMORY = '53200';

/** True for an error of our own code, which says nothing about Postgres. The reconcile reports it as unexpected. */
const isDefect = (error: unknown) =>
  [TypeError, ReferenceError, RangeError, SyntaxError].some((kind) => error instanceof kind);

export const databaseLost = (databaseId: string): EngineOutcome => ({
  state: 'failed',
  reason: 'DatabaseLost',
  message: `the database ${databaseOf(databaseId)} no longer exists: restore it from a backup, or delete the project`,
  retry: true,
});

/** Returns the outcome, with the id of the database if the request named another one. */
const named = ({ databaseId }: DatabaseRequest, found: Found, outcome: EngineOutcome): EngineOutcome =>
  outcome.state === 'ready' && found.databaseId !== databaseId ? { ...outcome, databaseId: found.databaseId } : outcome;

const isKeptFromOthers = ({ retainedFor }: Found, owner: string) => retainedFor !== undefined && retainedFor !== owner;

// These messages do not contain the names of the database, because another owner reads them.
const retainedForAnother: EngineOutcome = {
  state: 'failed',
  reason: 'DatabaseRetained',
  message:
    'the database of an earlier project of this name is retained for its owner: ' +
    'choose another metadata.name, or create the project with that owner in spec.owner',
  retry: true,
};

const strangersDatabase: EngineOutcome = {
  state: 'failed',
  reason: 'DatabaseTaken',
  message:
    'a database of an earlier project of this name exists and does not belong to this project: ' +
    'choose another metadata.name, or let an administrator drop the database or record the owner for whom it is ' +
    'retained (docs/operations.md)',
  retry: true,
};

/** Returns only the code: the message of Postgres may quote a statement. */
const explain = (code: string | undefined) =>
  `a request to Postgres failed${code ? ` (${code})` : ''}; the operator retries`;
