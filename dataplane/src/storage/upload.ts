/** Uploads in one request: the body itself, or the file of a form. Bytes go to the content store as they come. */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import busboy from 'busboy';
import { brokenOff, isBroken } from './content/pump.js';
import { SERVICE, subjectOf } from './database.js';
import { invalidRequest } from './errors.js';
import { keyOf, type ObjectPlace } from './names.js';
import {
  allowedBytes,
  type BucketRules,
  checkType,
  type Description,
  mayPlace,
  newContent,
  ownPlacement,
  type Placement,
  place,
  placeUnasked,
} from './placing.js';
import { signed, verified } from './signed-token.js';
import { answer, type StorageContext } from './storage-context.js';

const DEFAULT_TYPE = 'application/octet-stream';
/** Bytes that are received before the caller's permission is checked: to delete them costs less than to check first. */
const UNASKED_BYTES = 1024 * 1024;
/** For so long. Who is slower is asked for meanwhile: who may not upload isn't to take the places of those who may. */
const UNASKED_MS = 2_000;
const MAX_METADATA = 1024 * 1024;
const UPLOAD_TOKEN_SECONDS = 2 * 3600;

export async function upload(context: StorageContext, at: ObjectPlace): Promise<void> {
  const { headers, method } = context.request.incoming;
  const upsert = method === 'PUT' || headers['x-upsert'] === 'true';
  const operation = method === 'PUT' ? 'object.upload_update' : 'object.upload';
  const id = await receive(context, ownPlacement(context, at, operation, upsert));
  answer(context, { Id: id, Key: keyOf(at) });
}

export async function signUpload(context: StorageContext, at: ObjectPlace): Promise<void> {
  const { tenant, caller, incoming } = context.request;
  const upsert = incoming.headers['x-upsert'] === 'true';
  await mayPlace(context, ownPlacement(context, at, 'object.sign_upload_url', upsert));
  const owner = subjectOf(caller);
  const claims = { use: 'upload', url: keyOf(at), upsert, ...(owner ? { owner } : {}) } as const;
  const token = await signed(tenant, claims, UPLOAD_TOKEN_SECONDS);
  answer(context, { url: `/object/upload/sign/${encodeURI(keyOf(at))}?token=${token}`, token });
}

export async function uploadSigned(context: StorageContext, at: ObjectPlace): Promise<void> {
  const placement = await signedPlacement(context, at, context.query.get('token'));
  const id = await receive(context, placement);
  answer(context, { Id: id, Key: keyOf(at) });
}

/**
 * Returns the placement of a signed upload. The signer's permission was checked; the holder of the token needs none.
 */
export async function signedPlacement(
  context: StorageContext,
  at: ObjectPlace,
  token: string | null,
): Promise<Placement> {
  const { owner, upsert } = await verified(context.request.tenant, token, 'upload', keyOf(at));
  return { ...at, caller: SERVICE, owner, upsert, operation: 'object.upload_signed_url' };
}

const receive = (context: StorageContext, placement: Placement): Promise<string> =>
  context.uploads.receive(context.request, () => received(context, placement));

async function received(context: StorageContext, placement: Placement): Promise<string> {
  const { incoming } = context.request;
  const isForm = incoming.headers['content-type']?.toLowerCase().startsWith('multipart/form-data') === true;
  const mimetype = isForm ? undefined : typeOf(incoming.headers['content-type']);
  const length = isForm ? undefined : lengthOf(incoming);
  const content = newContent(context);
  const unasked = context.content.isLocal ? Math.min(UNASKED_BYTES, context.limits.fileBytes) : -1;
  if (mimetype !== undefined && length !== undefined && length <= unasked) {
    const description = describedByHeaders(incoming, mimetype);
    const written = context.content.write(content, incoming, length, length);
    await unlessRefused(written, async () => {
      const rules = await mayPlace(context, placement, { mimetype, contentLength: length, size: length });
      allowedBytes(context, rules, mimetype, length);
    }).catch((error: unknown) => {
      // What is refused breaks off when its connection ends; all of it may have come before.
      written.then(() => context.content.remove(content.ref, [content.version])).catch(() => undefined);
      throw error;
    });
    return placeUnasked(context, placement, content, length, description);
  }
  const rules = await mayPlace(context, placement, {
    ...(mimetype ? { mimetype } : {}),
    ...(length === undefined ? {} : { contentLength: length, size: length }),
  });
  const limit = allowedBytes(context, rules, mimetype, length);
  if (mimetype === undefined) {
    const { size, description } = await receiveForm(context, rules, limit, content);
    return place(context, placement, content, size, description);
  }
  const description = describedByHeaders(incoming, mimetype);
  const size = await context.content.write(content, incoming, limit, length);
  return place(context, placement, content, size, description);
}

/** Fails as soon as `ask` does, where `written` takes so long that it is asked at all. */
async function unlessRefused(written: Promise<unknown>, ask: () => Promise<void>): Promise<void> {
  let late: NodeJS.Timeout | undefined;
  const refused = new Promise<never>((_, refuse) => {
    late = setTimeout(() => ask().catch(refuse), UNASKED_MS);
  });
  try {
    await Promise.race([written, refused]);
  } finally {
    clearTimeout(late);
  }
}

function describedByHeaders({ headers }: IncomingMessage, mimetype: string): Description {
  const said = headers['x-metadata'];
  return {
    mimetype,
    cacheControl: headers['cache-control'] ?? 'no-cache',
    userMetadata: typeof said === 'string' ? userMetadata(Buffer.from(said, 'base64').toString()) : null,
  };
}

/** The first file of the form; fields may come before it or after. */
async function receiveForm(
  context: StorageContext,
  rules: BucketRules,
  limit: number,
  content: ReturnType<typeof newContent>,
): Promise<{ size: number; description: Description }> {
  const { incoming } = context.request;
  if (isBroken(incoming)) throw brokenOff();
  const fields = new Map<string, string>();
  let written: Promise<number> | undefined;
  let mimetype = DEFAULT_TYPE;
  try {
    await new Promise<void>((resolve, reject) => {
      const form = formOf({
        headers: incoming.headers,
        limits: { files: 1, fields: 10, parts: 12, fieldSize: MAX_METADATA, fileSize: limit + 1 },
      });
      form.on('field', (name, value) => fields.set(name, value));
      form.on('file', (_, file, { mimeType }) => {
        // Whoever reads it hears of it too; without anybody it would end the process.
        file.on('error', () => undefined);
        mimetype = typeOf(mimeType);
        try {
          checkType(rules, mimetype);
        } catch (error) {
          file.resume();
          reject(error);
          return;
        }
        written = context.content.write(content, file as Readable, limit);
        written.catch(reject);
      });
      form.once('close', resolve);
      // Each part that is malformed is an error of its own.
      form.on('error', () => reject(invalidRequest('the form is not as multipart/form-data should be')));
      incoming.once('close', () => {
        // Not `complete`: all of it may have come, and the end of it not yet been taken by the form.
        if (incoming.readableEnded) return;
        form.destroy();
        reject(brokenOff());
      });
      incoming.pipe(form);
    });
  } catch (error) {
    incoming.unpipe();
    incoming.resume();
    await written?.catch(() => undefined);
    await context.content.remove(content.ref, [content.version]);
    throw error;
  }
  if (written === undefined) throw invalidRequest('No content provided');
  const size = await written;
  const cacheControl = fields.get('cacheControl');
  const metadata = fields.get('metadata');
  return {
    size,
    description: {
      mimetype,
      cacheControl: cacheControl && /^\d+$/.test(cacheControl) ? `max-age=${cacheControl}` : 'no-cache',
      userMetadata: metadata === undefined ? null : userMetadata(metadata),
    },
  };
}

/** Returns the form's parser. A form without a boundary is rejected. */
function formOf(config: busboy.BusboyConfig): busboy.Busboy {
  try {
    return busboy(config);
  } catch {
    throw invalidRequest('the form is not as multipart/form-data should be');
  }
}

/** Undefined where it is sent in chunks. */
function lengthOf({ headers }: IncomingMessage): number | undefined {
  const length = headers['content-length'];
  if (length !== undefined) return Number(length);
  return headers['transfer-encoding'] === undefined ? 0 : undefined;
}

const typeOf = (said: string | undefined) => (said && isHeaderValue(said) ? said : DEFAULT_TYPE);

const isHeaderValue = (text: string) => /^[\t\x20-\x7e]{1,255}$/.test(text);

export function userMetadata(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && text.length <= MAX_METADATA) return JSON.stringify(value);
  } catch {
    // Said below.
  }
  throw invalidRequest('metadata must be a JSON object');
}
