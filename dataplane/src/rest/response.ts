/** From Postgres' one row to status, headers and body. Pure; the body stays the bytes that Postgres sent. */
import type { Row } from '../sql/decoder.js';
import type { CompiledRequest } from './compile.js';
import { ESTIMATE_FROM } from './compile-read.js';
import { invalidRange, RestError, singularity } from './errors.js';
import { isFraming, isLine, isToken } from './header-text.js';
import type { RepresentedRequest } from './request/api-request.js';
import { contentType } from './request/media.js';
import { type Preference, preferenceApplied } from './request/preferences.js';
import { contentRange, type RowRange, rangeStatus } from './request/range.js';
import type { RESULT_COLUMNS } from './statement/result.js';

export interface Answer {
  status: number;
  statusText?: string;
  headers: Record<string, string | string[]>;
  body: Buffer | undefined;
}

type Result = Record<(typeof RESULT_COLUMNS)[number], Buffer | null>;

export const resultOf = ([body, rows, total, inserted, keys, status, headers]: Row): Result => ({
  body: body ?? null,
  rows: rows ?? null,
  total: total ?? null,
  inserted: inserted ?? null,
  keys: keys ?? null,
  status: status ?? null,
  headers: headers ?? null,
});

const number = (value: Buffer | null) => (value === null ? undefined : Number(value.toString()));

export function answerOf(
  compiled: CompiledRequest,
  result: Result,
  range: RowRange,
  planned: number | undefined,
  query: string,
): Answer {
  const { request } = compiled;
  const reads = request.action === 'read' || request.action === 'call';
  const answer = reads ? readAnswer(compiled, result, range, planned, query) : writeAnswer(compiled, result);
  if (request.profileAsked && answer.headers['Content-Type']) answer.headers['Content-Profile'] = request.schema;
  return overridden(answer, result);
}

function applied(request: RepresentedRequest, names: Preference[]): Record<string, string> {
  const { handling } = request.preferences;
  const counted = handling === 'strict' ? names : names.filter((name) => name !== 'maxAffected');
  const words = preferenceApplied(request.preferences, [...counted, 'tx', 'timezone']);
  return words === undefined ? {} : { 'Preference-Applied': words };
}

function readAnswer(
  compiled: CompiledRequest,
  result: Result,
  range: RowRange,
  planned: number | undefined,
  query: string,
): Answer {
  const { request, call } = compiled;
  const rows = number(result.rows) ?? 0;
  const total = totalOf(request, number(result.total), planned);
  const upper = range.offset + rows - 1;
  const status = rangeStatus(range.offset, upper, total);
  const headers: Record<string, string> = {
    'Content-Range': contentRange(range.offset, upper, total),
    ...applied(request, ['count', 'handling', ...(call ? (['maxAffected'] as const) : [])]),
  };
  if (request.representation.media === 'object' && rows !== 1 && (!call || call.routine.returnsSet))
    throw singularity(rows);
  if (status === 416)
    throw invalidRange(`An offset of ${range.offset} was requested, but there are only ${total} rows.`, headers);
  if (call?.routine.returns === 'void') return { status: 204, headers, body: undefined };
  headers['Content-Type'] = contentType(request.representation);
  if (!call && request.target.kind === 'table')
    headers['Content-Location'] = contentLocation(request.target.name, query);
  return { status, headers, body: request.headOnly ? undefined : bodyOf(compiled, result) };
}

/** Postgres writes bytes as text; only those of a media type of the project's own are turned back. */
function bodyOf({ request }: CompiledRequest, { body }: Result): Buffer | undefined {
  if (!request.representation.custom) return body ?? undefined;
  if (!body || !request.representation.custom.isBytes) return body ?? Buffer.alloc(0);
  return Buffer.from(body.subarray(2).toString('latin1'), 'hex');
}

/** Returns Postgres' query plan. */
export function planAnswer({ request }: CompiledRequest, lines: (Buffer | null)[]): Answer {
  const body = Buffer.from(lines.map((line) => line?.toString() ?? '').join('\n'));
  const headers = { 'Content-Type': contentType(request.representation) };
  return { status: 200, headers, body: request.headOnly ? undefined : body };
}

function totalOf(
  { preferences }: RepresentedRequest,
  counted: number | undefined,
  planned: number | undefined,
): number | undefined {
  if (preferences.count === 'planned') return planned ?? counted;
  if (preferences.count !== 'estimated' || counted === undefined || counted <= ESTIMATE_FROM) return counted;
  return Math.max(planned ?? counted, counted);
}

function contentLocation(name: string, query: string): string {
  const sorted = query.includes('&') ? query.split('&').sort().join('&') : query;
  return `/${encodeURIComponent(name)}${sorted === '' ? '' : `?${sorted}`}`;
}

function writeAnswer(compiled: CompiledRequest, result: Result): Answer {
  const { request } = compiled;
  const { preferences, action } = request;
  const rows = number(result.rows) ?? 0;
  const full = preferences.return === 'representation';
  if (action === 'put' && rows !== 1)
    throw new RestError(400, 'PGRST115', 'Payload values do not match URL in primary key column(s)');
  const total = preferences.count === undefined ? undefined : rows;
  const lower = action === 'update' ? 0 : 1;
  const headers: Record<string, string> = {
    ...(action === 'put' ? {} : { 'Content-Range': contentRange(lower, action === 'update' ? rows - 1 : 0, total) }),
    ...applied(request, appliedToWrite(compiled)),
  };
  if (action === 'insert' && result.keys) headers.Location = location(compiled, result.keys);
  if (full) headers['Content-Type'] = contentType(request.representation);
  return { status: writeStatus(request, result, rows), headers, body: full ? bodyOf(compiled, result) : undefined };
}

function appliedToWrite({ request: { action, parameters }, table }: CompiledRequest): Preference[] {
  if (action === 'put') return ['return', 'count', 'handling'];
  if (action === 'delete') return ['return', 'count', 'handling', 'maxAffected'];
  if (action === 'update') return ['missing', 'return', 'count', 'handling', 'maxAffected'];
  const resolves = (table?.primaryKey.length ?? 0) > 0 || parameters.some(([name]) => name === 'on_conflict');
  return [...(resolves ? (['resolution'] as const) : []), 'missing', 'return', 'count', 'handling'];
}

function writeStatus({ action, preferences }: RepresentedRequest, result: Result, rows: number): number {
  const full = preferences.return === 'representation';
  const inserted = number(result.inserted) ?? 0;
  if (action === 'insert')
    return preferences.resolution === 'merge-duplicates' && rows > 0 && result.inserted !== null && inserted <= 0
      ? 200
      : 201;
  if (!full) return 204;
  return action === 'put' && inserted > 0 ? 201 : 200;
}

function location({ request, table }: CompiledRequest, keys: Buffer): string {
  const values = JSON.parse(keys.toString()) as Record<string, string | null>;
  const name = request.target.kind === 'root' ? '' : request.target.name;
  const filters = (table?.primaryKey ?? []).map((column) => {
    const value = values[column] ?? null;
    return `${encodeURIComponent(column)}=${value === null ? 'is.null' : `eq.${encodeURIComponent(value)}`}`;
  });
  return `/${encodeURIComponent(name)}?${filters.join('&')}`;
}

/** A function may set the response's status and headers by `response.status` and `response.headers`. */
function overridden(answer: Answer, result: Result): Answer {
  if (result.headers) Object.assign(answer.headers, headersOf(result.headers.toString(), answer.headers));
  if (!result.status) return answer;
  const status = /^[1-5]\d\d$/.test(result.status.toString()) ? Number(result.status.toString()) : Number.NaN;
  if (!(status >= 200)) throw new RestError(500, 'PGRST112', 'response.status guc must be a valid status code');
  return { ...answer, status };
}

/** Some may be said more than once, as Set-Cookie. */
function headersOf(text: string, present: Answer['headers']): Answer['headers'] {
  const wrong = new RestError(
    500,
    'PGRST111',
    'response.headers guc must be a JSON array composed of objects with a single key and a string value',
  );
  let list: unknown;
  try {
    list = JSON.parse(text);
  } catch {
    throw wrong;
  }
  if (!Array.isArray(list)) throw wrong;
  const spelling = new Map(Object.keys(present).map((name) => [name.toLowerCase(), name]));
  const headers: Record<string, string[]> = {};
  for (const entry of list) {
    const [[name, value] = [], second] = entry && typeof entry === 'object' ? Object.entries(entry) : [];
    if (name === undefined || second || typeof value !== 'string' || !isToken(name) || !isLine(value)) throw wrong;
    if (isFraming(name)) continue;
    const spelt = spelling.get(name.toLowerCase()) ?? name;
    spelling.set(name.toLowerCase(), spelt);
    headers[spelt] = [...(headers[spelt] ?? []), value];
  }
  return headers;
}
