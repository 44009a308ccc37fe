/** Cross-origin rules of a project's address: any site may call it, with the project's keys as the only credentials. */
import type { IncomingMessage, ServerResponse } from 'node:http';

const ALLOWED_HEADERS =
  'accept, accept-profile, apikey, authorization, content-profile, content-type, if-match, if-none-match, ' +
  'prefer, range, ' +
  'range-unit, x-client-info, x-http-method-override, x-request-id, x-retry-count, x-supabase-api-version, x-upsert';

const EXPOSED_HEADERS =
  'Content-Length, Content-Location, Content-Range, ETag, Link, Location, Preference-Applied, Range-Unit, ' +
  'Retry-After, WWW-Authenticate, X-Request-Id, X-Supabase-Api-Version, X-Total-Count';

export function allowOrigin(outgoing: ServerResponse): void {
  outgoing.setHeader('Access-Control-Allow-Origin', '*');
  outgoing.setHeader('Access-Control-Expose-Headers', EXPOSED_HEADERS);
}

export const isPreflight = (incoming: IncomingMessage) =>
  incoming.method === 'OPTIONS' && incoming.headers['access-control-request-method'] !== undefined;

export function answerPreflight(incoming: IncomingMessage, outgoing: ServerResponse): void {
  outgoing.writeHead(200, {
    'Access-Control-Allow-Origin': '*',
    'Access-Control-Allow-Methods': 'GET, HEAD, PUT, PATCH, POST, DELETE, OPTIONS',
    'Access-Control-Allow-Headers': incoming.headers['access-control-request-headers'] ?? ALLOWED_HEADERS,
    'Access-Control-Max-Age': '3600',
    Vary: 'Access-Control-Request-Headers',
    'Content-Length': '0',
  });
  outgoing.end();
}
