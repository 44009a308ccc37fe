/**
 * The port of plain HTTP beside the port of HTTPS. It responds to the challenges of a certificate authority (RFC 8555,
 * section 8.3), and redirects all other requests to HTTPS. No request reaches a service unencrypted.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { isIP } from 'node:net';
import type { CertificateFolder } from '@slipway/certificates';
import { isDnsName } from '@slipway/program';
import type { Logger } from 'pino';
import { ConnectionShares } from './connection-shares.js';
import type { HostCheck } from './host-check.js';

export interface PlainPortOptions {
  folder: CertificateFolder;
  /** Public URL, whose port is the port of redirects. */
  publicUrl: string;
  answersFor: HostCheck;
  log: Logger;
  /** Replaces the default timeout, in milliseconds. */
  patienceMs?: number;
}

const CHALLENGES = '/.well-known/acme-challenge/';
const CONNECTIONS = 1_024;
/** Timeout in milliseconds of a whole request, which has no body, and of the pause between two requests. */
const PATIENCE_MS = 5_000;

export function createPlainPort(options: PlainPortOptions): Server {
  const { log, patienceMs = PATIENCE_MS } = options;
  const server = createServer({
    requestTimeout: patienceMs,
    keepAliveTimeout: patienceMs,
    // Node.js looks for slow requests at this interval, which is 30 s otherwise.
    connectionsCheckingInterval: patienceMs / 5,
    noDelay: true,
  });
  server.maxConnections = CONNECTIONS;
  new ConnectionShares(server, { most: CONNECTIONS, isProxy: () => false, log });
  server.on('request', (incoming, outgoing) => {
    respond(incoming, outgoing, options).catch((error: unknown) => {
      log.error({ err: error }, 'request at the plain port failed');
      outgoing.destroy();
    });
  });
  return server;
}

async function respond(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  { folder, publicUrl, answersFor }: PlainPortOptions,
): Promise<void> {
  const { url = '/', headers } = incoming;
  const host = hostNameOf(headers.host);
  // A body is not read: its connection ends with the response.
  outgoing.setHeader('connection', 'close');
  if (host === undefined || !answersFor(headers.host)) return end(outgoing, 421, 'This server has no such host.');
  if (url.startsWith(CHALLENGES)) {
    const authorization = await folder.challengeOf(url.slice(CHALLENGES.length), host);
    if (authorization !== undefined) return end(outgoing, 200, authorization);
  }
  const { port } = new URL(publicUrl);
  outgoing.setHeader('location', `https://${host}${port === '' ? '' : `:${port}`}${pathOf(url)}`);
  end(outgoing, 308, 'This server is reached by HTTPS.');
}

function end(outgoing: ServerResponse, status: number, text: string): void {
  outgoing.writeHead(status, { 'content-type': 'text/plain; charset=utf-8' });
  outgoing.end(text);
}

/**
 * In lower case, without the port and a final dot; undefined: there is none, or it is no host name. Otherwise it could
 * lead a redirect to another host, as `evil.example/.apps.example.net`.
 */
function hostNameOf(host: string | undefined): string | undefined {
  const name = host?.replace(/:\d*$/, '').replace(/\.$/, '').toLowerCase();
  return name !== undefined && (isDnsName(name) || isIP(name.replace(/^\[(.+)\]$/, '$1')) !== 0) ? name : undefined;
}

/** A request line may have a whole URL, or `*`. */
const pathOf = (url: string): string => (url.startsWith('/') ? url : '/');
