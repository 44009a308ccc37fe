/**
 * The cache of one project: packages of each package manager, toolchains, and installed packages by lockfile. Only
 * builds of the project read and write it. Between builds, `trimCache` removes the least recently used entries.
 */
import { createHash } from 'node:crypto';
import { chownSync, lstatSync, mkdirSync, realpathSync, renameSync, utimesSync } from 'node:fs';
import { lstat, rm } from 'node:fs/promises';
import path from 'node:path';
import { namesIn, unlessMissing } from '@slipway/program';
import type { Account } from '@slipway/sandbox';
import { sizeOf } from './disk-watch.js';

const MANAGERS = ['npm', 'pnpm', 'yarn'];
/** The folders of a cache. Each has one folder for each entry. */
const KINDS = ['packages', 'toolchains', 'modules'];
const LIMIT_BYTES = 2 * 2 ** 30;
const ENTRIES = 20;

export class ProjectCache {
  readonly folder: string;

  constructor(
    folder: string,
    private readonly account: Account | undefined,
  ) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    this.folder = realpathSync(folder);
    for (const packages of this.managers) this.#own(packages);
    for (const kind of KINDS.slice(1)) mkdirSync(path.join(this.folder, kind), { recursive: true });
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

/**
 * Removes the least recently used entries of a cache that no build uses, until it is within its limit. Returns the
 * bytes that are left. Ends early if `signal` aborts.
 */
export async function trimCache(folder: string, signal?: AbortSignal, limitBytes = LIMIT_BYTES): Promise<number> {
  const entries = await entriesOf(folder, signal);
  entries.sort((a, b) => b.usedAt - a.usedAt);
  let [bytes, left] = [0, 0];
  for (const [index, entry] of entries.entries()) {
    bytes += entry.bytes;
    if (bytes <= limitBytes && index < ENTRIES) left = bytes;
    else if (!signal?.aborted) await rm(entry.place, { recursive: true, force: true });
  }
  return left;
}

interface Entry {
  place: string;
  bytes: number;
  usedAt: number;
}

async function entriesOf(folder: string, signal: AbortSignal | undefined): Promise<Entry[]> {
  const entries: Entry[] = [];
  for (const kind of KINDS) {
    for (const name of await namesIn(path.join(folder, kind))) {
      if (signal?.aborted) return [];
      const place = path.join(folder, kind, name);
      const { mtimeMs = 0 } = (await lstat(place).catch(unlessMissing)) ?? {};
      entries.push({ place, usedAt: mtimeMs, bytes: (await sizeOf([place])).bytes });
    }
  }
  return entries;
}

function isMoved(from: string, to: string): boolean {
  try {
    renameSync(from, to);
    return true;
  } catch {
    return false;
  }
}
