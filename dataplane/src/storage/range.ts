/** Which bytes are asked for, and whether any need be sent: RFC 9110's ranges and conditions. */
import type { IncomingHttpHeaders } from 'node:http';
import type { ByteRange } from './content/content.js';

/** Undefined: all of it; `unsatisfiable`: no byte of it. Several ranges, and what is no range, mean all of it. */
export function rangeOf(header: string | undefined, size: number): ByteRange | 'unsatisfiable' | undefined {
  const said = header === undefined ? null : /^bytes=(\d{0,15})-(\d{0,15})$/.exec(header.trim());
  if (!said || (said[1] === '' && said[2] === '')) return undefined;
  const [, from, to] = said as unknown as [string, string, string];
  if (from === '') {
    const last = Number(to);
    return last === 0 || size === 0 ? 'unsatisfiable' : { start: Math.max(0, size - last), end: size - 1 };
  }
  const start = Number(from);
  const end = to === '' ? size - 1 : Math.min(Number(to), size - 1);
  if (to !== '' && Number(to) < start) return undefined;
  return start >= size ? 'unsatisfiable' : { start, end };
}

/** Whether the caller has it already. */
export function isUnchanged(headers: IncomingHttpHeaders, etag: string, modified: Date): boolean {
  const match = headers['if-none-match'];
  if (match !== undefined) return match === '*' || matches(match, etag);
  const since = Date.parse(headers['if-modified-since'] ?? '');
  return !Number.isNaN(since) && Math.floor(modified.getTime() / 1000) * 1000 <= since;
}

/** Whether a range may be sent of what the caller has a part of. */
export function rangeStillHolds(headers: IncomingHttpHeaders, etag: string, modified: Date): boolean {
  const said = headers['if-range'];
  if (typeof said !== 'string') return true;
  if (said.startsWith('"')) return said === etag;
  return Math.floor(modified.getTime() / 1000) * 1000 === Date.parse(said);
}

const matches = (list: string, etag: string) =>
  list.split(',').some((entry) => entry.trim().replace(/^W\//, '') === etag);
