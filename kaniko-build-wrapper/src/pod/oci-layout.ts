/**
 * Unpacks the output of a build from the image that Kaniko wrote, a folder in OCI's image layout. In: the folder, whose
 * content is hostile. Out: regular files in a new folder, without symbolic links. Refuses hard links, devices, names
 * that lead out of the folder, and everything above the limits of a deployment. It runs in the build's own pod, so that
 * the pod's limits apply.
 */
import { createReadStream, readFileSync } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { type JsonBound, parseJson } from '@slipway/program';
import { linkLeftOut, MOST_LEFT_OUT } from '@slipway/sites';
import { extract, type Header } from 'tar-stream';
import { Refused } from '../request.js';
import { OUTPUT_IN_IMAGE } from './order.js';

export interface UnpackLimits {
  files: number;
  totalBytes: number;
}

const BOUND: JsonBound = { bytes: 1024 * 1024, depth: 12, values: 5_000 };
const DIGEST = /^sha256:([\da-f]{64})$/;

interface Descriptor {
  mediaType?: string;
  digest: string;
}

/** Returns lines for the build's log about what is left out. Throws Refused with a message for the owner. */
export async function unpackOutput(layout: string, target: string, limits: UnpackLimits): Promise<string[]> {
  await mkdir(target, { recursive: true });
  const { manifests = [] } = jsonOf<{ manifests?: Descriptor[] }>(path.join(layout, 'index.json'));
  const [only] = manifests;
  if (only === undefined || manifests.length > 1) throw new Error('the image layout must have exactly one image');
  const { layers = [] } = jsonOf<{ layers?: Descriptor[] }>(blobOf(layout, only));
  const unpacking = new Unpacking(target, limits);
  for (const layer of layers) await unpacking.layer(blobOf(layout, layer), layer.mediaType ?? '');
  return unpacking.leftOut;
}

const jsonOf = <T>(file: string) => parseJson(readFileSync(file), BOUND) as T;

function blobOf(layout: string, { digest }: Descriptor): string {
  const [, hash] = DIGEST.exec(digest) ?? [];
  if (hash === undefined) throw new Error('a blob of the image has no SHA-256 digest');
  return path.join(layout, 'blobs/sha256', hash);
}

class Unpacking {
  readonly leftOut: string[] = [];
  #entries = 0;
  #bytes = 0;

  constructor(
    private readonly target: string,
    private readonly limits: UnpackLimits,
  ) {}

  async layer(blob: string, mediaType: string): Promise<void> {
    const entries = extract();
    const decompressed = pipeline([createReadStream(blob), ...decompression(mediaType), entries]);
    // The loop below fails with the same error.
    decompressed.catch(() => undefined);
    for await (const entry of entries) {
      await this.#entry(entry.header, entry);
      entry.resume();
    }
    await decompressed;
  }

  async #entry({ name, type, size = 0 }: Header, body: AsyncIterable<unknown>): Promise<void> {
    const steps = name.split('/').filter((step) => step !== '' && step !== '.');
    if (steps[0] !== OUTPUT_IN_IMAGE || steps.length === 1) return;
    const inner = steps.slice(1);
    this.#count(size);
    if (inner.includes('..') || name.includes('\0')) throw new Refused('a name of the output leads out of it');
    const place = path.join(this.target, ...inner);
    if (type === 'symlink') return this.#leaveOut(inner.join('/'));
    if (type === 'directory') return void (await mkdir(place, { recursive: true }));
    if (type !== 'file' && type !== 'contiguous-file') {
      throw new Refused(`${inner.join('/').slice(0, 200)} is ${SORTS[type ?? ''] ?? 'no regular file'}`);
    }
    await mkdir(path.dirname(place), { recursive: true });
    await write(place, body);
  }

  #leaveOut(name: string): void {
    if (this.leftOut.length < MOST_LEFT_OUT) this.leftOut.push(linkLeftOut(name));
  }

  #count(size: number): void {
    this.#entries += 1;
    this.#bytes += size;
    if (this.#entries > this.limits.files) {
      throw new Refused(`the output has more than ${this.limits.files} files and folders`);
    }
    if (this.#bytes > this.limits.totalBytes) throw new Refused('the output has more bytes than its plan allows');
  }
}

async function write(place: string, body: AsyncIterable<unknown>): Promise<void> {
  const file = await open(place, 'wx', 0o600);
  try {
    for await (const piece of body) await file.writeFile(piece as Uint8Array);
  } finally {
    await file.close();
  }
}

const SORTS: Readonly<Record<string, string>> = {
  link: 'a hard link: publish a copy of the file',
};

function decompression(mediaType: string) {
  if (mediaType.endsWith('gzip')) return [createGunzip()];
  return mediaType.endsWith('zstd') ? [createZstdDecompress()] : [];
}
