/**
 * Compresses files of a deployment, so that serving them costs no processor time. In: files as published. Out: brotli
 * and gzip files beside them, where these are smaller. The work is limited, because the owner of a site chooses the
 * content.
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { contentTypeOf } from './content-types.js';

/** Encodings, in the order in which the server prefers them. */
export const ENCODINGS = ['br', 'gzip'] as const;
export type Encoding = (typeof ENCODINGS)[number];

/** Lengths of the encoded files that are stored. */
export type EncodedBytes = Partial<Record<Encoding, number>>;

/** Minimum bytes of a file that is compressed. Smaller files fit into one packet without compression. */
const LEAST_BYTES = 1024;
/** Maximum bytes of a file that is compressed. Larger files would stay in memory for too long. */
const MOST_BYTES = 8 * 1024 * 1024;
/** Maximum bytes that are compressed for one deployment, which takes about ten seconds of processor time. */
const MOST_IN_ALL = 64 * 1024 * 1024;
/** Maximum size of a compressed file, as a share of the original's size. Otherwise it is not stored. */
const WORTHWHILE = 0.9;
/** Matches types whose files are not compressed already. */
const COMPRESSIBLE = /^text\/|[/+](json|xml|javascript|wasm|x-ndjson)\b|^(font\/(ttf|otf)|image\/(bmp|x-icon))\b/;

/**
 * Quality of brotli. Compared with quality 6, quality 9 is 2 % smaller and takes six times as long. Quality 11 is 10 %
 * smaller and takes eighty times as long.
 */
const BROTLI_QUALITY = 6;

const ENCODE: Record<Encoding, (content: Buffer) => Promise<Buffer>> = {
  br: (content) =>
    promisify(brotliCompress)(content, {
      params: {
        [constants.BROTLI_PARAM_QUALITY]: BROTLI_QUALITY,
        [constants.BROTLI_PARAM_SIZE_HINT]: content.length,
      },
    }),
  gzip: promisify<Buffer, Buffer>(gzip),
};

export class Encoder {
  #left = MOST_IN_ALL;

  /** `folderOf` returns the folder of an encoding. Encoded files have the same path there as in the deployment. */
  constructor(private readonly folderOf: (encoding: Encoding) => string) {}

  /** Encodes the file at `source`, which has `bytes` bytes. `file` is its path in the deployment. */
  async encode(file: string, source: string, bytes: number): Promise<EncodedBytes> {
    if (bytes < LEAST_BYTES || bytes > Math.min(MOST_BYTES, this.#left)) return {};
    if (!COMPRESSIBLE.test(contentTypeOf(file))) return {};
    this.#left -= bytes;
    const content = await readFile(source);
    const kept = await Promise.all(ENCODINGS.map((encoding) => this.#write(encoding, file, content)));
    return Object.fromEntries(ENCODINGS.flatMap((encoding, at) => (kept[at] ? [[encoding, kept[at]]] : [])));
  }

  async #write(encoding: Encoding, file: string, content: Buffer): Promise<number | undefined> {
    const encoded = await ENCODE[encoding](content);
    if (encoded.length > content.length * WORTHWHILE) return undefined;
    const target = path.join(this.folderOf(encoding), file);
    await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
    await writeFile(target, encoded, { mode: 0o600, flag: 'wx', flush: true });
    return encoded.length;
  }
}
