/** Uploads that come in parts, until they are whole: what came, as a file, and what it will be, beside it. */
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { DataStore, Upload } from '@tus/server';
import { tooManyOpenUploads } from './errors.js';

/** Since it began; until then a client may go on. */
export const PARTIAL_LIFE_MS = 24 * 3600 * 1000;
export const PARTIALS = 'uploads';

export interface PartialState {
  /** Who began it: nobody else may go on. */
  by: string;
  bucket: string;
  name: string;
  upsert: boolean;
  limit: number;
  size: number | undefined;
  metadata: Record<string, string | null>;
  created: string;
}

const STATE = '.json';
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const GONE = { status_code: 404, body: 'The file for this url was not found\n' };

export class PartialUploads extends DataStore {
  override extensions = ['creation', 'creation-with-upload', 'creation-defer-length', 'expiration', 'termination'];

  /** The last of each project that begins: one at a time does, so that they are counted. */
  readonly #beginning = new Map<string, Promise<void>>();

  constructor(
    private readonly folder: string,
    /** As many as one project may have. */
    private readonly most: number,
    /** What the server can't know: whose project, and what was decided about the upload that is being made. */
    private readonly context: () => {
      ref: string;
      beginning: Omit<PartialState, 'size' | 'metadata' | 'created'> | undefined;
    },
  ) {
    super();
  }

  override async create(upload: Upload): Promise<Upload> {
    const { beginning } = this.context();
    if (!beginning) throw new Error('an upload begins that nobody decided about');
    await this.#inTurn(() => this.#begin(upload, beginning));
    return upload;
  }

  async #begin(upload: Upload, beginning: Omit<PartialState, 'size' | 'metadata' | 'created'>): Promise<void> {
    const folder = path.dirname(this.file(upload.id));
    await mkdir(folder, { recursive: true, mode: 0o700 });
    if ((await open(folder)) >= this.most) {
      await removeExpired(folder, Date.now());
      if ((await open(folder)) >= this.most) throw tooManyOpenUploads(this.most);
    }
    const created = new Date().toISOString();
    await writeFile(this.file(upload.id), '', { mode: 0o600 });
    await this.#save(upload.id, { ...beginning, size: upload.size, metadata: upload.metadata ?? {}, created });
    upload.creation_date = created;
  }

  async #inTurn(begin: () => Promise<void>): Promise<void> {
    const { ref } = this.context();
    const begun = (this.#beginning.get(ref) ?? Promise.resolve()).then(begin);
    const over = begun.catch(() => undefined);
    this.#beginning.set(ref, over);
    try {
      await begun;
    } finally {
      if (this.#beginning.get(ref) === over) this.#beginning.delete(ref);
    }
  }

  override async write(source: Readable, id: string, offset: number): Promise<number> {
    const target = createWriteStream(this.file(id), { flags: 'r+', start: offset });
    // Who breaks off goes on from what came.
    await pipeline(source, target).catch((error: unknown) => {
      if (target.bytesWritten === 0) throw error;
    });
    return offset + target.bytesWritten;
  }

  override async getUpload(id: string): Promise<Upload> {
    const { size, metadata, created } = await this.state(id);
    const { size: offset } = await stat(this.file(id)).catch(gone);
    return new Upload({ id, offset, metadata, creation_date: created, ...(size === undefined ? {} : { size }) });
  }

  override async remove(id: string): Promise<void> {
    await rm(this.file(id), { force: true });
    await rm(`${this.file(id)}${STATE}`, { force: true });
  }

  override async declareUploadLength(id: string, size: number): Promise<void> {
    await this.#save(id, { ...(await this.state(id)), size });
  }

  override getExpiration(): number {
    return PARTIAL_LIFE_MS;
  }

  async state(id: string): Promise<PartialState> {
    return JSON.parse(await readFile(`${this.file(id)}${STATE}`, 'utf8').catch(gone)) as PartialState;
  }

  file(id: string): string {
    if (!ID.test(id)) throw GONE;
    return path.join(this.folder, this.context().ref, PARTIALS, id);
  }

  async #save(id: string, state: PartialState): Promise<void> {
    const file = `${this.file(id)}${STATE}`;
    await writeFile(`${file}.new`, JSON.stringify(state), { mode: 0o600 });
    await rename(`${file}.new`, file);
  }
}

const open = async (folder: string) => (await readdir(folder)).filter((name) => ID.test(name)).length;

/** An upload is its two files: it expires with the first, which was written when it began. */
export async function removeExpired(folder: string, now: number): Promise<void> {
  for (const name of await readdir(folder).catch(() => [])) {
    const file = path.join(folder, name);
    const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Infinity }));
    if (now - mtimeMs <= PARTIAL_LIFE_MS) continue;
    await rm(file, { force: true });
    if (name.endsWith(STATE)) await rm(file.slice(0, -STATE.length), { force: true });
  }
}

function gone(error: NodeJS.ErrnoException): never {
  throw error.code === 'ENOENT' ? GONE : error;
}
