/** Uploads in one request: the body itself, or the file of a form. Bytes are streamed to the content store. */
import type { IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { JsonRefusal, ONE_TURN, parseJson } from '@slipway/program';
import busboy from 'busboy';
import type { ContentPlace, Grow } from './content/content.js';
import { brokenOff, isBroken } from './content/pump.js';
import { SERVICE, subjectOf } from './database.js';
import { invalidRequest } from './errors.js';
import { inSignedUrl, keyOf, type ObjectPlace } from './names.js';
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
  placeUnchecked,
} from './placing.js';
import { signed, verified } from './signed-token.js';
import { answer, type StorageContext } from './storage-context.js';
import { reserving } from './usage.js';

const DEFAULT_TYPE = 'application/octet-stream';
/**
 * Maximum bytes that are received before the caller's permission is checked. Deleting them costs less than a check
 * before each upload.
 */
const UNCHECKED_BYTES = 1024 * 1024;
/**
 * Milliseconds after which the caller's permission is checked while the body still arrives. Callers without permission
 * must not occupy the places of others.
 */
const UNASKED_MS = 2_000;
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
  answer(context, { url: `/object/upload/sign/${inSignedUrl(at)}?token=${token}`, token });
}

export async function uploadSigned(context: StorageContext, at: ObjectPlace): Promise<void> {
  const placement = await signedPlacement(context, at, context.query.get('token'));
  const id = await receive(context, placement);
  answer(context, { Id: id, Key: keyOf(at) });
}

/**
 * Returns the placement of a signed upload. The signer's permission was checked, so the bearer of the token needs none.
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
  const unchecked = context.content.isLocal ? Math.min(UNCHECKED_BYTES, context.limits.fileBytes) : -1;
  if (mimetype !== undefined && length !== undefined && length <= unchecked) {
    return reserving(context, length, () => receivedUnchecked(context, placement, { mimetype, length }));
  }
  const rules = await mayPlace(context, placement, {
    ...(mimetype ? { mimetype } : {}),
    ...(length === undefined ? {} : { contentLength: length, size: length }),
  });
  const limit = allowedBytes(context, rules, mimetype, length);
  const content = newContent(context);
  return reserving(context, length ?? 0, async ({ grow, keep }) => {
    const { size, description } =
      mimetype === undefined
        ? await receiveForm(context, content, { rules, limit, grow })
        : {
            description: describedByHeaders(incoming, mimetype),
            size: await context.content.write(content, incoming, { limit, length, grow }),
          };
    const id = await place(context, placement, { content, size, description });
    keep(size);
    return id;
  });
}

/** Writes content before the database checks the caller's permission. */
async function receivedUnchecked(
  context: StorageContext,
  placement: Placement,
  { mimetype, length }: { mimetype: string; length: number },
): Promise<string> {
  const { incoming } = context.request;
  const content = newContent(context);
  const description = describedByHeaders(incoming, mimetype);
  const written = context.content.write(content, incoming, { limit: length, length });
  await unlessRefused(written, async () => {
    const rules = await mayPlace(context, placement, { mimetype, contentLength: length, size: length });
    allowedBytes(context, rules, mimetype, length);
  }).catch((error: unknown) => {
    // A rejected upload ends with its connection, but all its bytes may have arrived before.
    written.then(() => context.content.remove(content.ref, [content.version])).catch(() => undefined);
    throw error;
  });
  return placeUnchecked(context, placement, { content, size: length, description });
}

/** Rejects as soon as `ask` does. `ask` is called if `written` takes too long. */
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
  const header = headers['x-metadata'];
  return {
    mimetype,
    cacheControl: headers['cache-control'] ?? 'no-cache',
    userMetadata: typeof header === 'string' ? userMetadata(Buffer.from(header, 'base64').toString()) : null,
  };
}

/** Returns the first file of the form. Fields may come before or after it. */
async function receiveForm(
  context: StorageContext,
  content: ContentPlace,
  { rules, limit, grow }: { rules: BucketRules; limit: number; grow: Grow },
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
        limits: { files: 1, fields: 10, parts: 12, fieldSize: ONE_TURN.bytes, fileSize: limit + 1 },
      });
      form.on('field', (name, value) => fields.set(name, value));
      form.on('file', (_, file, { mimeType }) => {
        // The reader gets the error too; without a listener it would end the process.
        file.on('error', () => undefined);
        mimetype = typeOf(mimeType);
        try {
          checkType(rules, mimetype);
        } catch (error) {
          file.resume();
          reject(error);
          return;
        }
        written = context.content.write(content, file as Readable, { limit, grow });
        written.catch(reject);
      });
      form.once('close', resolve);
      // Each malformed part emits its own error.
      form.on('error', () => reject(invalidRequest('the form is not valid multipart/form-data')));
      incoming.once('close', () => {
        // Not `complete`: all bytes may have arrived, but the form may not have read the end.
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
    throw invalidRequest('the form is not valid multipart/form-data');
  }
}

/** Returns undefined for a chunked body. */
function lengthOf({ headers }: IncomingMessage): number | undefined {
  const length = headers['content-length'];
  if (length !== undefined) return Number(length);
  return headers['transfer-encoding'] === undefined ? 0 : undefined;
}

const typeOf = (header: string | undefined) => (header && isHeaderValue(header) ? header : DEFAULT_TYPE);

const isHeaderValue = (text: string) => /^[\t\x20-\x7e]{1,255}$/.test(text);

export function userMetadata(text: string): string {
  try {
    const value = parseJson(text);
    if (typeof value === 'object' && value !== null) return JSON.stringify(value);
  } catch (error) {
    if (error instanceof JsonRefusal && error.reason !== 'syntax') throw invalidRequest(`metadata: ${error.message}`);
  }
  throw invalidRequest('metadata must be a JSON object');
}
