/**
 * All projects that are open now: opened by their first request, given up when idle, changed or forgotten, bounded in
 * all.
 */
import type { Tenant } from '../tenant.js';
import type { SettingsSource } from './catalogue/settings.js';
import { TenantDatabase } from './tenant-database.js';

const IDLE_MS = 5 * 60_000;
const SWEEP_MS = 30_000;

export class TenantDatabases {
  /** Least recently used first. */
  private readonly open = new Map<string, TenantDatabase>();
  private readonly sweeper = setInterval(() => this.sweep(), SWEEP_MS).unref();

  constructor(
    private readonly settings: SettingsSource,
    private readonly connectionsPerProject: number,
    private readonly connections: number,
  ) {}

  of(tenant: Tenant): TenantDatabase {
    const { ref } = tenant;
    let database = this.open.get(ref);
    if (database) this.open.delete(ref);
    if (database && database.tenant !== tenant) {
      if (database.tenant.incarnation === tenant.incarnation) database.adopt(tenant);
      else {
        void database.pool.close();
        database = undefined;
      }
    }
    database ??= new TenantDatabase(tenant, this.settings, { connections: this.connectionsPerProject });
    database.usedAt = performance.now();
    this.open.set(ref, database);
    if (database.pool.size === 0) this.makeRoom();
    return database;
  }

  async forget(ref: string): Promise<void> {
    const database = this.open.get(ref);
    this.open.delete(ref);
    await database?.pool.close();
  }

  async close(): Promise<void> {
    clearInterval(this.sweeper);
    await Promise.all([...this.open.keys()].map((ref) => this.forget(ref)));
  }

  /** Another project is about to connect: those that were used longest ago give up connections that do nothing. */
  private makeRoom(): void {
    let held = this.connectionsPerProject;
    for (const { pool } of this.open.values()) held += pool.size;
    for (const { pool } of this.open.values()) {
      if (held <= this.connections) return;
      held -= pool.closeIdle();
    }
  }

  private sweep(): void {
    const before = performance.now() - IDLE_MS;
    for (const [ref, { usedAt }] of this.open) if (usedAt < before) void this.forget(ref);
  }
}
