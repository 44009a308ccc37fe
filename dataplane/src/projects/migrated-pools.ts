/**
 * Connection pools of a service that has a schema in each project's database. The first use of a pool migrates the
 * schema, so that this release also serves projects of an older release.
 */
import { scramOnly } from '@slipway/installation';
import { type Migration, unknownMigration } from '@slipway/project-database';
import pg from 'pg';
import { boundedSocket, JOB_BYTES } from '../sql/bounded-socket.js';
import type { Login } from '../sql/login.js';
import { Pool, type PoolLimits } from '../sql/pool.js';
import type { BackendTenant } from './tenant.js';
import { type OpenDatabase, TenantPools } from './tenant-pools.js';

export interface ServiceSchema {
  limits: Partial<PoolLimits> & { connections: number };
  /** Maximum number of connections of all projects together. */
  connections: number;
  /** Login of the service's queries. */
  login(tenant: BackendTenant): Login;
  /** Login of the migrations. */
  migrator(tenant: BackendTenant): Login;
  migrations: readonly Migration[];
  migrate(client: pg.Client): Promise<unknown>;
  /** Returns the versions of the migrations that the database has. */
  applied(pool: Pool): Promise<Set<unknown>>;
}

class MigratedDatabase implements OpenDatabase {
  readonly pool: Pool;
  #ready: Promise<void> | undefined;

  constructor(
    public tenant: BackendTenant,
    private readonly schema: ServiceSchema,
  ) {
    this.pool = new Pool(schema.login(tenant), schema.limits);
  }

  adopt(tenant: BackendTenant): void {
    this.tenant = tenant;
    this.pool.useLogin(this.schema.login(tenant));
  }

  ready(): Promise<void> {
    this.#ready ??= this.#bringUpToDate().catch((error: unknown) => {
      this.#ready = undefined;
      throw error;
    });
    return this.#ready;
  }

  async #bringUpToDate(): Promise<void> {
    const { migrations, migrate, migrator, applied: versionsIn } = this.schema;
    const applied = await versionsIn(this.pool);
    const isUpToDate = migrations.every(({ version }) => applied.has(version));
    // The migration rejects a schema of a newer release, by the migration's name.
    if (isUpToDate && unknownMigration(migrations, applied) === undefined) return;
    const client = scramOnly(
      new pg.Client({ ...migrator(this.tenant), application_name: 'slipway', stream: () => boundedSocket(JOB_BYTES) }),
    );
    client.on('error', () => undefined);
    await client.connect();
    try {
      await migrate(client);
    } finally {
      await client.end();
    }
  }
}

export class MigratedPools {
  readonly #pools: TenantPools<MigratedDatabase>;

  constructor(schema: ServiceSchema) {
    const bounds = { ofProject: schema.limits.connections, ofAll: schema.connections };
    this.#pools = new TenantPools(bounds, (tenant) => new MigratedDatabase(tenant, schema));
  }

  /** Returns the project's pool once its schema is current. */
  async pool(tenant: BackendTenant): Promise<Pool> {
    const database = this.#pools.of(tenant);
    await database.ready();
    return database.pool;
  }

  forget(ref: string): Promise<void> {
    return this.#pools.forget(ref);
  }

  close(): Promise<void> {
    return this.#pools.close();
  }
}
