/**
 * Uploads that come in parts: what came, as a file, and what it will be, beside it. Of one that became an object its
 * state is kept for a while, for a client that didn't hear so.
 */
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import { DataStore, Upload } from '@tus/server';
import { checkedRef, isVersion } from './content/content.js';
import { counted } from './content/pump.js';
import { tooManyOpenBytes, tooManyOpenUploads } from './errors.js';
import type { StorageLimits } from './storage-context.js';

/** Since it began; until then a client may go on. One that became an object is remembered for as long from then. */
export const PARTIAL_LIFE_MS = 24 * 3600 * 1000;
export const PARTIALS = 'uploads';
export const FINISHED = 'finished-uploads';

export interface PartialState {
  /** The user who began it: nobody else may continue it. */
  by: string;
  bucket: string;
  name: string;
  upsert: boolean;
  limit: number;
  size: number | undefined;
  metadata: Record<string, string | null>;
  created: string;
  /**
   * Version of the content, once the upload is complete: from then on the content exists, or the received bytes are
   * still here.
   */
  version?: string;
}

/** The decisions about an upload before it is created. */
export type Beginning = Omit<PartialState, 'size' | 'metadata' | 'created' | 'version'>;

const STATE = '.json';
export const GONE = { status_code: 404, body: 'The file for this url was not found\n' };

export class PartialUploads extends DataStore {
  override extensions = ['creation', 'creation-with-upload', 'creation-defer-length', 'expiration', 'termination'];

  /** The last of each project that begins: one at a time does, so that they are counted. */
  readonly #beginning = new Map<string, Promise<void>>();

  constructor(
    private readonly folder: string,
    private readonly limits: StorageLimits,
    /**
     * Returns what the tus server can't know: the project, and the decisions about the upload that is being created.
     */
    private readonly context: () => {
      ref: string;
      beginning: Beginning | undefined;
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

  async #begin(upload: Upload, beginning: Beginning): Promise<void> {
    const folder = path.dirname(this.file(upload.id));
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const bytes = upload.size ?? beginning.limit;
    await this.#checkRoom(folder, bytes).catch(async () => {
      await removeExpired(path.dirname(folder), Date.now());
      await this.#checkRoom(folder, bytes);
    });
    const created = new Date().toISOString();
    await writeFile(this.file(upload.id), '', { mode: 0o600 });
    await this.#save(upload.id, { ...beginning, size: upload.size, metadata: upload.metadata ?? {}, created });
    upload.creation_date = created;
  }

  async #checkRoom(folder: string, bytes: number): Promise<void> {
    const { openUploads, openUploadBytes } = this.limits;
    const ids = (await readdir(folder)).filter(isVersion);
    if (ids.length >= openUploads) throw tooManyOpenUploads(openUploads);
    const open = await Promise.all(ids.map((id) => this.#mayHold(id)));
    if (open.reduce((sum, each) => sum + each, bytes) > openUploadBytes) throw tooManyOpenBytes(openUploadBytes);
  }

  async #mayHold(id: string): Promise<number> {
    const state = await this.state(id).catch(() => undefined);
    return state ? (state.size ?? state.limit) : 0;
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
    const { version, limit } = await this.state(id);
    if (version !== undefined) {
      await finished(source.resume());
      return offset;
    }
    const target = createWriteStream(this.file(id), { flags: 'r+', start: offset });
    // Who breaks off goes on from what came.
    await pipeline(source, counted(limit - offset), target).catch((error: unknown) => {
      if (target.bytesWritten === 0) throw error;
    });
    return offset + target.bytesWritten;
  }

  override async getUpload(id: string): Promise<Upload> {
    const { size, metadata, created, version, isFinished } = await this.state(id);
    const offset = version === undefined ? (await stat(this.file(id)).catch(gone)).size : (size as number);
    return new Upload({
      id,
      offset,
      metadata,
      ...(isFinished ? {} : { creation_date: created }),
      ...(size === undefined ? {} : { size }),
    });
  }

  override async remove(id: string): Promise<void> {
    for (const file of [this.file(id), this.#open(id), this.#finished(id)]) await rm(file, { force: true });
  }

  override async declareUploadLength(id: string, size: number): Promise<void> {
    await this.#change(id, { size });
  }

  override getExpiration(): number {
    return PARTIAL_LIFE_MS;
  }

  async state(id: string): Promise<PartialState & { isFinished: boolean }> {
    const opened = await read(this.#open(id));
    const text = opened ?? (await read(this.#finished(id)));
    if (text === undefined) throw GONE;
    return { ...(JSON.parse(text) as PartialState), isFinished: opened === undefined };
  }

  /** Whether all has come. */
  async isWhole(id: string): Promise<boolean> {
    const { isFinished, created } = await this.state(id);
    if (isFinished) return true;
    if (Date.now() - Date.parse(created) > PARTIAL_LIFE_MS) return false;
    const { offset, size } = await this.getUpload(id);
    return offset === size;
  }

  /** Chooses the version of a complete upload. */
  async chooseVersion(id: string): Promise<string> {
    const version = randomUUID();
    await this.#change(id, { version });
    return version;
  }

  /** Removes the state of an upload that became an object. */
  async finish(id: string): Promise<void> {
    const target = this.#finished(id);
    await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
    await rename(this.#open(id), target);
  }

  file(id: string): string {
    return path.join(this.#folder(PARTIALS), checkedId(id));
  }

  #open(id: string): string {
    return path.join(this.#folder(PARTIALS), `${checkedId(id)}${STATE}`);
  }

  #finished(id: string): string {
    return path.join(this.#folder(FINISHED), `${checkedId(id)}${STATE}`);
  }

  #folder(kind: string): string {
    return path.join(this.folder, checkedRef(this.context().ref), kind);
  }

  async #change(id: string, change: Partial<PartialState>): Promise<void> {
    const { isFinished: _, ...state } = await this.state(id);
    await this.#save(id, { ...state, ...change });
  }

  async #save(id: string, state: PartialState): Promise<void> {
    const file = this.#open(id);
    await writeFile(`${file}.new`, JSON.stringify(state), { mode: 0o600 });
    await rename(`${file}.new`, file);
  }
}

function checkedId(id: string): string {
  if (!isVersion(id)) throw GONE;
  return id;
}

async function read(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/**
 * Removes a project's expired uploads. An upload is its two files: it expires with the first, which was written when it
 * began.
 */
export async function removeExpired(folder: string, now: number): Promise<void> {
  for (const kind of [PARTIALS, FINISHED]) {
    for (const name of await readdir(path.join(folder, kind)).catch(() => [])) {
      const file = path.join(folder, kind, name);
      const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Infinity }));
      if (now - mtimeMs <= PARTIAL_LIFE_MS) continue;
      await rm(file, { force: true });
      if (name.endsWith(STATE)) await rm(file.slice(0, -STATE.length), { force: true });
    }
  }
}

function gone(error: NodeJS.ErrnoException): never {
  throw error.code === 'ENOENT' ? GONE : error;
}
