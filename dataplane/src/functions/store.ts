/**
 * What was deployed, on disk, so that functions answer right after a start. The EdgeFunction resources are the truth; this is
 * what the operator last said, and it says it again. Layout: `<ref>/<name>/<version>/index.ts`, `<ref>/<name>/current.json`,
 * and `<ref>/.cache` for what the project's functions import. Written by rename, so a kill leaves the old or the new.
 */
import { chown, lstat, mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { accountOf } from './account.js';

export interface Deployment {
  version: number;
  verifyJwt: boolean;
  /** Of the source. */
  digest: string;
}

export interface StoredFunction {
  ref: string;
  name: string;
  deployment: Deployment;
}

const CURRENT = 'current.json';
const CACHE = '.cache';
/** Where Deno would keep what a running function stores or imports from memory, without a bound: a file there lets it keep none. */
const CLOSED = ['location_data', 'gen/blob', 'gen/data'];

export class FunctionStore {
  constructor(private readonly root: string) {}

  async all(): Promise<StoredFunction[]> {
    const found: StoredFunction[] = [];
    for (const ref of await list(this.root)) {
      if ((await list(this.cache(ref))).length > 0) await this.#closeCache(ref);
      for (const name of await list(path.join(this.root, ref))) {
        const text = await readFile(path.join(this.root, ref, name, CURRENT), 'utf8').catch(() => undefined);
        if (text !== undefined) found.push({ ref, name, deployment: JSON.parse(text) as Deployment });
      }
    }
    return found;
  }

  source = (ref: string, name: string, version: number) => path.join(this.root, ref, name, String(version));
  cache = (ref: string) => path.join(this.root, ref, CACHE);

  /** The source in a folder of its own, which nothing serves yet. */
  async put(ref: string, name: string, version: number, code: string): Promise<void> {
    const folder = this.source(ref, name, version);
    const account = accountOf(ref);
    await mkdir(folder, { recursive: true, mode: 0o711 });
    await this.makeCache(ref);
    const file = path.join(folder, 'index.ts');
    await writeFile(`${file}.new`, code, { mode: 0o600 });
    if (account) {
      await chown(folder, account.uid, account.gid);
      await chown(`${file}.new`, account.uid, account.gid);
    }
    await rename(`${file}.new`, file);
  }

  async makeCache(ref: string): Promise<void> {
    const account = accountOf(ref);
    await mkdir(this.cache(ref), { recursive: true, mode: 0o700 });
    if (account) await chown(this.cache(ref), account.uid, account.gid);
    await this.#closeCache(ref);
  }

  /** Of all versions that there are, also those that are not served yet. */
  async sources(ref: string): Promise<string[]> {
    const found: string[] = [];
    for (const name of await list(path.join(this.root, ref))) {
      if (name === CACHE) continue;
      const versions = (await list(path.join(this.root, ref, name))).filter((entry) => /^\d+$/.test(entry));
      found.push(...versions.map((version) => this.source(ref, name, Number(version))));
    }
    return found;
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
      // Two functions of a project may be deployed at once.
      await writeFile(place, '', { flag: 'wx' }).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'EEXIST') throw error;
      });
    }
  }

  /** From now on this is what is served, also after a start; what older versions left is removed. */
  async commit(ref: string, name: string, deployment: Deployment): Promise<void> {
    const folder = path.join(this.root, ref, name);
    await writeFile(path.join(folder, `${CURRENT}.new`), JSON.stringify(deployment), { mode: 0o600 });
    await rename(path.join(folder, `${CURRENT}.new`), path.join(folder, CURRENT));
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
