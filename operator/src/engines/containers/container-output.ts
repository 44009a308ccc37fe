/**
 * Copies the output of a project's containers to the log of the app. In: the files that podman writes for each
 * container on the project's disk. Out: lines that begin with their time. After a kill of this process some come twice.
 *
 * The project's root owns the files, and could replace them: no link is followed, and only the project's disk is read.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, readFile, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { parseJson, replaceFile, unlessMissing } from '@slipway/program';

export interface OutputPlace {
  /** The folder where the project's disk is mounted. */
  disk: string;
  /** A folder of this process, which a reboot empties. */
  volatile: string;
  /** Appends to the log of the app. */
  keep(bytes: Buffer): Promise<void>;
}

/** How much of a file was copied. */
interface Position {
  inode: number;
  bytes: number;
}

/** Bytes of a file that are copied at once. What a container prints beyond them between two calls is left out. */
export const COPIED_BYTES = 512 * 1024;
const MOST_OF_POSITION = { bytes: 4096, depth: 2, values: 10 };
const RECORD = /^(\S{1,40}) (stdout|stderr) ([FP]) (.*)$/s;

export class ContainerOutput {
  readonly #positions = new Map<string, Position>();

  constructor(private readonly place: OutputPlace) {}

  /** Copies what was written to the file since the last call. */
  async copy(file: string): Promise<void> {
    const handle = await this.#open(file);
    if (!handle) return;
    try {
      const { ino: inode, size } = await handle.stat();
      const known = await this.#positionIn(file);
      const from = known?.inode === inode && known.bytes <= size ? known.bytes : 0;
      const { bytes, left, end } = await wholeRecords(handle, from, size);
      if (end === from) return;
      const note = left === 0 ? '' : `${lineOf(`slipway: ${left} bytes of output are left out`)}\n`;
      await this.place.keep(Buffer.concat([Buffer.from(note), shown(bytes)]));
      this.#positions.set(file, { inode, bytes: end });
      await replaceFile(this.#positionFile(file), JSON.stringify({ inode, bytes: end }));
    } finally {
      await handle.close();
    }
  }

  /** Appends a line of the platform. */
  async note(text: string): Promise<void> {
    await this.place.keep(Buffer.from(`${lineOf(`slipway: ${text}`)}\n`));
  }

  /** Forgets a file that is deleted: a later one may have its inode. */
  async forget(file: string): Promise<void> {
    this.#positions.delete(file);
    await rm(this.#positionFile(file), { force: true });
  }

  async #open(file: string): Promise<FileHandle | undefined> {
    const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
    const handle = await open(file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ELOOP') return undefined;
      return unlessMissing(error);
    });
    if (!handle) return undefined;
    const [found, disk] = await Promise.all([handle.stat(), stat(this.place.disk)]);
    if (found.isFile() && found.dev === disk.dev) return handle;
    await handle.close();
    return undefined;
  }

  async #positionIn(file: string): Promise<Position | undefined> {
    const known = this.#positions.get(file);
    if (known) return known;
    const text = await readFile(this.#positionFile(file)).catch(unlessMissing);
    return text && (parseJson(text, MOST_OF_POSITION) as Position);
  }

  #positionFile(file: string): string {
    return path.join(this.place.volatile, `${path.basename(file)}.copied`);
  }
}

/** Returns the newest whole records between two positions, how many bytes before them are left out, and their end. */
async function wholeRecords(
  handle: FileHandle,
  from: number,
  size: number,
): Promise<{ bytes: Buffer; left: number; end: number }> {
  const start = Math.max(from, size - COPIED_BYTES);
  const buffer = Buffer.alloc(size - start);
  const { bytesRead } = await handle.read(buffer, 0, buffer.length, start);
  const read = buffer.subarray(0, bytesRead);
  const first = start === from ? 0 : read.indexOf('\n') + 1;
  const last = read.lastIndexOf('\n') + 1;
  return { bytes: read.subarray(first, last), left: start + first - from, end: start + last };
}

/** Returns the lines of the records. A record may be a part of a line, and may end within a character. */
function shown(records: Buffer): Buffer {
  let [text, unended] = ['', ''];
  for (const record of records.toString('latin1').split('\n').slice(0, -1)) {
    const [, time, stream = '', mark = 'F', content = record] = RECORD.exec(record) ?? [];
    const isContinued = unended !== '' && unended === stream;
    if (unended !== '' && !isContinued) text += '\n';
    text += isContinued ? content : lineOf(content, time);
    unended = mark === 'P' ? stream : '';
    if (mark === 'F') text += '\n';
  }
  return Buffer.from(unended === '' ? text : `${text}\n`, 'latin1');
}

function lineOf(text: string, time?: string): string {
  const at = time === undefined ? new Date() : new Date(time);
  return `${Number.isNaN(at.getTime()) ? time : at.toISOString()} ${text}`;
}
