/**
 * The only network access of a build: an HTTP proxy on a Unix socket, or on a port that only builds can reach. In:
 * CONNECT requests, and requests of http:// URLs. The proxy resolves each name itself and checks the address that it
 * connects to. So neither a redirect nor a changed DNS name can bypass the check. It refuses addresses outside of the
 * internet and addresses of this machine, except in networks that the installation allows.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse, request as send } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream';
import { connectionsOf, listen, type Reach } from '@slipway/program';
import { AddressRefused, type Outbound, outboundTo } from '@slipway/program/outbound.js';

const CONNECT_TIMEOUT_MS = 20_000;
/** Milliseconds without traffic after which a connection is closed. */
const IDLE_MS = 5 * 60_000;
/** Maximum number of connections of one build that has a socket of its own. */
const CONNECTIONS = 256;
/**
 * Maximum number of connections of one address, and of all addresses, on a port that builds share. A tunnel whose ends
 * read nothing takes 0.22 MiB of memory. 1,024 of them took 368 MiB with the program itself, and the pod has 512 MiB.
 */
const [CONNECTIONS_OF_ADDRESS, CONNECTIONS_OF_ALL] = [64, 1024];
/** Ports that the proxy rejects: the port of mail between servers. No build needs it, and spammers look for it. */
const REFUSED_PORTS = new Set([25]);

export interface ConnectionFailure {
  /** False: the address could not be reached. */
  isRefused: boolean;
  why: string;
}

export interface EgressProxy {
  /** The proxy's own address: a URL, or the path of a socket. */
  url: string;
  close(): Promise<void>;
}

/**
 * `place` is the path of a socket, or `host:port`. `failed` receives the host and port of each connection that was not
 * made, with the reason. `answer` answers requests to the proxy itself, by their path.
 */
export async function startEgressProxy(
  place: string,
  reach: Reach,
  failed: (target: string, failure: ConnectionFailure) => void,
  answer?: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<EgressProxy> {
  const outbound = outboundTo(connectionsOf(reach));
  const open = new Set<Duplex>();
  const server = createServer({ maxHeaderSize: 32_768 }, (request, response) => {
    if (answer && request.url?.startsWith('/')) return answer(request, response);
    forward(outbound, request, response).catch((error) => refuse(request.url ?? '', error, response));
  });
  const refuse = (target: string, error: unknown, response: ServerResponse) => {
    failed(target, failureOf(error));
    if (response.headersSent) response.destroy();
    else response.writeHead(statusOf(error), { 'content-type': 'text/plain' }).end(`${reasonOf(target, error)}\n`);
  };
  const isShared = !place.startsWith('/');
  server.maxConnections = isShared ? CONNECTIONS_OF_ALL : CONNECTIONS;
  const counts = new Map<string, number>();
  server.on('connection', (connection) => {
    if (isShared && !counted(counts, connection)) return void connection.destroy();
    remember(open, connection);
  });
  server.on('connect', (request: IncomingMessage, client: Duplex, head: Buffer) => {
    client.on('error', () => client.destroy());
    tunnel(outbound, open, { target: request.url ?? '', client, head }).catch((error) => {
      failed(request.url ?? '', failureOf(error));
      const body = `${reasonOf(request.url ?? '', error)}\n`;
      client.end(`HTTP/1.1 ${statusOf(error)} Refused\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
    });
  });
  const url = await listen(server, place);
  return { url, close: () => closed(server, open, outbound) };
}

/** Counts the connections of each address; an address belongs to one build. Returns false if there are too many. */
function counted(counts: Map<string, number>, connection: Socket): boolean {
  const address = connection.remoteAddress ?? '';
  const count = counts.get(address) ?? 0;
  if (count >= CONNECTIONS_OF_ADDRESS) return false;
  counts.set(address, count + 1);
  connection.once('close', () => {
    const left = (counts.get(address) ?? 1) - 1;
    if (left === 0) counts.delete(address);
    else counts.set(address, left);
  });
  return true;
}

async function closed(server: Server, open: ReadonlySet<Duplex>, outbound: Outbound): Promise<void> {
  const ended = new Promise((resolve) => server.close(resolve));
  for (const each of open) each.destroy();
  await Promise.all([ended, outbound.close()]);
}

function remember(open: Set<Duplex>, socket: Socket): void {
  open.add(socket);
  socket.setTimeout(IDLE_MS, () => socket.destroy());
  socket.once('close', () => open.delete(socket));
}

interface Tunnel {
  target: string;
  client: Duplex;
  head: Buffer;
}

async function tunnel(outbound: Outbound, open: Set<Duplex>, { target, client, head }: Tunnel): Promise<void> {
  const { host, port } = addressOf(target);
  const server = await outbound.connect(host, port, CONNECT_TIMEOUT_MS);
  if (client.destroyed) return void server.destroy();
  remember(open, server);
  client.write('HTTP/1.1 200 Connection established\r\n\r\n');
  if (head.length > 0) server.write(head);
  pipeline(client, server, () => undefined);
  pipeline(server, client, () => undefined);
}

async function forward(outbound: Outbound, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '');
  if (url.protocol !== 'http:') throw new TypeError('the proxy forwards http:// URLs, and CONNECT for all others');
  const { host, port } = addressOf(`${url.hostname}:${url.port || 80}`);
  const connection = await outbound.connect(host, port, CONNECT_TIMEOUT_MS);
  const { 'proxy-connection': _, 'proxy-authorization': __, ...headers } = request.headers;
  const path = url.pathname + url.search;
  const options = {
    method: request.method ?? 'GET',
    path,
    headers: { ...headers, host: url.host, connection: 'close' },
  };
  const forwarded = send({ ...options, createConnection: () => connection });
  forwarded.once('response', (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    pipeline(answer, response, () => undefined);
  });
  pipeline(request, forwarded, (error) => error && response.destroy());
  response.once('close', () => forwarded.destroy());
}

/** Parses `host:port`. An IPv6 host is in brackets. */
function addressOf(target: string): { host: string; port: number } {
  const [, bracketed, plain, digits] = /^(?:\[([\da-f:.]+)\]|([^:[\]%/@\s]+)):(\d{1,5})$/i.exec(target) ?? [];
  const port = Number(digits);
  if (port === 0 || port > 65_535 || digits === undefined) throw new TypeError('the target is not host:port');
  if (REFUSED_PORTS.has(port)) throw new TypeError(`no build may connect to port ${port}`);
  return { host: (bracketed ?? plain) as string, port };
}

const isRefusal = (error: unknown) => error instanceof AddressRefused || error instanceof TypeError;
const statusOf = (error: unknown) => (isRefusal(error) ? 403 : 502);
const failureOf = (error: unknown) => ({ isRefused: isRefusal(error), why: (error as Error).message });

const reasonOf = (target: string, error: unknown) =>
  `The build's connection to ${target.slice(0, 300)} failed: ${(error as Error).message}`;
