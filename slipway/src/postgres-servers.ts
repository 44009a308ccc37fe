/**
 * Runs the two Postgres servers of this machine: the tenants', and a small one of the platform that no tenant can reach
 * or fill. In: the platform's folders and secrets. Out: both servers running, and the platform's database ready. Called
 * by the supervisor.
 */
import path from 'node:path';
import { endLeftover, type PostgresOptions } from '@slipway/postgres';
import { type Connect, preparePlatformDatabase, refsOfDatabases } from '@slipway/project-database';
import type { OnCopied } from './copy-database.js';
import { DatabaseLogs } from './database-logs.js';
import { expectFreeBytes, type Home } from './home.js';
import { LogFile } from './log-file.js';
import {
  bytesToMove,
  dropMovedDatabase,
  leaveTenantsServer,
  movePlatformDatabase,
  mustMove,
  type Servers,
} from './move-platform-database.js';
import { PLATFORM_ACCESS, PLATFORM_SETTINGS, superuserSessions, TENANTS_ACCESS } from './postgres-access.js';
import { PostgresSupervisor } from './postgres-supervisor.js';
import type { Platform } from './programs.js';

/** Ends servers that an earlier start left running. */
export async function endLeftoverServers(home: Home): Promise<void> {
  await Promise.all([endLeftover(home.postgres), endLeftover(home.platformPostgres)]);
}

export class PostgresServers {
  readonly #platform: Platform;
  readonly #say: (text: string) => void;
  readonly #ending: AbortSignal;
  readonly #servers: PostgresSupervisor[];
  readonly #databaseLogs: DatabaseLogs;

  /** `ending` aborts a start of a server that is in progress. */
  constructor(platform: Platform, say: (text: string) => void, ending: AbortSignal) {
    const { settings, home, secrets } = platform;
    this.#platform = platform;
    this.#ending = ending;
    this.#say = say;
    const log = this.#logOf('postgres');
    const logs = new DatabaseLogs({
      socket: home.sockets.logs,
      refsOf: this.#refsOf,
      onLeftOut: (database, count) => log(`${count} more messages of the database "${database}" in this second`),
    });
    this.#databaseLogs = logs;
    const tenants = this.#kept('Postgres', 'postgres', {
      onLog: log,
      onRecord: (record) => logs.add(record),
      accepts: logs.accepts,
      folder: home.postgres,
      socketFolder: home.sockets.postgres,
      listen: settings.postgresHost,
      password: secrets.superuserPassword,
      access: TENANTS_ACCESS,
    });
    const own = this.#kept('the platform’s Postgres', 'platform-postgres', {
      onLog: this.#logOf('platform-postgres'),
      folder: home.platformPostgres,
      socketFolder: home.sockets.platformPostgres,
      // The server has no TCP port.
      listen: '',
      password: secrets.platformSuperuserPassword,
      access: PLATFORM_ACCESS,
      settings: PLATFORM_SETTINGS,
    });
    this.#servers = [tenants, own];
  }

  #logOf(name: string): (line: string) => void {
    const file = new LogFile(path.join(this.#platform.home.logs, `${name}.log`));
    return (line) => void file.write(`${line}\n`);
  }

  #refsOf = async (databaseIds: readonly string[]): Promise<ReadonlyMap<string, string>> => {
    const session = await this.#sessions().tenants('postgres');
    return refsOfDatabases(session, databaseIds).finally(() => session.end());
  };

  #kept(title: string, log: string, options: Omit<PostgresOptions, 'port' | 'signal'>): PostgresSupervisor {
    const { postgres: port } = this.#platform.settings.ports;
    return new PostgresSupervisor({ ...options, port, signal: this.#ending }, (delay) =>
      this.#say(`! ${title} ended; starting it again in ${(delay / 1000).toFixed(1)} s (${log}.log)`),
    );
  }

  async start(): Promise<void> {
    const results = await Promise.allSettled(this.#servers.map((server) => server.start()));
    for (const result of results) if (result.status === 'rejected') throw result.reason;
  }

  mustMove = (): Promise<boolean> => mustMove(this.#sessions());

  async move(onCopied: OnCopied): Promise<void> {
    const sessions = this.#sessions();
    const title = 'the move of the platform’s database';
    await expectFreeBytes(this.#platform.home.platformPostgres, await bytesToMove(sessions), title);
    await movePlatformDatabase(sessions, onCopied);
  }

  /** Makes missing parts of the platform's database, and reserves its name on the tenants' server. */
  async prepare(): Promise<void> {
    const { apiserverPassword, apiPassword } = this.#platform.secrets;
    const sessions = this.#sessions();
    await preparePlatformDatabase(sessions.platform, { apiserver: apiserverPassword, api: apiPassword });
    await leaveTenantsServer(sessions);
  }

  /** Drops the rest of a moved database on the tenants' server. Called once the platform is healthy with the copy. */
  dropMoved = (): Promise<void> => dropMovedDatabase(this.#sessions());

  #sessions(): Servers {
    const { home, secrets, settings } = this.#platform;
    const { postgres: port } = settings.ports;
    return {
      tenants: superuserSessions({ host: home.sockets.postgres, port, password: secrets.superuserPassword }),
      platform: superuserSessions({
        host: home.sockets.platformPostgres,
        port,
        password: secrets.platformSuperuserPassword,
      }),
    };
  }

  /** Writes changed pages to the disk while the programs stop, so that the checkpoint of the shutdown is short. */
  async checkpoint(): Promise<void> {
    const checkpoint = async (connect: Connect) => {
      const session = await connect('postgres');
      await session.query('CHECKPOINT').finally(() => session.end());
    };
    await Promise.allSettled(Object.values(this.#sessions()).map(checkpoint));
  }

  async stop(patienceMs: number): Promise<void> {
    await Promise.all(this.#servers.map((server) => server.stop(patienceMs)));
    this.#databaseLogs.close();
  }

  kill(): void {
    for (const server of this.#servers) server.kill();
  }
}
