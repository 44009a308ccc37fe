/**
 * The open databases of projects. A database is opened by its first request, and closed when it is idle, changed or
 * deleted. Their number is limited.
 */

import type { BackendTenant } from '../../projects/tenant.js';
import { type ConnectionBounds, TenantPools } from '../../projects/tenant-pools.js';
import type { SettingsSource } from './catalogue/settings.js';
import { TenantDatabase } from './tenant-database.js';

const IDLE_MS = 5 * 60_000;
const SWEEP_MS = 30_000;
/** Maximum bytes of the cached catalogues of all projects. Decoded, they take about five times as much. */
const MOST_CATALOGUE_BYTES = 48 * 1024 * 1024;

export class TenantDatabases {
  private readonly open: TenantPools<TenantDatabase>;
  private readonly sweeper = setInterval(() => this.sweep(), SWEEP_MS).unref();

  constructor(
    private readonly settings: SettingsSource,
    private readonly bounds: ConnectionBounds,
    private readonly catalogueBytes = MOST_CATALOGUE_BYTES,
  ) {
    this.open = new TenantPools(bounds, (tenant) => this.newDatabase(tenant));
  }

  of(tenant: BackendTenant): TenantDatabase {
    const database = this.open.of(tenant);
    database.usedAt = performance.now();
    return database;
  }

  forget(ref: string): Promise<void> {
    return this.open.forget(ref);
  }

  async close(): Promise<void> {
    clearInterval(this.sweeper);
    await this.open.close();
  }

  private newDatabase(tenant: BackendTenant): TenantDatabase {
    const limits = { connections: this.bounds.ofProject };
    return new TenantDatabase(tenant, { settings: this.settings, limits, onCatalogue: () => this.dropCatalogues() });
  }

  /** Evicts catalogues until the others fit: of the account with the most bytes, the least recently used first. */
  private dropCatalogues(): void {
    const accountOf = ({ tenant }: TenantDatabase) => tenant.authenticator.account ?? tenant.ref;
    const bytesOf = new Map<string, number>();
    let sum = 0;
    for (const database of this.open.all()) {
      const account = accountOf(database);
      bytesOf.set(account, (bytesOf.get(account) ?? 0) + database.catalogueBytes);
      sum += database.catalogueBytes;
    }
    while (sum > this.catalogueBytes) {
      const [most] = [...bytesOf].reduce((one, other) => (other[1] > one[1] ? other : one));
      const oldest = [...this.open.all()].find((each) => each.catalogueBytes > 0 && accountOf(each) === most);
      if (!oldest) return;
      sum -= oldest.catalogueBytes;
      bytesOf.set(most, (bytesOf.get(most) as number) - oldest.catalogueBytes);
      oldest.dropCatalogue();
    }
  }

  private sweep(): void {
    const before = performance.now() - IDLE_MS;
    for (const { usedAt, tenant } of this.open.all()) if (usedAt < before) void this.forget(tenant.ref);
  }
}
