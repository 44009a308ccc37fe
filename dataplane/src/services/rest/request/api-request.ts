/**
 * Parses an HTTP request. In: method, path, headers. Out: the action on a table or function, and the accepted media
 * types. Errors are PostgREST's for requests that are invalid with any database.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { RestSettings } from '../catalogue/settings.js';
import { RestError } from '../errors.js';
import type { Body } from './body.js';
import type { Representation } from './media.js';
import { type Preferences, parsePreferences } from './preferences.js';
import { isRange, type Parameters } from './query-string.js';

export type Target = { kind: 'root' } | { kind: 'table' | 'function'; name: string };
export type Action = 'read' | 'insert' | 'update' | 'delete' | 'put' | 'call' | 'describe' | 'info';

/** Part of a request that decides its statement, without the values of the query. Equal outlines share a statement. */
export interface Outline {
  action: Action;
  method: string;
  target: Target;
  schema: string;
  requestedProfile: boolean;
  headOnly: boolean;
  accept: string;
  prefer: string;
}

/** Parsed request. Its representation is decided once the result's type is known. */
export interface ApiRequest extends Outline {
  preferences: Preferences;
  parameters: Parameters;
  body: Body | undefined;
  /** Part of the statement's text: Postgres plans an unknown limit for many rows, and plans it again each time. */
  limit: number | undefined;
  /** True if the range has an offset, which is a parameter of the statement. */
  hasOffset: boolean;
}

export interface RepresentedRequest extends ApiRequest {
  representation: Representation;
}

const TABLE_ACTIONS: Record<string, Action> = {
  GET: 'read',
  HEAD: 'read',
  POST: 'insert',
  PATCH: 'update',
  DELETE: 'delete',
  PUT: 'put',
  OPTIONS: 'info',
};
const FUNCTION_ACTIONS: Record<string, Action> = { GET: 'call', HEAD: 'call', POST: 'call', OPTIONS: 'info' };
const ROOT_ACTIONS: Record<string, Action> = { GET: 'describe', HEAD: 'describe', OPTIONS: 'info' };

export function outlineOf(
  method: string,
  path: string,
  headers: IncomingHttpHeaders,
  { schemas }: Pick<RestSettings, 'schemas'>,
): Outline {
  const target = targetOf(path);
  const reads = method === 'GET' || method === 'HEAD';
  const profile = headers[reads ? 'accept-profile' : 'content-profile'];
  const schema = typeof profile === 'string' ? profile : (schemas[0] as string);
  if (!schemas.includes(schema))
    throw new RestError(406, 'PGRST106', `Invalid schema: ${schema}`, {
      hint: `Only the following schemas are exposed: ${schemas.join(', ')}`,
    });
  return {
    action: actionOf(method, target),
    method,
    target,
    schema,
    requestedProfile: schemas.length > 1,
    headOnly: method === 'HEAD',
    accept: headers.accept ?? '*/*',
    prefer: headerText(headers.prefer),
  };
}

const headerText = (value: string | string[] | undefined) => (Array.isArray(value) ? value.join(',') : (value ?? ''));

function targetOf(path: string): Target {
  const segments = path.split('/').filter((segment, i) => i > 0 || segment !== '');
  const [first = '', second, ...more] = segments.map(decodeSegment);
  if (first === '' && second === undefined) return { kind: 'root' };
  if (more.length === 0 && first === 'rpc' && second) return { kind: 'function', name: second };
  if (first !== '' && second === undefined) return { kind: 'table', name: first };
  throw new RestError(404, 'PGRST125', 'Invalid path specified in request URL');
}

function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new RestError(404, 'PGRST125', 'Invalid path specified in request URL');
  }
}

function actionOf(method: string, target: Target): Action {
  const actions = target.kind === 'root' ? ROOT_ACTIONS : target.kind === 'table' ? TABLE_ACTIONS : FUNCTION_ACTIONS;
  const action = Object.hasOwn(actions, method) ? actions[method] : undefined;
  if (action) return action;
  if (target.kind === 'function' && Object.hasOwn(TABLE_ACTIONS, method))
    throw new RestError(405, 'PGRST101', `Cannot use the ${method} method on RPC`);
  throw new RestError(405, 'PGRST117', `Unsupported HTTP method: ${method}`);
}

/** Checked for each request, because a range is no part of the shape. */
export function requireNoRangeOfPut({ action }: Outline, parameters: Parameters): void {
  if (action === 'put' && parameters.some(([name]) => isRange(name)))
    throw new RestError(400, 'PGRST114', 'limit/offset querystring parameters are not allowed for PUT');
}

/** Parses the rest of a request, once it has arrived. */
interface Received {
  parameters: Parameters;
  body: Body | undefined;
  range: { limit: number | undefined; offset: number };
}

export function apiRequest(
  outline: Outline,
  { parameters, body, range }: Received,
  { transactionEnd }: Pick<RestSettings, 'transactionEnd'>,
  timezones?: ReadonlySet<string>,
): ApiRequest {
  const preferences = parsePreferences(outline.prefer, timezones);
  if (!transactionEnd.endsWith('-allow-override')) preferences.tx = undefined;
  return {
    ...outline,
    preferences,
    parameters,
    body,
    limit: range.limit,
    hasOffset: range.offset > 0,
  };
}
