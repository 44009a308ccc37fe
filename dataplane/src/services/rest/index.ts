/**
 * REST service of a project, with PostgREST's API. In: authenticated requests from the gateway. Out: responses and
 * errors. A request passes through types: outline → ApiRequest → plan → statement → row → response.
 */
import type { ServerResponse } from 'node:http';
import { inTurns } from '../../bounds/turns.js';
import { readBody, reserveBody } from '../../http/request-body.js';
import { endWith } from '../../http/small-body.js';
import { COUNTED_FROM, type HeldAnswer } from '../../sql/answer-memory.js';
import { DatabaseError } from '../../sql/pool.js';
import type { Service, ServiceRequest } from '../service.js';
import type { Catalogue } from './catalogue/catalogue.js';
import type { SettingsSource } from './catalogue/settings.js';
import { described, informed } from './discovery.js';
import { RestError, toRestError } from './errors.js';
import { execute } from './execute.js';
import { isToken } from './header-text.js';
import { type Outline, outlineOf, requireNoRangeOfPut } from './request/api-request.js';
import { contentTypeHint, parseBody } from './request/body.js';
import { splitQuery } from './request/query-string.js';
import { type RowRange, rowRange } from './request/range.js';
import type { Answer } from './response.js';
import type { TenantDatabase } from './tenant-database.js';
import { TenantDatabases } from './tenant-databases.js';

export interface RestOptions extends Partial<SettingsSource> {
  connectionsPerProject?: number;
  /** Maximum number of connections of all projects together. */
  connections?: number;
}

export function createRestService({
  schemas = ['public'],
  given = {},
  fromDatabase = true,
  connectionsPerProject = 4,
  connections = 64,
}: RestOptions = {}): Service {
  const databases = new TenantDatabases(
    { schemas, given, fromDatabase },
    { ofProject: connectionsPerProject, ofAll: connections },
  );
  return {
    handle: async (request) => {
      const database = databases.of(request.tenant);
      let answer: Answer;
      try {
        answer = await answerTo(request, database);
      } catch (error) {
        answer = errorAnswer(toRestError(error, request.caller.role === 'anon'), request, database);
      }
      if (answer.body && answer.body.length >= COUNTED_FROM)
        holdUntilSent(request.outgoing, answer.body.length, database.pool.holdAnswer());
      write(request, answer);
    },
    forget: (ref) => databases.forget(ref),
    close: () => databases.close(),
  };
}

const NO_BODY = Buffer.alloc(0);

/** Maximum attempts of a request. One attempt reads the catalogue, and others may join a read that has just begun. */
const ATTEMPTS = 3;

async function answerTo(request: ServiceRequest, database: TenantDatabase): Promise<Answer> {
  const { method, headers } = request.incoming;
  const bytes = method === 'GET' || method === 'HEAD' ? NO_BODY : await readBody(request);
  try {
    return await answerFromCurrent(request, database, bytes);
  } catch (error) {
    const hint = error instanceof RestError ? contentTypeHint(bytes, headers['content-type']) : undefined;
    throw hint === undefined ? error : (error as RestError).withHint(hint);
  }
}

/** An unknown name is an error only after the catalogue was read again. */
async function answerFromCurrent(request: ServiceRequest, database: TenantDatabase, bytes: Buffer): Promise<Answer> {
  for (let attempt = 1, last = false; ; attempt++) {
    const catalogue = await database.current();
    try {
      return await answerWith(catalogue, request, database, bytes);
    } catch (error) {
      if (last || attempt === ATTEMPTS || !mayBeStale(error)) throw error;
      const outcome = await database.revalidate(catalogue);
      if (outcome === 'refused') throw error;
      last = outcome === 'read';
    }
  }
}

const mayBeStale = (error: unknown) =>
  error instanceof RestError
    ? error.code.startsWith('PGRST2')
    : error instanceof DatabaseError && error.code === '42P01' && !error.fields.where;

async function answerWith(
  catalogue: Catalogue,
  request: ServiceRequest,
  database: TenantDatabase,
  bytes: Buffer,
): Promise<Answer> {
  const { incoming } = request;
  const { settings } = catalogue;
  const outline = outlineOf(incoming.method ?? 'GET', request.path, incoming.headers, settings);
  if (outline.action === 'info') return informed(catalogue, outline);
  if (outline.action === 'describe') return described(catalogue, outline, request, database);
  const isCall = outline.action === 'call';
  const parameters = splitQuery(request.query);
  requireNoRangeOfPut(outline, parameters);
  const body = hasBody(outline)
    ? await inTurns(request.tenant.ref, parseBody(bytes, incoming.headers['content-type'], isCall))
    : undefined;
  // A form or a CSV was converted to another text.
  if (body && body.bytes !== bytes) reserveBody(request, body.bytes.length);
  const ranged = outline.method === 'POST' ? undefined : incoming.headers.range;
  const reads = isCall || outline.action === 'read';
  const range = reads ? rowRange(parameters, ranged, settings.maxRows) : NO_RANGE;
  return execute(catalogue, { request, database, outline, parameters, body, range });
}

const NO_RANGE: RowRange = { limit: undefined, offset: 0 };

const hasBody = ({ action, method }: Outline) =>
  action === 'insert' || action === 'update' || action === 'put' || (action === 'call' && method === 'POST');

function errorAnswer(error: RestError, { incoming, note }: ServiceRequest, { isVerbose }: TenantDatabase): Answer {
  note?.(error.code);
  return {
    status: error.status,
    ...(error.statusText === undefined ? {} : { statusText: error.statusText }),
    headers: {
      'Content-Type': 'application/json; charset=utf-8',
      'Proxy-Status': `PostgREST; error=${isToken(error.code) ? error.code : '?'}`,
      ...error.headers,
    },
    body: incoming.method === 'HEAD' ? undefined : Buffer.from(error.body(isVerbose)),
  };
}

/** Milliseconds after which a large response is cut off if the client does not read it. */
const STILL_MS = 60_000;

/**
 * Reserves a large response until it is sent, so that slow clients leave less room for the project's further responses.
 */
function holdUntilSent(outgoing: ServerResponse, bytes: number, reserved: HeldAnswer): void {
  if (outgoing.destroyed) return;
  reserved.keep(bytes);
  outgoing.once('close', () => reserved.end());
  outgoing.setTimeout(STILL_MS, () => outgoing.destroy());
}

function write({ incoming, outgoing }: ServiceRequest, { status, statusText, headers, body }: Answer): void {
  if (status === 204 || status === 304) body = undefined;
  if (body) headers['Content-Length'] = String(body.length);
  else if (status !== 204 && incoming.method !== 'HEAD') headers['Content-Length'] = '0';
  if (statusText === undefined) outgoing.writeHead(status, headers);
  else outgoing.writeHead(status, statusText, headers);
  if (body) endWith(outgoing, body);
  else outgoing.end();
}
