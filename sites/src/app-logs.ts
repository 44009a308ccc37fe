/**
 * Stores the newest output of apps in a folder, as `<ref>/<start>.log`. `<start>` is the number of bytes of the output
 * before the file, so that a position stays valid while old output is deleted. One process appends while others read.
 */
import { appendFile, mkdir, open, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { namesIn, unlessMissing } from '@slipway/program';
import { checkedName } from './names.js';

/** The output that is kept: positions in the whole output, in bytes. */
export interface KeptOutput {
  start: number;
  end: number;
}

/** Each file has at most this share of the limit, so that as much of the limit is lost when the oldest is deleted. */
const FILES = 8;
const FILE = /^(\d{1,15})\.log$/;

export class AppLogs {
  constructor(readonly folder: string) {}

  /** Appends to the output. Deletes the oldest files of more than `limit` bytes. */
  async append(ref: string, bytes: Buffer, limit: number): Promise<void> {
    const folder = this.#of(ref);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const files = await this.#files(ref);
    const last = files.at(-1);
    const isFull = last !== undefined && last.bytes + bytes.length > limit / FILES;
    const start = last === undefined ? 0 : isFull ? last.start + last.bytes : last.start;
    await appendFile(path.join(folder, `${start}.log`), bytes, { mode: 0o600 });
    let kept = bytes.length;
    for (const file of files.toReversed()) {
      kept += file.bytes;
      if (kept > limit) await rm(path.join(folder, `${file.start}.log`), { force: true });
    }
  }

  async kept(ref: string): Promise<KeptOutput> {
    const files = await this.#files(ref);
    const [first, last] = [files[0], files.at(-1)];
    return { start: first?.start ?? 0, end: last === undefined ? 0 : last.start + last.bytes };
  }

  /** Returns at most `most` bytes from `position`. Returns no bytes where none are kept. */
  async read(ref: string, position: number, most: number): Promise<Buffer> {
    const file = (await this.#files(ref)).findLast(({ start }) => start <= position);
    const handle = file && (await open(path.join(this.#of(ref), `${file.start}.log`), 'r').catch(unlessMissing));
    if (!file || !handle) return Buffer.alloc(0);
    try {
      const buffer = Buffer.alloc(Math.max(0, Math.min(most, file.start + file.bytes - position)));
      const { bytesRead } = await handle.read(buffer, 0, buffer.length, position - file.start);
      return buffer.subarray(0, bytesRead);
    } finally {
      await handle.close();
    }
  }

  /** Returns the bytes that the output of a project has on the disk. */
  async bytes(ref: string): Promise<number> {
    return (await this.#files(ref)).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  async remove(ref: string): Promise<void> {
    await rm(this.#of(ref), { recursive: true, force: true });
  }

  /** Returns the files, the oldest first. */
  async #files(ref: string): Promise<{ start: number; bytes: number }[]> {
    const starts = (await namesIn(this.#of(ref))).flatMap((name) => FILE.exec(name)?.[1] ?? []).map(Number);
    const files = [];
    for (const start of starts.sort((a, b) => a - b)) {
      const found = await stat(path.join(this.#of(ref), `${start}.log`)).catch(unlessMissing);
      if (found) files.push({ start, bytes: found.size });
    }
    return files;
  }

  #of(ref: string): string {
    return path.join(this.folder, checkedName(ref));
  }
}
