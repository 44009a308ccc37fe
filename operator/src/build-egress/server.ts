/**
 * The egress proxy: the only address to which pods of builds can connect on a cluster. It forwards to the internet, and
 * to two routes of the platform. In: connections of pods of builds. Out: the git credentials for a ticket, the
 * publication for a build's token, and the proxy's health. Started by its own main.ts.
 */
import { type IncomingMessage, type ServerResponse, request as send } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { storeOriginOf } from '@slipway/installation';
import { startEgressProxy } from '@slipway/kaniko-build-wrapper';
import { dropRest } from '@slipway/program';
import { refOfSite } from '@slipway/sites';
import type { Logger } from 'pino';
import type { EgressSettings } from './settings.js';

const CREDENTIALS = /^\/builds\/[a-z0-9-]{1,63}\/[a-z0-9.-]{1,253}\/credentials$/;
const PUBLICATION = /^\/sites\/([a-z0-9-]{1,63})\/builds\/[a-z0-9.-]{1,253}\/deployment$/;
/**
 * Milliseconds without traffic in either direction after which a connection is closed. They are many because the store
 * compresses an output before it responds.
 */
const STILL_MS = 10 * 60_000;

export const startBuildEgress = (settings: EgressSettings, log: Logger) =>
  startEgressProxy(
    settings.listen,
    { allowed: settings.allowedNetworks, blocked: settings.blockedNetworks },
    (target, { isRefused, why }) => {
      if (isRefused) log.info({ target: target.slice(0, 200), why }, 'build connection refused');
    },
    (...pair) => answer(settings, ...pair),
  );

function answer({ apiUrl, hostingUrls }: EgressSettings, request: IncomingMessage, response: ServerResponse): void {
  const { method = '', url: path = '' } = request;
  if (method === 'GET' && (path === '/healthz' || path === '/readyz')) return void response.end('ok\n');
  if (method === 'POST' && CREDENTIALS.test(path)) return pass(apiUrl, ['x-build-ticket'], request, response);
  const [, site] = PUBLICATION.exec(path) ?? [];
  if (method === 'PUT' && site !== undefined && hostingUrls.length > 0) {
    return pass(storeOriginOf(refOfSite(site), hostingUrls), ['authorization'], request, response);
  }
  response.writeHead(404, { connection: 'close' }).end();
}

/** Forwards a request with only these headers. */
function pass(origin: string, names: readonly string[], request: IncomingMessage, response: ServerResponse): void {
  const { hostname: host, port } = new URL(origin);
  const headers = Object.fromEntries(names.map((name) => [name, request.headers[name] ?? '']));
  const length = request.headers['content-length'];
  const forwarded = send({
    host,
    port: Number(port || 80),
    method: request.method ?? '',
    path: request.url ?? '',
    headers: {
      ...headers,
      ...(length === undefined ? { 'transfer-encoding': 'chunked' } : { 'content-length': length }),
      'x-forwarded-for': request.socket.remoteAddress ?? '',
      connection: 'close',
    },
    timeout: STILL_MS,
  });
  const fail = () => {
    if (response.headersSent) response.destroy();
    else response.writeHead(502, { connection: 'close' }).end();
  };
  forwarded.once('timeout', () => forwarded.destroy());
  forwarded.once('error', fail);
  forwarded.once('response', (answered) => {
    response.writeHead(answered.statusCode ?? 502, {
      'content-type': answered.headers['content-type'] ?? 'application/json',
      connection: 'close',
    });
    pipeline(answered, response, { end: false })
      .then(() => dropRest(request.unpipe(forwarded)))
      .then(
        () => response.end(),
        () => response.destroy(),
      );
  });
  // The other server may answer before it has read the whole body. Its response counts.
  request.pipe(forwarded);
  response.once('close', () => forwarded.destroy());
}
