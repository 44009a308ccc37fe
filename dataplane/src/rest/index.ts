/**
 * The REST service of a project: PostgREST's wire. In: requests whose caller the gateway has decided. Out: answers,
 * errors included. A request passes through types: outline → ApiRequest → plan → statement → row → answer.
 */
import type { ServerResponse } from 'node:http';
import { readBody } from '../request-body.js';
import type { Service, ServiceRequest } from '../service.js';
import { endWith } from '../small-body.js';
import { COUNTED_FROM, type HeldAnswer } from '../sql/answer-memory.js';
import { DatabaseError } from '../sql/pool.js';
import type { Catalogue } from './catalogue/catalogue.js';
import type { SettingsSource } from './catalogue/settings.js';
import { described, informed } from './discovery.js';
import { RestError, toRestError } from './errors.js';
import { execute } from './execute.js';
import { isToken } from './header-text.js';
import { type Outline, outlineOf, requireNoRangeOfPut } from './request/api-request.js';
import { parseBody } from './request/body.js';
import { splitQuery } from './request/query-string.js';
import { type RowRange, rowRange } from './request/range.js';
import type { Answer } from './response.js';
import type { TenantDatabase } from './tenant-database.js';
import { TenantDatabases } from './tenant-databases.js';

export interface RestOptions extends Partial<SettingsSource> {
  connectionsPerProject?: number;
  /** Connections of all projects together. */
  connections?: number;
}

export function createRestService({
  schemas = ['public'],
  given = {},
  fromDatabase = true,
  connectionsPerProject = 4,
  connections = 64,
}: RestOptions = {}): Service {
  const databases = new TenantDatabases({ schemas, given, fromDatabase }, connectionsPerProject, connections);
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

/** Attempts: one of them reads the catalog; others may find that another request has just begun to. */
const ATTEMPTS = 3;

/** Names that nothing is known of are answered only after the catalogue has been read anew. */
async function answerTo(request: ServiceRequest, database: TenantDatabase): Promise<Answer> {
  const { method } = request.incoming;
  const bytes = method === 'GET' || method === 'HEAD' ? NO_BODY : await readBody(request.incoming);
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
  const body = hasBody(outline) ? parseBody(bytes, incoming.headers['content-type'], isCall) : undefined;
  const ranged = outline.method === 'POST' ? undefined : incoming.headers.range;
  const reads = isCall || outline.action === 'read';
  const range = reads ? rowRange(parameters, ranged, settings.maxRows) : NO_RANGE;
  return execute(catalogue, { request, database, outline, parameters, body, range });
}

const NO_RANGE: RowRange = { limit: undefined, offset: 0 };

const hasBody = ({ action, method }: Outline) =>
  action === 'insert' || action === 'update' || action === 'put' || (action === 'call' && method === 'POST');

function errorAnswer(error: RestError, { incoming }: ServiceRequest, { isVerbose }: TenantDatabase): Answer {
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

/** Timeout of a large response that the client does not read. */
const STILL_MS = 60_000;

/**
 * Counts a large response until it is sent: what waits for a slow client leaves less room for the project's next ones.
 */
function holdUntilSent(outgoing: ServerResponse, bytes: number, held: HeldAnswer): void {
  if (outgoing.destroyed) return;
  held.keep(bytes);
  outgoing.once('close', () => held.end());
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
