/**
 * Cache of small files of sites. In: a key and a function that opens the file. Out: the file's content. The bytes of a
 * file count until both the cache and all responses have released them, so that slow readers can't exceed the limit.
 */
import type { FileHandle } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import type { Range } from './ranges.js';

export interface Content {
  readonly bytes: Buffer;
  /** Number of responses that are sending this content. */
  users: number;
  isCached: boolean;
}

export interface ContentBounds {
  /** Maximum bytes of a cached file. A larger file is streamed from disk. */
  fileBytes: number;
  bytes: number;
  files: number;
}

const BOUNDS: ContentBounds = { fileBytes: 1024 * 1024, bytes: 64 * 1024 * 1024, files: 20_000 };

/** Maximum number of entries that are examined to make room for a file. */
const MOST_TRIES = 100;

export class FileContents {
  /** Entries, the most recently used last. */
  readonly #cached = new Map<string, Content>();
  readonly #reading = new Map<string, Promise<Content | undefined>>();
  readonly #bounds: ContentBounds;
  /** Bytes that are cached, being sent or being read. */
  #bytes = 0;

  constructor(bounds: Partial<ContentBounds> = {}) {
    this.#bounds = { ...BOUNDS, ...bounds };
  }

  get bytes(): number {
    return this.#bytes;
  }

  find(key: string): Content | undefined {
    const content = this.#cached.get(key);
    if (content !== undefined) {
      this.#cached.delete(key);
      this.#cached.set(key, content);
    }
    return content;
  }

  /**
   * Reads a whole file, once for all concurrent calls. Returns undefined at once if there is no room. The promise
   * resolves to undefined if `open` finds no file.
   */
  read(
    key: string,
    size: number,
    open: () => Promise<FileHandle | undefined>,
  ): Promise<Content | undefined> | undefined {
    const known = this.#reading.get(key);
    if (known !== undefined) return known;
    if (!this.#makeRoom(size)) return undefined;
    const reading = this.#read(key, size, open).finally(() => this.#reading.delete(key));
    this.#reading.set(key, reading);
    return reading;
  }

  /** Sends the content, or a part of it, as the body of the response, whose head is written. */
  send(content: Content, range: Range | undefined, outgoing: ServerResponse): void {
    if (outgoing.destroyed) return;
    content.users += 1;
    const { socket } = outgoing.req;
    const release = () => {
      outgoing.off('close', release);
      socket.off('close', release);
      content.users -= 1;
      this.#free(content);
    };
    outgoing.once('close', release);
    // A response that waits behind another one gets no event when its connection closes, so the socket's is used.
    if (outgoing.socket === null) socket.once('close', release);
    outgoing.end(range ? content.bytes.subarray(range.start, range.end + 1) : content.bytes);
  }

  /** Evicts the least recently used content, except what is being sent, which would free no memory. */
  #makeRoom(size: number): boolean {
    if (size > this.#bounds.fileBytes) return false;
    let tries = MOST_TRIES;
    for (const [key, content] of this.#cached) {
      if (this.#hasRoom(size) || tries === 0) break;
      tries -= 1;
      if (content.users > 0) continue;
      this.#cached.delete(key);
      content.isCached = false;
      this.#free(content);
    }
    return this.#hasRoom(size);
  }

  #hasRoom(size: number): boolean {
    return this.#bytes + size <= this.#bounds.bytes && this.#cached.size + this.#reading.size < this.#bounds.files;
  }

  async #read(key: string, size: number, open: () => Promise<FileHandle | undefined>): Promise<Content | undefined> {
    this.#bytes += size;
    let content: Content | undefined;
    try {
      const file = await open();
      if (file) content = { bytes: await readWhole(file, size).finally(() => file.close()), users: 0, isCached: true };
    } finally {
      if (content) this.#cached.set(key, content);
      else this.#bytes -= size;
    }
    return content;
  }

  #free(content: Content): void {
    if (content.users === 0 && !content.isCached) this.#bytes -= content.bytes.length;
  }
}

/** A deployment never changes, so a shorter file is damaged. */
async function readWhole(file: FileHandle, size: number): Promise<Buffer> {
  const bytes = Buffer.allocUnsafeSlow(size);
  for (let done = 0; done < size; ) {
    const { bytesRead } = await file.read(bytes, done, size - done, done);
    if (bytesRead === 0) throw new Error('a file of a deployment is shorter than its manifest says');
    done += bytesRead;
  }
  return bytes;
}
