/** Sends an object: the whole object, a range of it, a 304, or only its description. */
import type { OutgoingHttpHeaders } from 'node:http';
import { pump } from './content/pump.js';
import { type Access, etagOf, type FoundObject, foundObject, modifiedOf, ofObject, sizeOf } from './found-object.js';
import { keyOf, type ObjectPlace } from './names.js';
import { isUnchanged, rangeOf, rangeStillHolds } from './range.js';
import { contentOf } from './row-content.js';
import { verified } from './signed-token.js';
import { answer, type StorageContext } from './storage-context.js';

export async function download(context: StorageContext, at: ObjectPlace, access: Access): Promise<void> {
  const { incoming } = context.request;
  if (access === 'signed') {
    await verified(context.request.tenant, context.query.get('token'), 'download', keyOf(at));
  }
  const operation = incoming.method === 'HEAD' ? 'object.get_authenticated_info' : OPERATIONS[access];
  await ofObject(context, at, { access, operation }, (object) => sendObject(context, at, object));
}

async function sendObject(context: StorageContext, at: ObjectPlace, object: FoundObject): Promise<void> {
  const { incoming, outgoing } = context.request;
  const content = contentOf(context, object);
  const headers = headersOf(context, at, object);
  const [etag, modified, size] = [etagOf(object), modifiedOf(object), sizeOf(object)];
  if (isUnchanged(incoming.headers, etag, modified)) {
    outgoing.writeHead(304, headers).end();
    return;
  }
  const range = rangeStillHolds(incoming.headers, etag, modified) ? rangeOf(incoming.headers.range, size) : undefined;
  if (range === 'unsatisfiable') {
    outgoing.writeHead(416, { ...headers, 'Content-Range': `bytes */${size}`, 'Content-Length': '0' }).end();
    return;
  }
  const length = range ? range.end - range.start + 1 : size;
  headers['Content-Length'] = String(length);
  if (range) headers['Content-Range'] = `bytes ${range.start}-${range.end}/${size}`;
  if (incoming.method === 'HEAD' || length === 0) {
    outgoing.writeHead(range ? 206 : 200, headers).end();
    return;
  }
  // The range has an end, so that the reader need not find the end.
  const body = await context.content.read(content, range ?? { start: 0, end: size - 1 });
  try {
    outgoing.writeHead(range ? 206 : 200, headers);
    await pump(body, outgoing);
  } finally {
    body.destroy();
  }
}

const OPERATIONS: Readonly<Record<Access, string>> = {
  authenticated: 'object.get_authenticated',
  public: 'object.get_public',
  signed: 'object.get_signed',
};

/**
 * Returns the headers of a download. Browsers must not guess another type, and must not run scripts of a file, because
 * files of a project may share their origin with other projects and with the platform's pages.
 */
export function headersOf({ query }: StorageContext, at: ObjectPlace, object: FoundObject): OutgoingHttpHeaders {
  const { metadata } = object;
  const name = query.get('download');
  return {
    'Content-Type': metadata?.mimetype ?? 'application/octet-stream',
    'Cache-Control': metadata?.cacheControl ?? 'no-cache',
    ETag: etagOf(object),
    'Last-Modified': modifiedOf(object).toUTCString(),
    'Accept-Ranges': 'bytes',
    'X-Content-Type-Options': 'nosniff',
    'Content-Security-Policy': "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; sandbox",
    ...(name === null ? {} : { 'Content-Disposition': attachment(name || (at.name.split('/').at(-1) as string)) }),
  };
}

const attachment = (name: string) => {
  const encoded = encodeURIComponent(name.toWellFormed()).replace(
    /['()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `attachment; filename="${encoded}"; filename*=UTF-8''${encoded}`;
};

export async function info(context: StorageContext, at: ObjectPlace, access: Access): Promise<void> {
  const object = await foundObject(context, at, access, 'object.get_authenticated_info');
  contentOf(context, object);
  answer(context, {
    id: object.id,
    name: at.name,
    version: object.version,
    bucket_id: at.bucket,
    size: sizeOf(object),
    content_type: object.metadata?.mimetype ?? null,
    cache_control: object.metadata?.cacheControl ?? null,
    etag: etagOf(object),
    metadata: object.user_metadata ?? {},
    last_modified: modifiedOf(object).toISOString(),
    created_at: new Date(object.created_at).toISOString(),
  });
}
