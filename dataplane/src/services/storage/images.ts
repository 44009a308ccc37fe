/**
 * Transforms images on request, by libvips. Bytes, pixels, time and concurrency are limited, because an image may be
 * made to exhaust a decoder.
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

// Disables the cache, which projects would share, and limits the threads of libvips.
sharp.cache(false);
sharp.concurrency(1);
blockOtherDecoders();

export async function render(context: StorageContext, at: ObjectPlace, access: Access): Promise<void> {
  const options = await optionsOf(context, at, access);
  await ofObject(context, at, { access, operation: 'render.image' }, (object) =>
    sendImage(context, at, object, options),
  );
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
  const original = String(headers.ETag).replaceAll('"', '');
  const size = `${options.width ?? 0}-${options.height ?? 0}`;
  const etag = `"${original}-${size}-${options.resize}-${options.quality}-${type.slice(6)}"`;
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

/** A signed URL has the options in its token, so its bearer can't request another transformation. */
async function optionsOf({ request, query }: StorageContext, at: ObjectPlace, access: Access): Promise<ImageOptions> {
  if (access !== 'signed') return imageOptions(query);
  const { transformations } = await verified(request.tenant, query.get('token'), 'download', keyOf(at));
  return imageOptions(new URLSearchParams(transformations ?? ''));
}

const sourceTooLarge = () =>
  new StorageError(
    413,
    'EntityTooLarge',
    `Only files of up to ${LARGEST_FILE} bytes can be resized ${LARGEST_FILE} bytes`,
  );

/**
 * Reads the file with limits on bytes, because the row's size may be false, and on time, because others wait for their
 * turn.
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
 * Returns the target size. A missing side is the source's for `fill`; otherwise it follows in proportion, up to the
 * largest side and without enlarging.
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
