/** Separates the headers that a proxy forwards from those of one connection alone. Used by every proxy here. */
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

/** A caller who names these in Connection would have the body framed, or the host chosen, by whoever comes next. */
const NEVER_OF_ONE_CONNECTION = new Set(['content-length', 'host']);

/** All headers but those that belong to one connection; Node frames the body anew. */
export function endToEnd({ headers }: { headers: NodeJS.Dict<string | string[]> }): OutgoingHttpHeaders {
  const named = headers.connection
    ?.toString()
    .toLowerCase()
    .split(/\s*,\s*/);
  const kept: OutgoingHttpHeaders = {};
  for (const name in headers) {
    if (OF_ONE_CONNECTION.has(name)) continue;
    if (!named?.includes(name) || NEVER_OF_ONE_CONNECTION.has(name)) kept[name] = headers[name];
  }
  return kept;
}

/**
 * The same of a request, without what it says of where it came from: that is for whoever hands it on to say. What has a
 * body says how it is framed: of its own accord Node frames none of a GET or DELETE, and what follows would be the next
 * request of the connection.
 */
export function handedOn(incoming: IncomingMessage): OutgoingHttpHeaders {
  const headers = endToEnd(incoming);
  for (const name in headers) {
    if (name === 'forwarded' || name === 'x-real-ip' || name.startsWith('x-forwarded-')) delete headers[name];
  }
  if (incoming.headers['transfer-encoding'] !== undefined) headers['transfer-encoding'] = 'chunked';
  return headers;
}

export const hasBody = ({ headers }: IncomingMessage) =>
  headers['content-length'] !== undefined || headers['transfer-encoding'] !== undefined;

/** A request without a body that was sent on a kept connection as the other side closed it may be sent once more. */
export const mayRepeat = (incoming: IncomingMessage) => !hasBody(incoming) && REPEATABLE.has(incoming.method as string);
const REPEATABLE = new Set(['GET', 'HEAD', 'OPTIONS', 'PUT', 'DELETE']);

/**
 * True for statuses that node:http can forward. It throws on others within an event, which ends the process, and treats
 * 101 as a protocol switch.
 */
export const isAnswer = ({ statusCode = 0 }: Pick<IncomingMessage, 'statusCode'>) =>
  statusCode >= 200 && statusCode <= 599;
