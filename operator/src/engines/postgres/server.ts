/**
 * One Postgres server with the databases of projects in it, whatever runs it. In: a superuser's URL. Out: databases made, put
 * right and removed; a server that can't be reached is an outcome, not an exception. Called by engines.
 */
import { databaseOf } from '@slipway/crds';
import {
  dropDatabase,
  naming,
  openReplication,
  prepareCluster,
  type Session,
  shutDatabase,
  takeSpare,
  transaction,
} from '@slipway/project-database';
import type { Logger } from 'pino';
import { Limit } from '../../runtime/limit.js';
import type { DatabaseClaim, DatabaseRequest, EngineOutcome, RemoveRequest } from '../engine.js';
import { ClusterSessions } from './cluster-sessions.js';
import { DatabaseChanges } from './database-changes.js';
import { isOf, type Observed, observe, repairs } from './project-database.js';
import { retainDatabase } from './retained-database.js';
import { Spares } from './spares.js';
import { startUpkeep } from './upkeep.js';

export interface DatabaseServerSettings {
  /** As superuser. */
  adminUrl: string;
  /** How many databases are kept ready for who comes next; 0: each is made when it is asked for. */
  spares: number;
  /** All in it are of one project: whoever may use the server may have them. */
  ofOne: boolean;
  /** Of the role that reads changes for realtime; without it that role can't log in. */
  replicationPassword?: (() => Promise<string | undefined>) | undefined;
  /** Told of each project whose roles or database somebody changed. */
  onChange?: ((ref: string) => void) | undefined;
  log: Logger;
}

/** DROP DATABASE waits for a checkpoint: many at once would leave no connection to who wants a database. */
const REMOVALS = 2;
/** Of a spare that another took or that is gone: the next may be there. */
const SPARE_TRIES = 3;
const UNDEFINED_DATABASE = '3D000';
const UNDEFINED_OBJECT = '42704';

const ready: EngineOutcome = { state: 'ready', value: undefined };

export class DatabaseServer {
  readonly #settings: DatabaseServerSettings;
  readonly #sessions: ClusterSessions;
  /** Takes SQL that speaks of the group of owners. */
  readonly #named: Session;
  readonly #spares: Spares;
  readonly #changes: DatabaseChanges;
  readonly #removals = new Limit(REMOVALS);
  #endUpkeep: (() => void) | undefined;
  #started: Promise<void> | undefined;

  constructor(settings: DatabaseServerSettings) {
    this.#settings = settings;
    this.#sessions = new ClusterSessions(settings.adminUrl, settings.log);
    this.#named = naming(this.#sessions);
    this.#spares = new Spares(this.#sessions, settings.spares, settings.log);
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

  /** Makes the database, or puts right what has drifted from what was asked. */
  ensure(request: DatabaseRequest): Promise<EngineOutcome> {
    return this.#withPostgres(async () => {
      const { ref } = request.project;
      const observed = await observe(this.#named, ref);
      if (!observed.exists) return this.#make(request, observed.roles.length > 0);
      if (isKeptFromOthers(observed, request.project.owner)) return retainedForAnother(ref);
      if (await this.#isStrangers(request.project.owner, request, observed)) return strangersDatabase(ref);
      const { suspended } = request.project;
      const needed = await repairs(ref, observed, request.passwords, !suspended);
      if (suspended) await shutDatabase(this.#sessions, databaseOf(ref));
      if (needed.length === 0) return ready;
      await this.#named.query(transaction(needed.flatMap(({ statements }) => statements)));
      const restored = needed.map(({ drift }) => drift);
      this.#settings.log.info({ ref, restored }, 'the database had drifted and was put right');
      return { ...ready, restored };
    });
  }

  /** Left behind under this name, as when somebody took the finalizer off its project: it is not for who comes next. */
  async #isStrangers(
    owner: string,
    { passwords, former, existed }: DatabaseClaim,
    observed: Observed,
  ): Promise<boolean> {
    if (this.#settings.ofOne || existed || !observed.exists || observed.retainedFor === owner) return false;
    for (const known of [passwords, former]) if (known && (await isOf(observed, known))) return false;
    return true;
  }

  /** Ready when neither the database nor its roles are there, or what is retained is closed. */
  remove(request: RemoveRequest): Promise<EngineOutcome> {
    const { ref, owner, retain } = request;
    return this.#withPostgres(async () => {
      const observed = await observe(this.#named, ref);
      // Its project never had it, and so can't take it along.
      if (isKeptFromOthers(observed, owner)) return ready;
      if (await this.#isStrangers(owner, request, observed)) {
        this.#settings.log.warn(
          { ref },
          'a database that is not known as the project’s was left, as it may be another’s',
        );
        return ready;
      }
      if (retain && observed.exists) await retainDatabase(this.#sessions, ref, owner);
      else await this.#removals.run(() => dropDatabase(this.#sessions, databaseOf(ref), ref));
      return ready;
    });
  }

  async close(): Promise<void> {
    await this.#started?.catch(() => {});
    this.#endUpkeep?.();
    this.#changes.close();
    await this.#spares.close();
    await this.#sessions.close();
  }

  async #prepare(): Promise<void> {
    await prepareCluster(this.#sessions);
    const password = await this.#settings.replicationPassword?.();
    if (password !== undefined) await openReplication(this.#sessions, password);
    this.#endUpkeep ??= startUpkeep(this.#sessions, this.#settings.log);
    this.#changes.start();
    await this.#spares.start();
  }

  async #make({ project, passwords, existed }: DatabaseRequest, hasRoles: boolean): Promise<EngineOutcome> {
    const { ref } = project;
    if (existed) return databaseLost(ref);
    if (hasRoles) await dropDatabase(this.#sessions, databaseOf(ref), ref);
    for (let attempt = 1; ; attempt++) {
      const id = await this.#spares.take();
      try {
        await takeSpare(this.#sessions, id, ref, passwords);
        if (project.suspended) await shutDatabase(this.#sessions, databaseOf(ref));
        return ready;
      } catch (error) {
        const { code } = error as { code?: string };
        if (attempt === SPARE_TRIES || (code !== UNDEFINED_DATABASE && code !== UNDEFINED_OBJECT)) throw error;
      }
    }
  }

  /** Postgres that can't be reached or refuses is an outcome, not an exception: the project's status says so. */
  async #withPostgres(work: () => Promise<EngineOutcome>): Promise<EngineOutcome> {
    try {
      await this.start();
      return await work();
    } catch (error) {
      const { code, message } = error as { code?: string; message: string };
      this.#settings.log.warn({ code, why: message }, 'Postgres refused');
      return { state: 'failed', reason: 'PostgresUnavailable', message: explain(code), retry: true };
    }
  }
}

export const databaseLost = (ref: string): EngineOutcome => ({
  state: 'failed',
  reason: 'DatabaseLost',
  message: `the database ${databaseOf(ref)} is gone: restore it from a backup, or delete the project`,
  retry: true,
});

const isKeptFromOthers = ({ retainedFor }: Observed, owner: string) =>
  retainedFor !== undefined && retainedFor !== owner;

const retainedForAnother = (ref: string): EngineOutcome => ({
  state: 'failed',
  reason: 'DatabaseRetained',
  message:
    `the database ${databaseOf(ref)} is retained for the owner of an earlier project of this name: ` +
    'choose another metadata.name, or let that owner have the project',
  retry: true,
});

const strangersDatabase = (ref: string): EngineOutcome => ({
  state: 'failed',
  reason: 'DatabaseTaken',
  message:
    `the database ${databaseOf(ref)} is there already, and is not this project's: choose another metadata.name, or let an administrator ` +
    'drop it or mark whom it is retained for (docs/operations.md)',
  retry: true,
});

/** Postgres's own words may quote a statement: only its code is shown. */
const explain = (code: string | undefined) =>
  `Postgres did not do what was asked${code ? ` (${code})` : ''}; it is tried again`;
