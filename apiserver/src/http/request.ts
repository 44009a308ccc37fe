/** One request as the handlers see it, and the functions for its response. */

import { once } from 'node:events';
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { type JsonBound, JsonRefusal, parseJsonInTurns } from '@slipway/program';
import { badRequest, failure } from '../status.js';

/** Maximum bytes of a body, as in the real server. */
const MAX_BODY_BYTES = 3 * 1024 * 1024;
/**
 * Maximum bytes of an object. The real server's etcd has a limit of 1.5 MiB. An object with this much text, of which
 * every character is an escape, takes 15 ms of processor time in one turn. The code of a function has at most 1 MiB.
 */
const MAX_OBJECT_BYTES = 1.125 * 1024 * 1024;
/**
 * Limits of a body's values. The platform's largest object has 850 values. A Secret of 200 variables with its
 * managedFields has 1,000. Applying an object of 2,500 values takes 12 ms of processor time in one turn. The real
 * server has no such limit.
 */
const MOST_OF_BODY: JsonBound = { bytes: MAX_OBJECT_BYTES, depth: 500, values: 2_500 };
export const MOST_VALUES = MOST_OF_BODY.values;

export interface Request {
  incoming: IncomingMessage;
  response: ServerResponse;
  method: string;
  path: string;
  query: URLSearchParams;
  warnings: string[];
}

export function requestOf(incoming: IncomingMessage, response: ServerResponse): Request {
  const url = incoming.url ?? '/';
  const mark = url.indexOf('?');
  return {
    incoming,
    response,
    method: incoming.method ?? 'GET',
    path: mark < 0 ? url : url.slice(0, mark),
    query: new URLSearchParams(mark < 0 ? '' : url.slice(mark + 1)),
    warnings: [],
  };
}

export const readText = async (request: Request): Promise<string> => (await readBody(request)).toString('utf8');

export async function readBody({ incoming }: Request): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  const tooLarge = () => failure(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${MAX_BODY_BYTES}`);
  if (Number(incoming.headers['content-length'] ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw tooLarge();
    if (size <= MAX_OBJECT_BYTES) chunks.push(chunk);
  }
  if (size > MAX_OBJECT_BYTES) throw failure(500, '', 'etcdserver: request is too large');
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}

export const unsupportedMediaType = (accepted: readonly string[]) =>
  failure(
    415,
    'UnsupportedMediaType',
    `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`,
  );

/** Returns the media type of the body. Throws if it is not one of `accepted`. */
export function contentType({ incoming }: Request, accepted: readonly string[]): string {
  const header = incoming.headers['content-type'] ?? '';
  const type = (header.split(';')[0] ?? '').trim().toLowerCase();
  if (accepted.includes(type)) return type;
  if (type === '' && accepted.includes('application/json')) return 'application/json';
  throw unsupportedMediaType(accepted);
}

/** Decodes a large body in steps. Later work on the result gets its own turn. */
export async function parseJson(text: string | Buffer, what: string): Promise<unknown> {
  try {
    return await parseJsonInTurns(typeof text === 'string' ? Buffer.from(text) : text, MOST_OF_BODY);
  } catch (error) {
    if (error instanceof JsonRefusal && error.reason === 'values') throw tooManyValues();
    throw badRequest(`${what}: json parse error: ${(error as Error).message}`);
  }
}

export const tooManyValues = () =>
  failure(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${MOST_VALUES} values and names`);

export function sendJson(
  { response, warnings }: Request,
  code: number,
  json: string | Buffer,
  headers: OutgoingHttpHeaders = {},
): void {
  if (response.headersSent || response.destroyed) return;
  // More warnings would not fit into a header that clients accept.
  const notes = warnings.slice(0, 20).map((text) => `299 - ${JSON.stringify(text.slice(0, 200))}`);
  const all: OutgoingHttpHeaders = {
    'content-type': 'application/json',
    'cache-control': 'no-cache, private',
    'content-length': Buffer.byteLength(json),
    ...headers,
  };
  if (notes.length > 0) response.setHeader('warning', notes);
  response.writeHead(code, all);
  response.end(json);
}

/**
 * Sends JSON piece by piece, at the client's speed: a piece is made only when the client can receive it. Resolves when
 * everything is sent or the client has disconnected.
 */
export async function sendPieces(request: Request, pieces: Iterable<string | Buffer>): Promise<void> {
  const { response } = request;
  const closed = new AbortController();
  response.once('close', () => closed.abort());
  let isBegun = false;
  for (const chunk of chunksOf(pieces)) {
    if (response.destroyed) return;
    if (chunk.isLast && !isBegun) return sendJson(request, 200, chunk.bytes);
    if (!isBegun) response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-cache, private' });
    isBegun = true;
    if (chunk.isLast) return void response.end(chunk.bytes);
    const taken = response.write(chunk.bytes) || once(response, 'drain', { signal: closed.signal }).catch(() => {});
    // Other work can run between two chunks.
    await Promise.all([taken, setImmediate()]);
  }
}

const CHUNK_BYTES = 256 * 1024;

/** Joins pieces into chunks of a minimum size. */
function* chunksOf(pieces: Iterable<string | Buffer>): Generator<{ bytes: Buffer; isLast: boolean }> {
  let waiting: Buffer[] = [];
  let size = 0;
  for (const piece of pieces) {
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
    waiting.push(bytes);
    size += bytes.length;
    if (size < CHUNK_BYTES) continue;
    yield { bytes: Buffer.concat(waiting), isLast: false };
    waiting = [];
    size = 0;
  }
  yield { bytes: Buffer.concat(waiting), isLast: true };
}

export function sendText({ response }: Request, code: number, text: string): void {
  response.writeHead(code, {
    'content-type': 'text/plain; charset=utf-8',
    'x-content-type-options': 'nosniff',
    'content-length': Buffer.byteLength(text),
  });
  response.end(text);
}

/** Closes the connection after the response. After a refusal, the rest of the body is not read. */
export function endConnection({ incoming, response }: Request): void {
  if (!incoming.complete) {
    response.setHeader('connection', 'close');
    response.once('finish', () => (incoming.socket as Socket).destroySoon());
  }
}
