/** Range requests (RFC 9110, 14). In: headers and the length of a file. Out: the range to send. Pure. */

export interface Range {
  start: number;
  /** Last byte to send. */
  end: number;
}

const ONE_RANGE = /^bytes=(\d{0,15})-(\d{0,15})$/;

/**
 * Returns the requested range, or 'unsatisfiable'. Returns undefined if the whole file must be sent: for several
 * ranges, a malformed one, or another version in If-Range.
 */
export function rangeOf(
  range: string | undefined,
  ifRange: string | undefined,
  file: { etag: string; bytes: number },
): Range | 'unsatisfiable' | undefined {
  if (range === undefined || (ifRange !== undefined && ifRange !== file.etag)) return undefined;
  const [, first = '', last = ''] = ONE_RANGE.exec(range) ?? [];
  if (first === '' && last === '') return undefined;
  const end = file.bytes - 1;
  if (first === '') return suffixOf(Number(last), file.bytes);
  if (last !== '' && Number(last) < Number(first)) return undefined;
  if (Number(first) > end) return 'unsatisfiable';
  return { start: Number(first), end: last === '' ? end : Math.min(end, Number(last)) };
}

const suffixOf = (length: number, bytes: number): Range | 'unsatisfiable' =>
  length === 0 || bytes === 0 ? 'unsatisfiable' : { start: Math.max(0, bytes - length), end: bytes - 1 };
