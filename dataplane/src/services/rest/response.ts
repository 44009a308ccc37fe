/**
 * Converts the one row that Postgres returns to status, headers and body. Pure. The body consists of the bytes that
 * Postgres sent.
 */
import { type JsonBound, JsonRefusal, parseJson } from '@slipway/program';
import { STEP_BYTES, type Steps } from '../../bounds/turns.js';
import type { Row } from '../../sql/decoder.js';
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

/** Maximum characters of a count. One count comes from a setting that a function may change. */
const MOST_DIGITS = 20;

const number = (value: Buffer | null) =>
  value === null ? undefined : Number(value.toString('latin1', 0, MOST_DIGITS));

interface RequestedRepresentation {
  range: RowRange;
  /** Rows of a plan. */
  planned: number | undefined;
  query: string;
}

export function answerOf(compiled: CompiledRequest, result: Result, requested: RequestedRepresentation): Answer {
  const { request } = compiled;
  const reads = request.action === 'read' || request.action === 'call';
  const answer = reads ? readAnswer(compiled, result, requested) : writeAnswer(compiled, result);
  if (request.requestedProfile && answer.headers['Content-Type']) answer.headers['Content-Profile'] = request.schema;
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
  { range, planned, query }: RequestedRepresentation,
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

/** Bytes of a project's own media type are still in Postgres' text format: see `bytesOf`. */
const bodyOf = ({ request }: CompiledRequest, { body }: Result): Buffer | undefined =>
  body ?? (request.representation.custom ? EMPTY : undefined);

/** Decodes Postgres' text format of bytes: `\x` and hexadecimal digits. */
export function* bytesOf(text: Buffer): Steps<Buffer> {
  const bytes = Buffer.allocUnsafe(Math.max(0, text.length - 2) >> 1);
  for (let at = 2, length = 0; at < text.length; at += STEP_BYTES) {
    if (at > 2) yield;
    length += bytes.write(text.toString('latin1', at, at + STEP_BYTES), length, 'hex');
  }
  return bytes;
}

const [NEWLINE, EMPTY] = [Buffer.from('\n'), Buffer.alloc(0)];
/** Number of lines that are joined in one step. */
const LINES_OF_STEP = 1_000;

/** Returns Postgres' query plan, which for a view may have any number of lines. */
export function* planAnswer({ request }: CompiledRequest, rows: readonly Row[]): Steps<Answer> {
  const pieces: Buffer[] = [];
  for (let at = 0; at < rows.length; at += LINES_OF_STEP) {
    if (at > 0) yield;
    const lines = rows.slice(at, at + LINES_OF_STEP).map(([line]) => line ?? EMPTY);
    pieces.push(Buffer.concat(lines.flatMap((line, i) => (at + i === 0 ? [line] : [NEWLINE, line]))));
  }
  const headers = { 'Content-Type': contentType(request.representation) };
  return { status: 200, headers, body: request.headOnly ? undefined : Buffer.concat(pieces) };
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
  const place = action === 'insert' && result.keys ? location(compiled, result.keys) : undefined;
  if (place !== undefined) headers.Location = place;
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

/**
 * Returns the texts of a row's key. A view's columns may be its key, and a trigger of the view chooses their values.
 */
const MOST_KEYS: JsonBound = { bytes: 16 * 1024, depth: 1, values: 1_000 };

/** Returns undefined for a key that is larger than clients accept in a header, because the row is written already. */
function location({ request, table }: CompiledRequest, keys: Buffer): string | undefined {
  if (keys.length > MOST_KEYS.bytes) return undefined;
  const values = parseJson(keys, MOST_KEYS) as Record<string, string | null>;
  const name = request.target.kind === 'root' ? '' : request.target.name;
  const filters = (table?.primaryKey ?? []).map((column) => {
    const value = values[column] ?? null;
    return `${encodeURIComponent(column)}=${value === null ? 'is.null' : `eq.${encodeURIComponent(value)}`}`;
  });
  return `/${encodeURIComponent(name)}?${filters.join('&')}`;
}

/** Applies `response.status` and `response.headers`, which a function may set. */
function overridden(answer: Answer, result: Result): Answer {
  if (result.headers) Object.assign(answer.headers, headersOf(result.headers, answer.headers));
  if (!result.status) return answer;
  const text = result.status.toString('latin1', 0, 4);
  const status = /^[1-5]\d\d$/.test(text) ? Number(text) : Number.NaN;
  if (!(status >= 200)) throw new RestError(500, 'PGRST112', 'response.status guc must be a valid status code');
  return { ...answer, status };
}

/**
 * Limits of the headers that a function sets: a thousand headers. Clients and proxies accept far fewer, most of them 16
 * KiB.
 */
const MOST_HEADERS: JsonBound = { bytes: 64 * 1024, depth: 2, values: 4_000 };

const wrongHeaders = (details?: string) =>
  new RestError(
    500,
    'PGRST111',
    'response.headers guc must be a JSON array composed of objects with a single key and a string value',
    { details },
  );

/** A header may occur more than once, such as Set-Cookie. */
function headersOf(text: Buffer, present: Answer['headers']): Answer['headers'] {
  const spelling = new Map(Object.keys(present).map((name) => [name.toLowerCase(), name]));
  const headers = new Map<string, string[]>();
  for (const entry of headerList(text)) {
    const [[name, value] = [], second] = entry && typeof entry === 'object' ? Object.entries(entry) : [];
    if (name === undefined || second || typeof value !== 'string' || !isToken(name) || !isLine(value))
      throw wrongHeaders();
    if (isFraming(name)) continue;
    const spelt = spelling.get(name.toLowerCase()) ?? name;
    spelling.set(name.toLowerCase(), spelt);
    const values = headers.get(spelt);
    if (values) values.push(value);
    else headers.set(spelt, [value]);
  }
  return Object.fromEntries(headers);
}

function headerList(text: Buffer): unknown[] {
  let list: unknown;
  try {
    list = parseJson(text, MOST_HEADERS);
  } catch (error) {
    throw wrongHeaders(error instanceof JsonRefusal && error.reason !== 'syntax' ? error.message : undefined);
  }
  if (!Array.isArray(list)) throw wrongHeaders();
  return list;
}
