/** One request as the handlers see it, and the ways to answer it. */
import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { badRequest, failure } from '../status.js';

/** The limit of the real server. */
const MAX_BODY_BYTES = 3 * 1024 * 1024;

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
    chunks.push(chunk);
  }
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}

export const unsupportedMediaType = (accepted: readonly string[]) =>
  failure(
    415,
    'UnsupportedMediaType',
    `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`,
  );

/** The media type of the body, which must be one of `accepted`. */
export function contentType({ incoming }: Request, accepted: readonly string[]): string {
  const header = incoming.headers['content-type'] ?? '';
  const type = (header.split(';')[0] ?? '').trim().toLowerCase();
  if (accepted.includes(type)) return type;
  if (type === '' && accepted.includes('application/json')) return 'application/json';
  throw unsupportedMediaType(accepted);
}

export function parseJson(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw badRequest(`${what}: json parse error: ${(error as Error).message}`);
  }
}

export function sendJson(
  { response, warnings }: Request,
  code: number,
  json: string,
  headers: OutgoingHttpHeaders = {},
): void {
  if (response.headersSent || response.destroyed) return;
  // More than these would not fit a header that clients take.
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

export function sendText({ response }: Request, code: number, text: string): void {
  response.writeHead(code, {
    'content-type': 'text/plain; charset=utf-8',
    'x-content-type-options': 'nosniff',
    'content-length': Buffer.byteLength(text),
  });
  response.end(text);
}

/** After a refusal the rest of a body is not read: the connection ends with the answer. */
export function endConnection({ incoming, response }: Request): void {
  if (!incoming.complete) {
    response.setHeader('connection', 'close');
    response.once('finish', () => (incoming.socket as Socket).destroySoon());
  }
}
