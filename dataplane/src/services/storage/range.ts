/** Evaluates range requests and conditional requests for downloads (RFC 9110). */
import type { IncomingHttpHeaders } from 'node:http';
import type { ByteRange } from './content/content.js';

/**
 * Returns undefined for the whole object, also for several or malformed ranges; `unsatisfiable`: no byte is in range.
 */
export function rangeOf(header: string | undefined, size: number): ByteRange | 'unsatisfiable' | undefined {
  const match = header === undefined ? null : /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header.trim());
  if (!match || (match[1] === '' && match[2] === '')) return undefined;
  const [, from, to] = match as unknown as [string, string, string];
  if (from === '') {
    const last = Number(to);
    return last === 0 || size === 0 ? 'unsatisfiable' : { start: Math.max(0, size - last), end: size - 1 };
  }
  const start = Number(from);
  const end = to === '' ? size - 1 : Math.min(Number(to), size - 1);
  if (to !== '' && Number(to) < start) return undefined;
  return start >= size ? 'unsatisfiable' : { start, end };
}

/** True if the client's copy is current. */
export function isUnchanged(headers: IncomingHttpHeaders, etag: string, modified: Date): boolean {
  const match = headers['if-none-match'];
  if (match !== undefined) return match === '*' || matches(match, etag);
  const since = Date.parse(headers['if-modified-since'] ?? '');
  return !Number.isNaN(since) && Math.floor(modified.getTime() / 1000) * 1000 <= since;
}

/** True if a range may be sent, because the client's part is of the same version. */
export function rangeStillHolds(headers: IncomingHttpHeaders, etag: string, modified: Date): boolean {
  const condition = headers['if-range'];
  if (typeof condition !== 'string') return true;
  if (condition.startsWith('"')) return condition === etag;
  return Math.floor(modified.getTime() / 1000) * 1000 === Date.parse(condition);
}

const matches = (list: string, etag: string) =>
  list.split(',').some((entry) => entry.trim().replace(/^W\//, '') === etag);
