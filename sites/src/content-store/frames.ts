/**
 * Encodes and decodes the body of a publication. For each file, the body has the length of its path (4 bytes), the
 * path, its size (8 bytes) and its content. A length of 0 ends the body. In: files, or untrusted bytes. Out: bytes, or
 * files in a new folder, within limits. A body without its end is rejected, so half a site is never published.
 */
import { mkdir, open } from 'node:fs/promises';
import path from 'node:path';
import { DEEPEST, type DeploymentLimits, isAddressable, LONGEST_PATH_BYTES, Output, OutputRefused } from '../output.js';

const PIECE_BYTES = 256 * 1024;

/** The body is not in the format described above. */
export class MalformedBody extends Error {}

/** Yields the frames of an output's files, the same files that `Sites.publish` takes. Throws OutputRefused. */
export async function* framesOf(output: Output): AsyncGenerator<Buffer> {
  for await (const { path: name, bytes, handle } of output.files()) {
    const head = Buffer.alloc(12 + Buffer.byteLength(name));
    head.writeUInt32BE(Buffer.byteLength(name));
    head.write(name, 4);
    head.writeBigUInt64BE(BigInt(bytes), head.length - 8);
    yield head;
    for (let done = 0; done < bytes; ) {
      const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, bytes - done));
      const { bytesRead } = await handle.read(piece, 0, piece.length, done);
      if (bytesRead === 0) throw new Error(`${name} became shorter while it was read`);
      done += bytesRead;
      yield piece.subarray(0, bytesRead);
    }
  }
  yield Buffer.alloc(4);
}

/** Writes the files of a body into `folder`, which must be new and empty. Throws MalformedBody or OutputRefused. */
export async function receiveFrames(
  body: AsyncIterable<Buffer>,
  folder: string,
  limits: DeploymentLimits,
): Promise<void> {
  const bytes = new ByteReader(body);
  try {
    await receiveAll(bytes, folder, limits);
  } catch (error) {
    // If the connection ended here, the sender could not read the reason of the rejection.
    await bytes.drain();
    throw error;
  }
}

async function receiveAll(bytes: ByteReader, folder: string, limits: DeploymentLimits): Promise<void> {
  const made = new Set<string>();
  let total = 0;
  for (let files = 0; ; files += 1) {
    const length = (await bytes.exactly(4)).readUInt32BE();
    if (length === 0) return;
    if (length > LONGEST_PATH_BYTES) throw new MalformedBody(`a path has more than ${LONGEST_PATH_BYTES} bytes`);
    const name = checkedPath((await bytes.exactly(length)).toString());
    const size = Number((await bytes.exactly(8)).readBigUInt64BE());
    total += size;
    if (size > limits.fileBytes || total > limits.totalBytes)
      throw new OutputRefused(`the output is larger than its plan allows: ${JSON.stringify(name)}`);
    await makeFolders(folder, path.posix.dirname(name), made);
    if (files + made.size >= limits.files)
      throw new OutputRefused(`the output has more than ${limits.files} files and folders`);
    await write(path.join(folder, name), bytes, size);
  }
}

function checkedPath(name: string): string {
  const steps = name.split('/');
  const isInside = steps.every((step) => step !== '' && step !== '.' && step !== '..');
  if (!isInside || steps.length > DEEPEST + 1 || !isAddressable(name)) {
    throw new MalformedBody(`${JSON.stringify(name.slice(0, 100))} is not a valid path of a site`);
  }
  return name;
}

/** Makes the folder and its missing parents. */
async function makeFolders(root: string, folder: string, made: Set<string>): Promise<void> {
  if (folder === '.' || made.has(folder)) return;
  await makeFolders(root, path.posix.dirname(folder), made);
  await mkdir(path.join(root, folder), { mode: 0o700 }).catch(unlessClash);
  made.add(folder);
}

async function write(file: string, bytes: ByteReader, size: number): Promise<void> {
  const handle = await open(file, 'wx', 0o600).catch(unlessClash);
  try {
    for await (const piece of bytes.pieces(size)) await handle.writeFile(piece);
  } finally {
    await handle.close();
  }
}

function unlessClash(error: NodeJS.ErrnoException): never {
  if (error.code !== 'EEXIST' && error.code !== 'ENOTDIR' && error.code !== 'ENAMETOOLONG') throw error;
  throw new MalformedBody('a path is a duplicate, is below a file, or has a part that is too long');
}

/** Reads exact numbers of bytes from a stream. Buffers one chunk of it. */
class ByteReader {
  readonly #source: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** Returns all bytes in one buffer, so it is only for small lengths. */
  async exactly(length: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for await (const piece of this.pieces(length)) pieces.push(piece);
    return Buffer.concat(pieces);
  }

  async drain(): Promise<void> {
    while (!(await this.#source.next()).done);
  }

  async *pieces(length: number): AsyncGenerator<Buffer> {
    for (let left = length; left > 0; ) {
      if (this.#rest.length === 0) {
        const { value, done } = await this.#source.next();
        if (done) throw new MalformedBody('the body ends too early');
        this.#rest = value;
      }
      const piece = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(piece.length);
      left -= piece.length;
      if (piece.length > 0) yield piece;
    }
  }
}
