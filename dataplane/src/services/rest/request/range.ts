/**
 * The rows of the result that a request asks for: `limit` and `offset` of the query, narrowed by the Range header of a
 * read.
 */
import { invalidRange } from '../errors.js';
import { type Parameters, wholeNumber } from './query-string.js';

export interface RowRange {
  offset: number;
  limit: number | undefined;
}

const HEADER = /^(\d{1,15})-(\d{1,15})?$/;

/** `most` is the limit of rows in any response. */
export function rowRange(parameters: Parameters, header: string | undefined, most?: number): RowRange {
  const range = askedRange(parameters, header);
  return most === undefined ? range : { ...range, limit: Math.min(range.limit ?? most, most) };
}

function askedRange(parameters: Parameters, header: string | undefined): RowRange {
  const number = (name: string) => wholeNumber(parameters.find(([key]) => key === name)?.[1] ?? '');
  const limit = number('limit');
  if (limit !== undefined && limit < 0) throw invalidRange('Limit should be greater than or equal to zero.');
  const requested = { offset: Math.max(0, number('offset') ?? 0), limit };
  const [, first, last] = (header && HEADER.exec(header)) || [];
  if (first === undefined) return requested;
  const lower = Number(first);
  const upper = last === undefined ? Number.POSITIVE_INFINITY : Number(last);
  if (lower > upper)
    throw invalidRange('The lower boundary must be lower than or equal to the upper boundary in the Range header.');
  const offset = Math.max(requested.offset, lower);
  const end = Math.min(upper + 1, limit === undefined ? Number.POSITIVE_INFINITY : requested.offset + limit);
  return { offset, limit: end === Number.POSITIVE_INFINITY ? undefined : Math.max(0, end - offset) };
}

export function contentRange(lower: number, upper: number, total: number | undefined): string {
  const rows = total !== 0 && lower <= upper ? `${lower}-${upper}` : '*';
  return `${rows}/${total ?? '*'}`;
}

export function rangeStatus(lower: number, upper: number, total: number | undefined): 200 | 206 | 416 {
  if (total === undefined) return 200;
  if (lower > total) return 416;
  return 1 + upper - lower < total ? 206 : 200;
}
