/**
 * Counts each project's bytes in storage, and rejects those beyond its quota. In: the bytes that uploads and copies are
 * about to write. Out: a reservation, made before the first byte is written, so that concurrent uploads can't exceed
 * the quota. Used by uploads, copies and the collector.
 *
 * The content store is authoritative, not rows, which a project's owner can change. A project is counted there at its
 * first upload, by each collection, and if content was removed and an upload would otherwise be rejected.
 */
import type { Plan } from '@slipway/crds';
import { STORAGE_BYTES } from '@slipway/installation';
import type { BackendTenant } from '../../projects/tenant.js';
import type { DiskReserve } from './disk-reserve.js';
import { diskFull, storageFull } from './errors.js';

/** Quota of all projects of an account, as a multiple of its largest plan. */
const PROJECTS_OF_ACCOUNT = 4;
/** Seconds until the next count of a project, as a multiple of the seconds that the last count took. */
const PAUSE_PER_COUNT = 10;
/** Number of bytes that are reserved at a time for an upload of unknown length. */
const STEP = 2 ** 20;

export interface Reservation {
  /** Reserves the missing bytes for a total of `size`. Throws storageFull(). */
  grow(size: number): void;
  /** Records `size` bytes as used, by default all reserved ones, and releases the rest. */
  keep(size?: number): void;
  /** Releases the reservation, because nothing was written. Does nothing after `keep`. */
  release(): void;
}

interface Counted {
  tenant: BackendTenant;
  /** Number of bytes in the store and of reserved bytes. */
  used: number;
  reserved: number;
  countedAt: number;
  /** Duration of the last count, in milliseconds. */
  countMs: number;
  /** True if content was removed since the last count. */
  isStale: boolean;
  counting?: Promise<void> | undefined;
}

interface Reserving {
  usage: StorageUsage;
  request: { tenant: BackendTenant };
}

/** Reserves `bytes` before `work` writes them, and releases them if it fails. */
export async function reserving<T>(
  { usage, request: { tenant } }: Reserving,
  bytes: number,
  work: (reservation: Reservation) => Promise<T>,
): Promise<T> {
  const reservation = await usage.reserve(tenant, bytes);
  try {
    const result = await work(reservation);
    reservation.keep();
    return result;
  } catch (error) {
    reservation.release();
    // Content that may or may not be named stays, and counts.
    usage.removed(tenant.ref);
    throw error;
  }
}

export class StorageUsage {
  readonly #projects = new Map<string, Counted>();

  constructor(
    /** Returns the bytes in the store of a project, including open resumable uploads. */
    private readonly count: (ref: string) => Promise<number>,
    private readonly disk: DiskReserve,
    private readonly quotas: Readonly<Record<Plan, number>> = STORAGE_BYTES,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Reserves `bytes`: the whole upload, or 0 if its length is unknown. Throws storageFull() or diskFull(). */
  async reserve(tenant: BackendTenant, bytes: number): Promise<Reservation> {
    if (!(await this.disk.hasRoom(bytes))) throw diskFull();
    const project = await this.#counted(tenant);
    // An upload of unknown length can't wait for a count once it has started.
    if (!this.#fits(project, Math.max(bytes, STEP))) await this.#countStale(project);
    return this.#reserved(project, bytes);
  }

  /** Records that `bytes` were removed; undefined: an unknown number. */
  removed(ref: string, bytes?: number): void {
    const project = this.#projects.get(ref);
    if (!project) return;
    if (bytes === undefined) project.isStale = true;
    else project.used = Math.max(project.used - bytes, 0);
  }

  async of(tenant: BackendTenant): Promise<{ used: number; limit: number }> {
    const project = await this.#counted(tenant);
    await this.#countStale(project);
    return { used: project.used, limit: this.quotas[tenant.plan] };
  }

  /** Counts the content of a project in the store. */
  async refresh(tenant: BackendTenant): Promise<void> {
    const project = await this.#counted(tenant);
    await this.#recount(project);
  }

  forget(ref: string): void {
    const project = this.#projects.get(ref);
    // Uploads in progress still have their reservations.
    if (project && project.reserved === 0) this.#projects.delete(ref);
  }

  #reserved(project: Counted, bytes: number): Reservation {
    let reserved = 0;
    let isOpen = true;
    const take = (more: number) => {
      if (!this.#fits(project, more)) throw storageFull(this.quotas[project.tenant.plan]);
      project.reserved += more;
      reserved += more;
    };
    take(bytes);
    const end = (kept: number) => {
      if (!isOpen) return;
      isOpen = false;
      project.reserved -= reserved;
      project.used += kept;
    };
    return {
      grow: (size) => {
        if (size > reserved) take(Math.max(size - reserved, Math.min(STEP, this.#room(project))));
      },
      keep: (size = reserved) => end(size),
      release: () => end(0),
    };
  }

  #fits(project: Counted, bytes: number): boolean {
    return bytes <= this.#room(project);
  }

  /** Returns the bytes that the project may still write. */
  #room(project: Counted): number {
    const own = this.quotas[project.tenant.plan] - project.used - project.reserved;
    const { account } = project.tenant.authenticator;
    if (account === undefined) return own;
    let [ofAccount, quota] = [0, 0];
    for (const { tenant, used, reserved } of this.#projects.values()) {
      if (tenant.authenticator.account !== account) continue;
      ofAccount += used + reserved;
      quota = Math.max(quota, this.quotas[tenant.plan] * PROJECTS_OF_ACCOUNT);
    }
    return Math.min(own, quota - ofAccount);
  }

  async #counted(tenant: BackendTenant): Promise<Counted> {
    let project = this.#projects.get(tenant.ref);
    if (!project) {
      project = { tenant, used: 0, reserved: 0, countedAt: -Infinity, countMs: 0, isStale: true };
      this.#projects.set(tenant.ref, project);
    }
    project.tenant = tenant;
    if (project.countedAt === -Infinity) await this.#recount(project);
    return project;
  }

  async #countStale(project: Counted): Promise<void> {
    const isDue = this.now() - project.countedAt >= project.countMs * PAUSE_PER_COUNT;
    if (project.isStale && isDue) await this.#recount(project);
  }

  /**
   * Counts again. Bytes that are written in the meantime may be counted twice until the next count, but never missed.
   */
  #recount(project: Counted): Promise<void> {
    project.counting ??= (async () => {
      project.isStale = false;
      const [before, began] = [project.used, this.now()];
      // If the store is unavailable, the next upload counts; this one fails or waits by itself.
      const counted = await this.count(project.tenant.ref).catch(() => undefined);
      if (counted === undefined) return;
      const kept = project.used - before;
      project.used = counted + Math.max(kept, 0);
      if (kept !== 0 || project.reserved > 0) project.isStale = true;
      project.countedAt = this.now();
      project.countMs = project.countedAt - began;
    })().finally(() => {
      project.counting = undefined;
    });
    return project.counting;
  }
}
