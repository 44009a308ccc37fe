/**
 * Connection pools of projects' databases. A pool is opened on first use and closed when its project moves to another
 * database. The number of connections of all projects is limited.
 */

import type { Pool } from '../sql/pool.js';
import type { BackendTenant } from './tenant.js';

export interface OpenDatabase {
  readonly tenant: BackendTenant;
  readonly pool: Pool;
  /** Adopts changed keys, settings or passwords of the same database. */
  adopt(tenant: BackendTenant): void;
}

export interface ConnectionBounds {
  ofProject: number;
  /**
   * Maximum number of connections of all projects. Beyond it, idle connections of the least recently used projects are
   * closed.
   */
  ofAll: number;
}

export class TenantPools<T extends OpenDatabase> {
  /** Open databases, least recently used first. */
  readonly #open = new Map<string, T>();

  constructor(
    private readonly bounds: ConnectionBounds,
    private readonly make: (tenant: BackendTenant) => T,
  ) {}

  of(tenant: BackendTenant): T {
    let database = this.#open.get(tenant.ref);
    this.#open.delete(tenant.ref);
    if (database && database.tenant.incarnation !== tenant.incarnation) {
      void database.pool.close();
      database = undefined;
    }
    if (database && database.tenant !== tenant) database.adopt(tenant);
    database ??= this.make(tenant);
    this.#open.set(tenant.ref, database);
    if (database.pool.size === 0) this.#makeRoom();
    return database;
  }

  /** Returns the open databases, least recently used first. */
  all(): IterableIterator<T> {
    return this.#open.values();
  }

  async forget(ref: string): Promise<void> {
    const database = this.#open.get(ref);
    this.#open.delete(ref);
    await database?.pool.close();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#open.keys()].map((ref) => this.forget(ref)));
  }

  /** Closes idle connections of the least recently used projects, before another project connects. */
  #makeRoom(): void {
    let connections = this.bounds.ofProject;
    for (const { pool } of this.#open.values()) connections += pool.size;
    for (const { pool } of this.#open.values()) {
      if (connections <= this.bounds.ofAll) return;
      connections -= pool.closeIdle();
    }
  }
}
