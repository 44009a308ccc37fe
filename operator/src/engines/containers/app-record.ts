/**
 * The versions of one app, in a file: which are kept, which one serves, and which one should. In: results of builds,
 * and rollbacks. Out: the same after a restart of the platform. One process writes it.
 */
import { mkdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { parseJson, replaceFile, unlessMissing } from '@slipway/program';

export interface AppVersion {
  build: string;
  /** The image's id. */
  image: string;
}

export interface AppVersions {
  /** The version that serves, or served last. */
  live?: string;
  /** The version that should serve. Undefined: the live one. */
  wanted?: string;
  /** The newest is the last. */
  kept: readonly AppVersion[];
}

const MOST_OF_RECORD = { bytes: 64 * 1024, depth: 4, values: 2_000 };
const NONE: AppVersions = { kept: [] };

export class AppRecord {
  #versions: AppVersions | undefined;
  #changing: Promise<void> = Promise.resolve();

  constructor(private readonly file: string) {}

  async read(): Promise<AppVersions> {
    if (this.#versions) return this.#versions;
    const text = await readFile(this.file).catch(unlessMissing);
    // Another call may have written in the meantime.
    this.#versions ??= text ? (parseJson(text, MOST_OF_RECORD) as AppVersions) : NONE;
    return this.#versions;
  }

  /** Changes run one after another. */
  change(edit: (versions: AppVersions) => AppVersions): Promise<void> {
    const changed = this.#changing.then(async () => {
      const before = await this.read();
      const after = edit(before);
      if (after === before) return;
      await mkdir(path.dirname(this.file), { recursive: true, mode: 0o700 });
      await replaceFile(this.file, JSON.stringify(after));
      this.#versions = after;
    });
    this.#changing = changed.catch(() => undefined);
    return changed;
  }
}

export const versionIn = ({ kept }: AppVersions, build: string | undefined): AppVersion | undefined =>
  kept.find((version) => version.build === build);

export const withoutWanted = ({ wanted: _, ...versions }: AppVersions): AppVersions => versions;
