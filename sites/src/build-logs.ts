/**
 * Stores the output of builds in a folder, as `<ref>/<build>/<n>-<section>.log`. `<n>` is the position of the section
 * in the log. One process writes the log of a build while others read it. The writer only appends to a section, and
 * stops once the next section begins.
 */
import { constants } from 'node:fs';
import { type FileHandle, mkdir, open, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { namesIn, unlessMissing } from '@slipway/program';
import { checkedName } from './names.js';

export interface LogSection {
  section: string;
  /** Length of the section's text in bytes. */
  bytes: number;
}

/** Maximum bytes of all logs of a project. */
const MOST_OF_PROJECT = 20 * 1024 * 1024;
/** Number of a project's logs that are written at the same time. */
const WRITTEN = 2;
const FILE = /^(\d{1,3})-([A-Za-z]{1,32})\.log$/;

export class BuildLogs {
  constructor(readonly folder: string) {}

  /** Replaces the log of the build with an empty one. Bytes above `limit` are dropped. */
  async write(ref: string, build: string, limit: number): Promise<BuildLogWriter> {
    await this.clear(ref, build);
    const folder = this.#build(ref, build);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    return new BuildLogWriter(folder, limit);
  }

  /**
   * Writes at a position of a section, for a writer that may start again with the same text. The first section has the
   * number 1. Bytes above `limit` of the section are dropped.
   */
  async put(
    ref: string,
    build: string,
    { number, section }: { number: number; section: string },
    piece: { at: number; bytes: Buffer; limit: number },
  ): Promise<void> {
    const name = `${number}-${section}.log`;
    if (!FILE.test(name)) throw new Error(`${JSON.stringify(name.slice(0, 100))} is not a valid section name`);
    const folder = this.#build(ref, build);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const handle = await open(path.join(folder, name), constants.O_WRONLY | constants.O_CREAT, 0o600);
    try {
      const kept = piece.bytes.subarray(0, Math.max(0, piece.limit - piece.at));
      await handle.write(kept, 0, kept.length, piece.at);
    } finally {
      await handle.close();
    }
  }

  /** Deletes the log of the build. */
  async clear(ref: string, build: string): Promise<void> {
    await rm(this.#build(ref, build), { recursive: true, force: true });
  }

  /** Returns the sections in order, or none if the build has no log. */
  async sections(ref: string, build: string): Promise<LogSection[]> {
    const found: LogSection[] = [];
    for (const file of await this.#files(ref, build)) {
      const handle = await open(path.join(this.#build(ref, build), file.name), 'r').catch(unlessMissing);
      if (!handle) continue;
      found.push({ section: file.section, bytes: (await handle.stat()).size });
      await handle.close();
    }
    return found;
  }

  /**
   * Returns at most `most` bytes from `position`, which counts across all sections. Returns no bytes at the end of the
   * log.
   */
  async read(ref: string, build: string, position: number, most: number): Promise<Buffer> {
    let before = 0;
    for (const { name } of await this.#files(ref, build)) {
      const handle = await open(path.join(this.#build(ref, build), name), 'r').catch(unlessMissing);
      if (!handle) continue;
      try {
        const { size } = await handle.stat();
        if (position < before + size) {
          const buffer = Buffer.alloc(Math.min(most, before + size - position));
          const { bytesRead } = await handle.read(buffer, 0, buffer.length, position - before);
          return buffer.subarray(0, bytesRead);
        }
        before += size;
      } finally {
        await handle.close();
      }
    }
    return Buffer.alloc(0);
  }

  /** Returns the bytes of all logs of the project. */
  async bytes(ref: string): Promise<number> {
    return (await this.#logs(ref)).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Deletes the logs of all other builds. Of these, deletes the oldest beyond the limit of a project. */
  async keepOnly(ref: string, builds: ReadonlySet<string>): Promise<void> {
    let bytes = 0;
    for (const [index, log] of (await this.#logs(ref)).entries()) {
      if (builds.has(log.build)) bytes += log.bytes;
      // Builds of the site and of a preview may write to the newest ones, and to those without a byte.
      const isExcess = bytes > MOST_OF_PROJECT && index >= WRITTEN && log.bytes > 0;
      if (!builds.has(log.build) || isExcess) await this.clear(ref, log.build);
    }
  }

  /** Returns the logs of a project, the newest first. */
  async #logs(ref: string): Promise<{ build: string; bytes: number; writtenAt: number }[]> {
    const logs = [];
    for (const build of await namesIn(path.join(this.folder, checkedName(ref)))) {
      let [bytes, writtenAt] = [0, 0];
      for (const { name } of await this.#files(ref, build)) {
        const { size = 0, mtimeMs = 0 } =
          (await stat(path.join(this.#build(ref, build), name)).catch(unlessMissing)) ?? {};
        [bytes, writtenAt] = [bytes + size, Math.max(writtenAt, mtimeMs)];
      }
      logs.push({ build, bytes, writtenAt });
    }
    return logs.sort((a, b) => b.writtenAt - a.writtenAt);
  }

  async remove(ref: string): Promise<void> {
    await rm(path.join(this.folder, checkedName(ref)), { recursive: true, force: true });
  }

  async #files(ref: string, build: string): Promise<{ name: string; section: string }[]> {
    const names = await namesIn(this.#build(ref, build));
    return names
      .flatMap((name) => {
        const [, number, section] = FILE.exec(name) ?? [];
        return section === undefined ? [] : [{ name, section, number: Number(number) }];
      })
      .sort((a, b) => a.number - b.number);
  }

  #build(ref: string, build: string): string {
    return path.join(this.folder, checkedName(ref), checkedName(build));
  }
}

/** Runs writes one after another. Drops bytes above the limit, and appends one line that reports the loss. */
export class BuildLogWriter {
  #section: { name: string; handle: FileHandle } | undefined;
  #number = 0;
  #left: number;
  #last: Promise<void> = Promise.resolve();

  constructor(
    private readonly folder: string,
    limit: number,
  ) {
    this.#left = limit;
  }

  append(section: string, text: string): void {
    if (this.#left <= 0) return;
    const data = Buffer.from(text);
    const kept = data.subarray(0, this.#left);
    this.#left -= data.length;
    const note = this.#left <= 0 ? '\n… the rest of the log is not kept\n' : '';
    this.#last = this.#last.then(async () => {
      const handle = await this.#of(section);
      await handle.appendFile(kept);
      if (note) await handle.appendFile(note);
    });
    // `end` reports the failure.
    this.#last.catch(() => undefined);
  }

  /** Resolves when everything is written. */
  async end(): Promise<void> {
    this.#left = 0;
    try {
      await this.#last;
    } finally {
      await this.#section?.handle.close();
      this.#section = undefined;
    }
  }

  async #of(section: string): Promise<FileHandle> {
    if (this.#section?.name === section) return this.#section.handle;
    await this.#section?.handle.close();
    this.#section = undefined;
    this.#number += 1;
    const handle = await open(path.join(this.folder, `${this.#number}-${section}.log`), 'ax', 0o600);
    this.#section = { name: section, handle };
    return handle;
  }
}
