/**
 * Stores deployed functions on disk, so that they serve right after a start. The EdgeFunction resources are
 * authoritative; the disk has the operator's last request, which the operator repeats. Layout:
 * `<ref>/<name>/<version>/index.ts`, `<ref>/<name>/current.json`, and `<ref>/.cache` for the project's imports. Files
 * are written by rename, so a kill leaves the old or the new one.
 */

import { createHash } from 'node:crypto';
import { chown, lstat, mkdir, open, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseJson } from '@slipway/program';
import { accountOf } from '@slipway/sandbox';

export interface Deployment {
  version: number;
  verifyJwt: boolean;
  /** SHA-256 of the source. */
  digest: string;
}

export type StoredFunction = { ref: string; name: string } & (
  | { deployment: Deployment }
  /** Reason why the function on disk can't be served. A deploy repairs it. */
  | { unreadable: string }
);

const NAME = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$/;
const REF = /^[a-z0-9][a-z0-9-]{0,62}$/;

/** True if the text is safe as a part of a path here. */
export const isStorable = (ref: string, name: string) => REF.test(ref) && NAME.test(name);

export const digestOf = (code: string | Buffer) => createHash('sha256').update(code).digest('base64url');

const CURRENT = 'current.json';
const SOURCE = 'index.ts';
const CACHE = '.cache';
/** Paths at which Deno would store data of running functions without a limit. A file at the path prevents this. */
const CLOSED = ['location_data', 'gen/blob', 'gen/data'];

export class FunctionStore {
  constructor(private readonly root: string) {}

  /**
   * Reads all deployed functions. Damaged files disable one function, or the functions of one project. Never throws.
   */
  async all(): Promise<StoredFunction[]> {
    const all: StoredFunction[] = [];
    for (const ref of await list(this.root)) {
      const cacheProblem = await this.#openCache(ref);
      for (const name of await list(path.join(this.root, ref))) {
        if (!isStorable(ref, name)) continue;
        const stored = await this.#read(ref, name);
        if (stored === undefined) continue;
        all.push(cacheProblem === undefined ? { ref, name, ...stored } : { ref, name, unreadable: cacheProblem });
      }
    }
    return all;
  }

  /** Returns undefined if no function was ever deployed under the name. */
  async #read(ref: string, name: string): Promise<{ deployment: Deployment } | { unreadable: string } | undefined> {
    try {
      const text = await readFile(path.join(this.root, ref, name, CURRENT), 'utf8').catch(ignoreMissing);
      if (text === undefined) return undefined;
      const deployment = parseDeployment(text);
      const source = await readFile(path.join(this.source(ref, name, deployment.version), SOURCE));
      if (digestOf(source) !== deployment.digest) return { unreadable: 'the source is not what was deployed' };
      return { deployment };
    } catch (error) {
      return { unreadable: withoutPath(error) };
    }
  }

  async #openCache(ref: string): Promise<string | undefined> {
    try {
      if ((await list(this.cache(ref))).length > 0) await this.#closeCache(ref);
      return undefined;
    } catch (error) {
      return `the cache of imports: ${withoutPath(error)}`;
    }
  }

  source = (ref: string, name: string, version: number) => path.join(this.root, ref, name, String(version));
  cache = (ref: string) => path.join(this.root, ref, CACHE);

  /** Writes the source to a new folder, which is not served yet. Removes other files at its path. */
  async put(ref: string, name: string, version: number, code: string): Promise<void> {
    const folder = this.source(ref, name, version);
    const account = accountOf(ref);
    for (const above of [path.join(this.root, ref), path.join(this.root, ref, name), folder]) {
      await makeFolder(above, 0o711);
    }
    await this.makeCache(ref);
    await writeDurably(path.join(folder, SOURCE), code, account);
    if (account) await chown(folder, account.uid, account.gid);
  }

  async makeCache(ref: string): Promise<void> {
    const account = accountOf(ref);
    await makeFolder(this.cache(ref), 0o700);
    if (account) await chown(this.cache(ref), account.uid, account.gid);
    await makeFolder(path.join(this.cache(ref), 'gen'), 0o777);
    await this.#closeCache(ref);
  }

  /** Returns the folders of all versions, including those that are not served yet. */
  async sources(ref: string): Promise<string[]> {
    const folders: string[] = [];
    for (const name of await list(path.join(this.root, ref))) {
      if (name === CACHE) continue;
      const versions = (await list(path.join(this.root, ref, name))).filter((entry) => /^\d+$/.test(entry));
      folders.push(...versions.map((version) => this.source(ref, name, Number(version))));
    }
    return folders;
  }

  async #closeCache(ref: string): Promise<void> {
    const account = accountOf(ref);
    await mkdir(path.join(this.cache(ref), 'gen'), { recursive: true });
    if (account) await chown(path.join(this.cache(ref), 'gen'), account.uid, account.gid);
    for (const name of CLOSED) {
      const place = path.join(this.cache(ref), name);
      if (
        await lstat(place).then(
          (found) => found.isFile(),
          () => false,
        )
      )
        continue;
      await rm(place, { recursive: true, force: true });
      // Concurrent deploys of the project may create it at the same time.
      await writeFile(place, '', { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error;
      });
    }
  }

  /** Marks the version as served, also after a start. Removes older versions. */
  async commit(ref: string, name: string, deployment: Deployment): Promise<void> {
    const folder = path.join(this.root, ref, name);
    await writeDurably(path.join(folder, CURRENT), JSON.stringify(deployment));
    for (const entry of await list(folder)) {
      if (/^\d+$/.test(entry) && Number(entry) !== deployment.version) await this.discard(ref, name, Number(entry));
    }
  }

  discard(ref: string, name: string, version: number): Promise<void> {
    return rm(this.source(ref, name, version), { recursive: true, force: true });
  }

  async remove(ref: string, name: string): Promise<void> {
    await rm(path.join(this.root, ref, name), { recursive: true, force: true });
    const left = (await list(path.join(this.root, ref))).filter((entry) => entry !== CACHE);
    if (left.length === 0) await rm(path.join(this.root, ref), { recursive: true, force: true });
  }
}

const list = (folder: string) => readdir(folder).catch(() => []);

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT' && error.code !== 'ENOTDIR') throw error;
  return undefined;
}

/** Returns the error's text without paths of the machine, because tenants read it in a status. */
function withoutPath(error: unknown): string {
  const { code, syscall, message } = error as NodeJS.ErrnoException;
  return code === undefined ? message : `${code} at ${syscall ?? 'a file'}`;
}

function parseDeployment(text: string): Deployment {
  let value: Partial<Deployment> | null;
  try {
    value = parseJson(text) as Partial<Deployment> | null;
  } catch {
    throw new Error(`${CURRENT} is not JSON`);
  }
  const { version, verifyJwt, digest } = value ?? {};
  if (!Number.isSafeInteger(version) || typeof verifyJwt !== 'boolean' || typeof digest !== 'string') {
    throw new Error(`${CURRENT} is not a deployment`);
  }
  return { version: version as number, verifyJwt, digest };
}

/** Makes the folder, and removes a file at its path. */
async function makeFolder(folder: string, mode: number): Promise<void> {
  const stats = await lstat(folder).catch(ignoreMissing);
  if (stats?.isDirectory()) return;
  if (stats) await rm(folder, { force: true });
  await mkdir(folder, { recursive: true, mode });
}

/** Writes the file by rename. After a power loss it is the old or the new one, never empty. */
async function writeDurably(file: string, text: string, account?: { uid: number; gid: number }): Promise<void> {
  const unfinished = `${file}.new`;
  for (const place of [unfinished, file]) {
    const stats = await lstat(place).catch(ignoreMissing);
    if (stats && !stats.isFile()) await rm(place, { recursive: true, force: true });
  }
  const handle = await open(unfinished, 'w', 0o600);
  try {
    await handle.writeFile(text);
    if (account) await handle.chown(account.uid, account.gid);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(unfinished, file);
}
