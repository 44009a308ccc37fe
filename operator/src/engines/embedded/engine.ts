/**
 * The engine of one machine: each project is a database in the embedded Postgres, and one data plane serves them all. In:
 * a superuser's URL, the data plane's address. Out: the verbs of `Engine`.
 */
import { availableServices, databaseOf, type OpenedServices } from '@slipway/crds';
import { dropDatabase, openReplication, prepareCluster, takeSpare, transaction } from '@slipway/project-database';
import type { Logger } from 'pino';
import { Limit } from '../../runtime/limit.js';
import type {
  DatabaseAddress,
  DatabaseRequest,
  Engine,
  EngineOutcome,
  EngineProject,
  RemoveRequest,
  ServicesOutcome,
  ServicesRequest,
} from '../engine.js';
import { ClusterSessions } from './cluster-sessions.js';
import { IdleSlots } from './idle-slots.js';
import { observe, repairs } from './project-database.js';
import { ServiceProbe } from './service-probe.js';
import { Spares } from './spares.js';

export interface EmbeddedEngineSettings {
  /** The tenants' cluster, as superuser. */
  adminDatabaseUrl: string;
  /** Where people reach that cluster: `host:port`. */
  databasePublicAddress: string;
  /** Where the data plane answers. */
  dataplaneUrl: string;
  /** The address of a project's services, for its status. */
  projectUrl(ref: string): string;
  /** What projects have beyond the availability matrix. */
  openedServices?: OpenedServices;
  /** Of the role that reads changes for realtime; without it that role can't log in. */
  replicationPassword?: () => Promise<string>;
  log: Logger;
}

/** DROP DATABASE waits for a checkpoint: many at once would leave no connection to who wants a database. */
const REMOVALS = 2;
/** Of a spare that another took or that is gone: the next may be there. */
const SPARE_TRIES = 3;
const UNDEFINED_DATABASE = '3D000';
const UNDEFINED_OBJECT = '42704';

export class EmbeddedEngine implements Engine {
  readonly #settings: EmbeddedEngineSettings;
  readonly #sessions: ClusterSessions;
  readonly #spares: Spares;
  readonly #idleSlots: IdleSlots;
  readonly #probe: ServiceProbe;
  readonly #removals = new Limit(REMOVALS);
  #started: Promise<void> | undefined;

  constructor(settings: EmbeddedEngineSettings) {
    this.#settings = settings;
    this.#sessions = new ClusterSessions(settings.adminDatabaseUrl, settings.log);
    this.#spares = new Spares(this.#sessions, settings.log);
    this.#idleSlots = new IdleSlots(this.#sessions, settings.log);
    this.#probe = new ServiceProbe(settings.dataplaneUrl, settings.projectUrl);
  }

  /** All share one machine: what keeps a project to its own is in Postgres and in the data plane. */
  async ensureIsolation(): Promise<EngineOutcome> {
    return { state: 'ready', value: undefined };
  }

  databaseAddress({ ref }: EngineProject): DatabaseAddress {
    const url = new URL(this.#settings.adminDatabaseUrl.replace(/^(\w+:\/\/[^/@]*@)\//, '$1socket/'));
    return {
      host: url.searchParams.get('host') ?? url.hostname,
      port: Number(url.searchParams.get('port') ?? (url.port || 5432)),
      database: databaseOf(ref),
      publicAddress: this.#settings.databasePublicAddress,
    };
  }

  ensureDatabase(request: DatabaseRequest): Promise<EngineOutcome> {
    return this.#withPostgres(async () => {
      const { ref } = request.project;
      const observed = await observe(this.#sessions, ref);
      if (!observed.exists) return this.#make(request, observed.roles.length > 0);
      const statements = await repairs(ref, observed, request.passwords);
      if (statements.length > 0) {
        await this.#sessions.query(transaction(statements));
        this.#settings.log.info({ ref }, 'the database had drifted and was put right');
      }
      return { state: 'ready', value: undefined };
    });
  }

  async ensureServices({ project, anonKey }: ServicesRequest): Promise<ServicesOutcome> {
    const available = availableServices('shared', project.plan, this.#settings.openedServices ?? {});
    const asked = await this.#probe.ask(project.ref, anonKey, available);
    return { outcome: asked.state === 'ready' ? { ...asked, value: { services: asked.value } } : asked, parts: [] };
  }

  remove({ ref }: RemoveRequest): Promise<EngineOutcome> {
    return this.#withPostgres(async () => {
      await this.#removals.run(() => dropDatabase(this.#sessions, databaseOf(ref), ref));
      return { state: 'ready', value: undefined };
    });
  }

  /** Makes the cluster ready and fills up the spares; what asks for a database meanwhile waits for it. */
  start(): Promise<void> {
    this.#started ??= this.#prepare().catch((error) => {
      this.#started = undefined;
      throw error;
    });
    return this.#started;
  }

  async close(): Promise<void> {
    await this.#started?.catch(() => {});
    this.#idleSlots.close();
    await this.#spares.close();
    await this.#probe.close();
    await this.#sessions.close();
  }

  async #prepare(): Promise<void> {
    await prepareCluster(this.#sessions);
    const password = await this.#settings.replicationPassword?.();
    if (password !== undefined) await openReplication(this.#sessions, password);
    this.#idleSlots.start();
    await this.#spares.start();
  }

  async #make({ project, passwords, existed }: DatabaseRequest, hasRoles: boolean): Promise<EngineOutcome> {
    const { ref } = project;
    if (existed) {
      const message = `the database ${databaseOf(ref)} is gone: restore it from a backup, or delete the project`;
      return { state: 'failed', reason: 'DatabaseLost', message, retry: true };
    }
    if (hasRoles) await dropDatabase(this.#sessions, databaseOf(ref), ref);
    for (let attempt = 1; ; attempt++) {
      const id = await this.#spares.take();
      try {
        await takeSpare(this.#sessions, id, ref, passwords);
        return { state: 'ready', value: undefined };
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

/** Postgres's own words may quote a statement: only its code is shown. */
const explain = (code: string | undefined) =>
  `Postgres did not do what was asked${code ? ` (${code})` : ''}; it is tried again`;
