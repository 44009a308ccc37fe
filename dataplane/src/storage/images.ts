/**
 * Images made smaller as they are asked for, by libvips. Bounded against images made to exhaust whoever opens them: in
 * bytes, in pixels, in time, and in how many are made at once.
 */
import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import sharp, { type ResizeOptions, type Sharp } from 'sharp';
import { headersOf } from './download.js';
import { invalidRequest, StorageError } from './errors.js';
import { type Access, type FoundObject, ofObject, sizeOf } from './found-object.js';
import { blockOtherDecoders, formatOf } from './image-formats.js';
import { type ImageOptions, imageOptions, LARGEST_SIDE } from './image-options.js';
import { keyOf, type ObjectPlace } from './names.js';
import { contentOf } from './row-content.js';
import { verified } from './signed-token.js';
import type { StorageContext } from './storage-context.js';

const LARGEST_FILE = 25 * 1024 * 1024;
const MOST_PIXELS = 50_000_000;
const SECONDS = 15;

// Nothing of one project's images is kept for the next, and libvips is not to take all of the machine.
sharp.cache(false);
sharp.concurrency(1);
blockOtherDecoders();

export async function render(context: StorageContext, at: ObjectPlace, access: Access): Promise<void> {
  const options = await optionsOf(context, at, access);
  await ofObject(context, at, access, 'render.image', (object) => sendImage(context, at, object, options));
}

async function sendImage(
  context: StorageContext,
  at: ObjectPlace,
  object: FoundObject,
  options: ImageOptions,
): Promise<void> {
  if (sizeOf(object) > LARGEST_FILE) throw sourceTooLarge();
  const { data, type } = await context.images.inTurn(context.request, async () => {
    const source = await context.content.read(contentOf(context, object), { start: 0, end: LARGEST_FILE });
    return made(await allOf(source, context.request.outgoing), options, acceptOf(context));
  });
  const headers = headersOf(context, at, object);
  const etag = `"${String(headers.ETag).replaceAll('"', '')}-${options.width ?? 0}-${options.height ?? 0}-${options.resize}-${options.quality}-${type.slice(6)}"`;
  const { outgoing, incoming } = context.request;
  outgoing.writeHead(200, {
    ...headers,
    ETag: etag,
    'Content-Type': type,
    'Content-Length': String(data.length),
    'Accept-Ranges': 'none',
    Vary: 'Accept',
  });
  outgoing.end(incoming.method === 'HEAD' ? undefined : data);
}

/** A signed address says how in its token: whoever has it can't ask for another image. */
async function optionsOf({ request, query }: StorageContext, at: ObjectPlace, access: Access): Promise<ImageOptions> {
  if (access !== 'signed') return imageOptions(query);
  const { transformations } = await verified(request.tenant, query.get('token'), 'download', keyOf(at));
  return imageOptions(new URLSearchParams(transformations ?? ''));
}

const sourceTooLarge = () =>
  new StorageError(413, 'EntityTooLarge', `An image is made of files of up to ${LARGEST_FILE} bytes`);

/**
 * Counted, as what the row says of its size may be the owner's word; and no longer than others may wait for their turn.
 */
async function allOf(source: Readable, outgoing: ServerResponse): Promise<Buffer> {
  const stop = () => source.destroy(new StorageError(504, 'SlowDown', 'The file could not be read in time'));
  const late = setTimeout(stop, SECONDS * 1000);
  outgoing.once('close', stop);
  try {
    const chunks: Buffer[] = [];
    let size = 0;
    for await (const chunk of source as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > LARGEST_FILE) throw sourceTooLarge();
      chunks.push(chunk);
    }
    return Buffer.concat(chunks);
  } finally {
    clearTimeout(late);
    outgoing.off('close', stop);
  }
}

const acceptOf = ({ request }: StorageContext) => request.incoming.headers.accept ?? '';

async function made(source: Buffer, options: ImageOptions, accept: string): Promise<{ data: Buffer; type: string }> {
  const format = formatOf(source);
  if (!format)
    throw invalidRequest('Only JPEG, PNG, WebP, GIF, AVIF and TIFF images can be resized: this file is none');
  try {
    const image = sharp(source, { limitInputPixels: MOST_PIXELS, failOn: 'error', animated: false });
    const { format: stored = '', autoOrient } = await image.metadata();
    if (stored !== format) throw invalidRequest(`The image can not be resized: it is no whole ${format} file`);
    const sized = image.rotate().resize(sidesOf(options, autoOrient)).timeout({ seconds: SECONDS });
    return await encoded(sized, options.format === 'origin' ? stored : bestOf(accept, stored), options.quality);
  } catch (error) {
    if (error instanceof StorageError) throw error;
    throw invalidRequest(`The image can not be resized: ${(error as Error).message.split('\n', 1)[0]}`);
  }
}

/**
 * The side that isn't asked for is the source's where it is to be filled, and else follows: up to the largest side, or
 * without being enlarged.
 */
function sidesOf({ width, height, resize }: ImageOptions, source: { width: number; height: number }): ResizeOptions {
  if (width === undefined && height === undefined) return {};
  if (width !== undefined && height !== undefined) return { width, height, fit: FITS[resize] };
  const other = (side: number) => (resize === 'fill' ? Math.min : Math.max)(side, LARGEST_SIDE);
  return {
    width: width ?? other(source.width),
    height: height ?? other(source.height),
    fit: resize === 'fill' ? 'fill' : 'inside',
  };
}

const FITS = { cover: 'cover', contain: 'inside', fill: 'fill' } as const;

const bestOf = (accept: string, stored: string) => (accept.includes('image/webp') ? 'webp' : stored);

async function encoded(image: Sharp, format: string, quality: number): Promise<{ data: Buffer; type: string }> {
  switch (format) {
    case 'png':
      return { data: await image.png().toBuffer(), type: 'image/png' };
    case 'webp':
      return { data: await image.webp({ quality }).toBuffer(), type: 'image/webp' };
    case 'gif':
      return { data: await image.gif().toBuffer(), type: 'image/gif' };
    default:
      return { data: await image.jpeg({ quality }).toBuffer(), type: 'image/jpeg' };
  }
}
