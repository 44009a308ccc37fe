/** Removes hop-by-hop headers from forwarded requests and responses. Used by every proxy here. */
import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';

const OF_ONE_CONNECTION = new Set([
  'connection',
  'expect',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * Headers that are never dropped, even if Connection lists them: otherwise a caller could leave the choice of framing
 * or host to the next server.
 */
const NEVER_OF_ONE_CONNECTION = new Set(['content-length', 'host']);

/** Returns all headers except hop-by-hop headers. Node frames the body again. */
export function endToEnd({ headers }: { headers: NodeJS.Dict<string | string[]> }): OutgoingHttpHeaders {
  const named = headers.connection
    ?.toString()
    .toLowerCase()
    .split(/\s*,\s*/);
  const endToEnd: OutgoingHttpHeaders = {};
  for (const name in headers) {
    if (OF_ONE_CONNECTION.has(name)) continue;
    if (!named?.includes(name) || NEVER_OF_ONE_CONNECTION.has(name)) endToEnd[name] = headers[name];
  }
  return endToEnd;
}

/**
 * Returns the headers to forward for a request, without those that name its client, which the proxy sets. A request
 * with a body gets explicit framing: Node adds none to a GET or DELETE, and the next server would read the body as a
 * second request.
 */
export function handedOn(incoming: IncomingMessage): OutgoingHttpHeaders {
  const headers = endToEnd(incoming);
  for (const name in headers) if (namesClient(name)) delete headers[name];
  if (incoming.headers['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked';
  return headers;
}

/** CGI, WSGI and Rack read `X_Forwarded_For` as X-Forwarded-For, so both spellings are the same header. */
function namesClient(name: string): boolean {
  const hyphened = name.includes('_') ? name.replaceAll('_', '-') : name;
  return hyphened === 'forwarded' || hyphened === 'x-real-ip' || hyphened.startsWith('x-forwarded-');
}

export const hasBody = ({ headers }: IncomingMessage) =>
  headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;

/** True if a failed request may be repeated: it has no body, and its idle connection was closed as it was sent. */
export const mayRepeat = (incoming: IncomingMessage) => !hasBody(incoming) && REPEATABLE.has(incoming.method as string);
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);

/**
 * True for statuses that node:http can forward. It throws on others within an event, which would end the process, and
 * treats 101 as a protocol switch.
 */
export const isAnswer = ({ statusCode = 0 }: Pick<IncomingMessage, 'statusCode'>) =>
  statusCode >= 200 && statusCode <= 599;
