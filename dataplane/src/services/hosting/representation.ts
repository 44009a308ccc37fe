/**
 * Chooses how a file is sent. In: the file, and the request's headers. Out: status, headers, encoding and byte range.
 * Pure.
 */
import type { IncomingHttpHeaders, OutgoingHttpHeaders } from 'node:http';
import { contentTypeOf, ENCODINGS, type Encoding } from '@slipway/sites';
import { cacheControlOf, etagOf, isKnown } from './caching.js';
import type { Found, SiteFile } from './lookup.js';
import { type Range, rangeOf } from './ranges.js';

export interface Representation {
  status: number;
  headers: OutgoingHttpHeaders;
  file: SiteFile;
  encoding: Encoding | undefined;
  /** Bytes of the whole encoded file. */
  bytes: number;
  /** Range to send; undefined: the whole file. */
  range: Range | undefined;
  /** True if the response has no body. */
  isHeadAlone: boolean;
}

type FoundFile = Extract<Found, { kind: 'file' }>;

export function represent(match: FoundFile, method: string | undefined, request: IncomingHttpHeaders): Representation {
  const { file, status } = match;
  // A range refers to the unencoded file, whatever encoding other responses have.
  const encoding = request.range === undefined ? encodingFor(file, request['accept-encoding']) : undefined;
  const bytes = encoding ? (file[encoding] as number) : file.bytes;
  const headers = headersOf(match, encoding);
  const representation = { status, headers, file, encoding, bytes, range: undefined, isHeadAlone: method === 'HEAD' };
  if (status !== 200) return withLength(representation);
  const etag = etagOf(file, encoding);
  headers.ETag = etag;
  headers['Accept-Ranges'] = 'bytes';
  if (isKnown(request['if-none-match'], etag)) return unchanged(representation);
  // Ranges apply only to GET.
  const ifRange = request['if-range'] as string | undefined;
  return withRange(representation, method === 'GET' ? rangeOf(request.range, ifRange, { etag, bytes }) : undefined);
}

function headersOf({ file, isFallback }: FoundFile, encoding: Encoding | undefined): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {
    'Content-Type': contentTypeOf(file.path),
    'X-Content-Type-Options': 'nosniff',
    'Cache-Control': cacheControlOf(file.path),
  };
  if (encoding) headers['Content-Encoding'] = encoding;
  const vary = varyOf(file, isFallback);
  if (vary) headers.Vary = vary;
  return headers;
}

/** The response varies, because with another fetch mode the path may be a 404. */
function varyOf(file: SiteFile, isFallback: boolean): string {
  const isEncoded = ENCODINGS.some((encoding) => file[encoding] !== undefined);
  return [...(isEncoded ? ['Accept-Encoding'] : []), ...(isFallback ? ['Sec-Fetch-Mode'] : [])].join(', ');
}

function withLength(representation: Representation): Representation {
  representation.headers['Content-Length'] = representation.bytes;
  return representation;
}

function unchanged(representation: Representation): Representation {
  const { headers } = representation;
  delete headers['Content-Type'];
  delete headers['Content-Encoding'];
  return { ...representation, status: 304, isHeadAlone: true };
}

function withRange(representation: Representation, range: Range | 'unsatisfiable' | undefined): Representation {
  const { headers, bytes } = representation;
  if (range === undefined) return withLength(representation);
  if (range === 'unsatisfiable') {
    headers['Content-Range'] = `bytes */${bytes}`;
    headers['Content-Length'] = 0;
    return { ...representation, status: 416, isHeadAlone: true };
  }
  headers['Content-Range'] = `bytes ${range.start}-${range.end}/${bytes}`;
  headers['Content-Length'] = range.end - range.start + 1;
  return { ...representation, status: 206, range };
}

/** Returns the first encoding that the file has and the client accepts; undefined: unencoded. */
function encodingFor(file: SiteFile, accepted: string | undefined): Encoding | undefined {
  if (accepted === undefined) return undefined;
  return ENCODINGS.find((encoding) => file[encoding] !== undefined && accepts(accepted, encoding));
}

/** A weight of 0 means "not acceptable" (RFC 9110, 12.5.3). */
function accepts(header: string, encoding: Encoding): boolean {
  let ofAny = false;
  for (const each of header.split(',')) {
    const [name = '', ...parameters] = each.split(';').map((part) => part.trim().toLowerCase());
    const isTaken = !parameters.some((parameter) => /^q=0(\.0*)?$/.test(parameter));
    if (name === encoding || name === `x-${encoding}`) return isTaken;
    if (name === '*') ofAny = isTaken;
  }
  return ofAny;
}
