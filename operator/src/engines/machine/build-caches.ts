/**
 * Caches of builds, one folder for each builder: a site's, or its previews'. In: the ends of builds. Out: caches within
 * their limit, and their sizes. No build uses a cache while it is trimmed.
 */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdir, rename } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { trimCache } from '@slipway/kaniko-build-wrapper';
import { namesIn, unlessMissing } from '@slipway/program';
import type { Logger } from 'pino';

const run = promisify(execFile);
const REMOVAL_MS = 10 * 60_000;
/** Prefix of the names of caches that are being deleted. No ref begins with it. */
const CLEARED = '.cleared-';

interface Trim {
  stop: AbortController;
  ended: Promise<void>;
}

export class BuildCaches {
  /** Sizes in bytes after the last trim, by builder. */
  readonly #bytes = new Map<string, number>();
  readonly #trims = new Map<string, Trim>();
  readonly #used = new Set<string>();

  constructor(
    private readonly folder: string,
    private readonly log: Logger,
  ) {}

  /** Deletes caches that an earlier process had begun to delete, and trims the others one after another. */
  async begin(): Promise<void> {
    const names = await namesIn(this.folder);
    for (const name of names.filter(isCleared)) await removed(path.join(this.folder, name));
    for (const builder of names) if (!isCleared(builder) && !this.#used.has(builder)) await this.#trim(builder);
  }

  /** Returns the folder of a builder's cache, once no trim changes it. The build uses it until `release`. */
  async open(builder: string): Promise<string> {
    this.#used.add(builder);
    const trim = this.#trims.get(builder);
    trim?.stop.abort();
    await trim?.ended;
    const folder = this.#folderOf(builder);
    await mkdir(folder, { recursive: true, mode: 0o711 });
    return folder;
  }

  /** Ends the use of a builder's cache, and trims it. */
  release(builder: string): void {
    if (this.#used.delete(builder)) void this.#trim(builder);
  }

  /** Stops trimming. */
  async close(): Promise<void> {
    const trims = [...this.#trims.values()];
    for (const { stop } of trims) stop.abort();
    await Promise.all(trims.map(({ ended }) => ended));
  }

  /** Never rejects. */
  #trim(builder: string): Promise<void> {
    const stop = new AbortController();
    const before = this.#trims.get(builder)?.ended;
    const work = async () => {
      await before;
      const bytes = await trimCache(this.#folderOf(builder), stop.signal);
      if (!stop.signal.aborted) this.#bytes.set(builder, bytes);
    };
    const ended = work()
      .catch((error: Error) => this.log.warn({ builder, why: error.message }, 'build cache not trimmed'))
      .finally(() => {
        if (this.#trims.get(builder)?.stop === stop) this.#trims.delete(builder);
      });
    this.#trims.set(builder, { stop, ended });
    return ended;
  }

  /** Returns the size in bytes as of the last trim. */
  bytes(builder: string): number {
    return this.#bytes.get(builder) ?? 0;
  }

  /** Empties the cache of a builder that has no build. */
  async clear(builder: string): Promise<void> {
    this.#trims.get(builder)?.stop.abort();
    this.#bytes.delete(builder);
    const cleared = path.join(this.folder, `${CLEARED}${randomUUID()}`);
    // One rename, so that no build uses a partly deleted cache.
    const isMoved = await rename(this.#folderOf(builder), cleared).then(() => true, unlessMissing);
    if (!isMoved) return;
    removed(cleared).catch((error: Error) => this.log.warn({ builder, why: error.message }, 'cache not deleted'));
  }

  async remove(builder: string): Promise<void> {
    const trim = this.#trims.get(builder);
    trim?.stop.abort();
    await trim?.ended;
    this.#bytes.delete(builder);
    await removed(this.#folderOf(builder));
  }

  #folderOf(builder: string): string {
    return path.join(this.folder, builder);
  }
}

const isCleared = (name: string) => name.startsWith(CLEARED);

/**
 * Deletes a folder in which a build could write. It may have tens of thousands of files, some of them without any
 * permission. Another process deletes it, as this one has other work.
 */
export async function removed(folder: string): Promise<void> {
  const script = 'test -e "$1" || exit 0; chmod -R u+rwX -- "$1"; rm -rf -- "$1"';
  await run('/bin/sh', ['-c', script, 'sh', folder], { timeout: REMOVAL_MS, env: { PATH: '/usr/bin:/bin' } });
}
