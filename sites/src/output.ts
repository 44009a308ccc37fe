/**
 * Reads the output folder of a build. In: a folder whose content is hostile. Out: its files, one after another, within
 * limits. A symbolic link could lead out of the folder, so it is left out. Reading a device would never end, so a
 * device rejects the whole output. The build's processes have ended, so no name is replaced while it is read.
 */
import { constants, type Dirent } from 'node:fs';
import { type FileHandle, open, opendir } from 'node:fs/promises';
import path from 'node:path';

/** Limits of files, of the bytes of one file, and of the bytes of all files. */
export interface DeploymentLimits {
  files: number;
  fileBytes: number;
  totalBytes: number;
}

/** The output can't be published. The message is for the owner of the site. */
export class OutputRefused extends Error {}

export interface OutputFile {
  /** Relative to the output folder, with `/` as the separator. */
  path: string;
  bytes: number;
  handle: FileHandle;
}

export const LONGEST_PATH_BYTES = 1024;
/** Maximum levels of nested folders. */
export const DEEPEST = 32;
/**
 * Maximum bytes of all paths together, because the server keeps them in memory. This is enough for 20,000 paths of 200
 * bytes.
 */
const MOST_PATH_BYTES = 4 * 1024 * 1024;
/** Flags for opening a file: the call follows no symbolic link, and does not wait for a pipe. */
const READ_FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
/** Maximum lines of a log about names that are not published. */
export const MOST_LEFT_OUT = 20;
/** The only name with a leading dot that is published (RFC 8615). */
const WELL_KNOWN = '.well-known';
/** Git's folder, which every site of plain files has. No warning names it, because nobody means to publish it. */
const CLONE = '.git';
/** Files that can answer requests for `/`: a site without index.html may redirect them. */
const ROOTS: ReadonlySet<string> = new Set(['index.html', '_redirects']);
const NO_ROOT =
  'the output folder has no index.html, so / responds with 404. If the page is in another folder, set output_dir to it';

export class Output {
  #entries = 0;
  #files = 0;
  #bytes = 0;
  #pathBytes = 0;
  #hasRoot = false;
  /** Lines for the build's log about names that are not published, and about a missing index.html. */
  readonly leftOut: string[] = [];

  constructor(
    readonly folder: string,
    readonly limits: DeploymentLimits,
  ) {}

  /** Closes each file before it yields the next one. */
  async *files(): AsyncGenerator<OutputFile> {
    yield* this.#walk('', 0);
    if (this.#files === 0) {
      throw new OutputRefused('the output has no file to publish: set output_dir to a folder that the build makes');
    }
    if (!this.#hasRoot) this.leftOut.push(NO_ROOT);
  }

  async *#walk(folder: string, depth: number): AsyncGenerator<OutputFile> {
    if (depth > DEEPEST) throw new OutputRefused(`${shown(folder)} is deeper than ${DEEPEST} folders`);
    for await (const entry of await this.#open(folder)) {
      const name = folder === '' ? entry.name : `${folder}/${entry.name}`;
      this.#count(name);
      if (name === CLONE) continue;
      if (entry.name.startsWith('.') && entry.name !== WELL_KNOWN) this.#leaveOut(dotfileLeftOut(name));
      else if (entry.isSymbolicLink()) this.#leaveOut(linkLeftOut(name));
      else if (entry.isDirectory()) yield* this.#walk(name, depth + 1);
      else yield* this.#file(name);
    }
  }

  /** Rejects a link in place of the folder: the tenant chooses the path of the output folder too. */
  async #open(folder: string): Promise<AsyncIterable<Dirent>> {
    const place = path.join(this.folder, folder);
    const probe = await open(place, READ_FLAGS | constants.O_DIRECTORY).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') {
        throw new OutputRefused('the output folder does not exist: set output_dir to a folder that the build makes');
      }
      if (error.code === 'ENOTDIR' || error.code === 'ELOOP') {
        throw new OutputRefused(`${shown(folder) || 'the output folder'} is not a folder`);
      }
      throw error;
    });
    await probe.close();
    return await opendir(place);
  }

  #count(name: string): void {
    this.#entries += 1;
    const { files } = this.limits;
    if (this.#entries > files) throw new OutputRefused(`the output has more than ${files} files and folders`);
    if (Buffer.byteLength(name) > LONGEST_PATH_BYTES) {
      throw new OutputRefused(`${shown(name)}… has a path of more than ${LONGEST_PATH_BYTES} bytes`);
    }
    this.#pathBytes += Buffer.byteLength(name);
    if (this.#pathBytes > MOST_PATH_BYTES)
      throw new OutputRefused('the paths of the output have more than 4 MiB together');
    if (!isAddressable(name)) throw new OutputRefused(`${shown(name)} has a name that no URL can have`);
  }

  #leaveOut(line: string): void {
    if (this.leftOut.length < MOST_LEFT_OUT) this.leftOut.push(line);
  }

  async *#file(name: string): AsyncGenerator<OutputFile> {
    const handle = await open(path.join(this.folder, name), READ_FLAGS).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENXIO' || error.code === 'EACCES') throw new OutputRefused(`${shown(name)} cannot be read`);
      throw error;
    });
    try {
      const stats = await handle.stat();
      if (!stats.isFile()) throw new OutputRefused(`${shown(name)} is neither a file nor a folder`);
      if (stats.nlink > 1) throw new OutputRefused(`${shown(name)} is a hard link: publish a copy of the file`);
      const { fileBytes, totalBytes } = this.limits;
      if (stats.size > fileBytes) {
        throw new OutputRefused(`${shown(name)} has ${inMib(stats.size)}, and a file may have ${inMib(fileBytes)}`);
      }
      this.#bytes += stats.size;
      if (this.#bytes > totalBytes) throw new OutputRefused(`the output has more than ${inMib(totalBytes)}`);
      this.#files += 1;
      this.#hasRoot ||= ROOTS.has(name);
      yield { path: name, bytes: stats.size, handle };
    } finally {
      await handle.close();
    }
  }
}

/** True unless the name is invalid UTF-8, or has control characters or a backslash. No URL leads to such a name. */
export const isAddressable = (name: string) => !/[\u0000-\u001f\u007f\ufffd\\]/.test(name);

const inMib = (bytes: number) => `${Math.ceil((bytes / 1024 ** 2) * 10) / 10} MiB`;
const dotfileLeftOut = (name: string) => `${shown(name)} is not published: its name begins with a dot`;
export const linkLeftOut = (name: string) =>
  `${shown(name)} is not published: it is a symbolic link. Publish the file itself`;
/** Makes a name safe for a message: a name may have any characters. */
const shown = (name: string) => name.slice(0, 200).replaceAll(/[\u0000-\u001f\u007f]/g, '?');
