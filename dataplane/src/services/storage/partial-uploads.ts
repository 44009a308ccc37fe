/**
 * Stores resumable uploads: the received bytes as a file, and a file with their description. The state of a completed
 * upload stays for a while, for a client that lost the response.
 */
import { randomUUID } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Readable } from 'node:stream';
import { finished, pipeline } from 'node:stream/promises';
import { parseJson } from '@slipway/program';
import { DataStore, Upload } from '@tus/server';
import { checkedRef, isVersion } from './content/content.js';
import { counted } from './content/pump.js';
import { StorageError, tooManyOpenBytes, tooManyOpenUploads } from './errors.js';
import type { StorageContext, StorageLimits } from './storage-context.js';
import { reserving } from './usage.js';

/**
 * Milliseconds from the start of an upload in which a client may continue it. The state of a completed upload stays for
 * the same time.
 */
export const PARTIAL_LIFE_MS = 24 * 3600 * 1000;
export const PARTIALS = 'uploads';
export const FINISHED = 'finished-uploads';

export interface PartialState {
  /** User who started the upload; no other may continue it. */
  by: string;
  bucket: string;
  name: string;
  upsert: boolean;
  limit: number;
  size: number | undefined;
  metadata: Record<string, string | null>;
  created: string;
  /** Bytes that were reserved at the start; 0 for an upload of unknown length. */
  reserved?: number;
  /**
   * Version of the content once the upload is complete. From then on, either the content or the received bytes exist.
   */
  version?: string;
}

/** Checks before an upload is created. */
export type Beginning = Omit<PartialState, 'size' | 'metadata' | 'created' | 'reserved' | 'version'>;

const STATE = '.json';
export const GONE = { status_code: 404, body: 'The file for this url was not found\n' };

export class PartialUploads extends DataStore {
  override extensions = ['creation', 'creation-with-upload', 'creation-defer-length', 'expiration', 'termination'];

  /** Queue by project: uploads are created one at a time, so that their number is exact. */
  readonly #beginning = new Map<string, Promise<void>>();

  constructor(
    private readonly folder: string,
    private readonly limits: StorageLimits,
    /** Returns the data that the tus server does not have: the project, and the results of the checks. */
    private readonly context: () => {
      ref: string;
      beginning: Beginning | undefined;
      storage: StorageContext;
    },
  ) {
    super();
  }

  override async create(upload: Upload): Promise<Upload> {
    const { beginning } = this.context();
    if (!beginning) throw new Error('an upload was created without its checks');
    await this.#inTurn(() => this.#begin(upload, beginning));
    return upload;
  }

  async #begin(upload: Upload, beginning: Beginning): Promise<void> {
    const folder = path.dirname(this.file(upload.id));
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const bytes = upload.size ?? beginning.limit;
    await this.#checkRoom(folder, bytes).catch(async () => {
      await removeExpired(path.dirname(folder), Date.now());
      this.context().storage.usage.removed(this.context().ref);
      await this.#checkRoom(folder, bytes);
    });
    const created = new Date().toISOString();
    const state = { ...beginning, size: upload.size, metadata: upload.metadata ?? {}, created };
    // Length of the whole upload, which may come in many requests.
    await reserving(this.context().storage, upload.size ?? 0, async () => {
      await writeFile(this.file(upload.id), '', { mode: 0o600 });
      await this.#save(upload.id, { ...state, reserved: upload.size ?? 0 });
    });
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
    const { version, limit, size, reserved = size ?? 0 } = await this.state(id);
    if (version !== undefined) {
      await finished(source.resume());
      return offset;
    }
    const target = createWriteStream(this.file(id), { flags: 'r+', start: offset });
    const { storage } = this.context();
    return reserving(storage, 0, async ({ grow, keep }) => {
      const growing = (size: number) => grow(Math.max(offset + size - Math.max(offset, reserved), 0));
      let refusal: unknown;
      // A client that disconnects continues after the received bytes.
      await pipeline(source, counted(limit - offset, growing), target).catch((error: unknown) => {
        if (target.bytesWritten === 0 || error instanceof StorageError) refusal = error;
      });
      const end = offset + target.bytesWritten;
      keep(Math.max(end - Math.max(offset, reserved), 0));
      if (refusal !== undefined) throw refusal;
      return end;
    });
  }

  override async getUpload(id: string): Promise<Upload> {
    const { size, metadata, created, version, isFinished } = await this.state(id);
    const offset = version === undefined ? (await stat(this.file(id)).catch(throwDeleted)).size : (size as number);
    return new Upload({
      id,
      offset,
      metadata,
      ...(isFinished ? {} : { creation_date: created }),
      ...(size === undefined ? {} : { size }),
    });
  }

  override async remove(id: string): Promise<void> {
    const [file, open] = [this.file(id), this.#open(id)];
    const bytes = await openBytesOf(file, open);
    for (const each of [file, open, this.#finished(id)]) await rm(each, { force: true });
    const { storage, ref } = this.context();
    storage.usage.removed(ref, bytes);
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
    return { ...(parseJson(text) as PartialState), isFinished: opened === undefined };
  }

  /** True if all bytes were received. */
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

  /** Removes the state of a completed upload. */
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

/** Removes a project's expired uploads. The file that was written at the start decides the age of both files. */
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

/** Returns the bytes that a project's open uploads have, or have reserved. */
export async function openBytes(folder: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(path.join(folder, PARTIALS)).catch(() => [])) {
    const file = path.join(folder, PARTIALS, name);
    if (isVersion(name)) bytes += await openBytesOf(file, `${file}${STATE}`);
  }
  return bytes;
}

async function openBytesOf(file: string, stateFile: string): Promise<number> {
  const { size } = await stat(file).catch(() => ({ size: undefined }));
  // Bytes that became content are counted there.
  if (size === undefined) return 0;
  const state = parseJson((await read(stateFile)) ?? '{}') as Partial<PartialState>;
  return Math.max(size, state.reserved ?? state.size ?? 0);
}

function throwDeleted(error: NodeJS.ErrnoException): never {
  throw error.code === 'ENOENT' ? GONE : error;
}
