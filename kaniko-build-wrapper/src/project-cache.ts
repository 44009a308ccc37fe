/**
 * The cache of one project: packages of each package manager, toolchains, and installed packages by lockfile. Only
 * builds of the project read and write it. At the start of each build, the least recently used entries are removed
 * until the cache is within its limit.
 */
import { createHash } from 'node:crypto';
import { chownSync, lstatSync, mkdirSync, readdirSync, realpathSync, renameSync, utimesSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import type { Account } from '@slipway/sandbox';
import { sizeOf } from './disk-watch.js';

const MANAGERS = ['npm', 'pnpm', 'yarn'];
const LIMIT_BYTES = 2 * 2 ** 30;
const ENTRIES = 20;

export class ProjectCache {
  readonly folder: string;

  constructor(
    folder: string,
    private readonly account: Account | undefined,
    private readonly limitBytes = LIMIT_BYTES,
  ) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.folder = realpathSync(folder);
    for (const packages of this.managers) this.#own(packages);
    for (const kind of ['toolchains', 'modules']) mkdirSync(path.join(this.folder, kind), { recursive: true });
  }

  /** Returns the folder of a package manager's downloads. */
  packages(manager: string): string {
    return path.join(this.folder, 'packages', manager);
  }

  /** Returns the folders of all package managers. */
  get managers(): string[] {
    return MANAGERS.map((manager) => this.packages(manager));
  }

  get toolchains(): string {
    return path.join(this.folder, 'toolchains');
  }

  /** Moves the packages that were installed for the same key into the project. Returns false if there are none. */
  restoreModules(key: string, project: string): boolean {
    const target = path.join(project, 'node_modules');
    if (lstatSync(target, { throwIfNoEntry: false })) return false;
    return isMoved(this.#modules(key), target);
  }

  /**
   * Moves the installed packages into the cache. `project` is a real path. If the tenant's commands replaced a part of
   * it by a link, nothing is moved.
   */
  async keepModules(key: string, project: string): Promise<void> {
    const source = path.join(project, 'node_modules');
    if (!lstatSync(source, { throwIfNoEntry: false })?.isDirectory() || realpathSync(source) !== source) return;
    await rm(this.#modules(key), { recursive: true, force: true });
    if (isMoved(source, this.#modules(key))) this.used(this.#modules(key));
  }

  used(entry: string): void {
    const now = new Date();
    utimesSync(entry, now, now);
  }

  /** Removes entries until the cache is within its limit. */
  async trim(): Promise<void> {
    const entries = await Promise.all(this.#entries().map(sized));
    entries.sort((a, b) => b.usedAt - a.usedAt);
    let bytes = 0;
    for (const [index, entry] of entries.entries()) {
      bytes += entry.bytes;
      if (bytes > this.limitBytes || index >= ENTRIES) await rm(entry.place, { recursive: true, force: true });
    }
  }

  #entries(): string[] {
    const folders = ['packages', 'toolchains', 'modules'].map((kind) => path.join(this.folder, kind));
    return folders.flatMap((folder) => readdirSync(folder).map((name) => path.join(folder, name)));
  }

  #modules(key: string): string {
    return path.join(this.folder, 'modules', key);
  }

  #own(folder: string): void {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    if (this.account) chownSync(folder, this.account.uid, this.account.gid);
  }
}

/** Returns the key under which installed packages are stored. */
export const modulesKey = (...parts: readonly string[]): string =>
  createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32);

async function sized(place: string): Promise<{ place: string; bytes: number; usedAt: number }> {
  const { mtimeMs } = lstatSync(place);
  return { place, usedAt: mtimeMs, bytes: (await sizeOf([place])).bytes };
}

function isMoved(from: string, to: string): boolean {
  try {
    renameSync(from, to);
    return true;
  } catch {
    return false;
  }
}
