/**
 * Forwards the DNS queries of containers to the resolvers of this machine, which no container reaches itself. In: the
 * machine's ends of the links to containers. Out: responses, without names that lead to addresses which the containers
 * may not reach, so that no such name is resolved at all.
 *
 * The rules of the machine send queries at port 53 to RESOLVER_PORT. All that a container sends or causes has limits.
 */
import { randomInt } from 'node:crypto';
import { createSocket, type RemoteInfo, type Socket as UdpSocket } from 'node:dgram';
import { Resolver } from 'node:dns';
import { once } from 'node:events';
import { connect, createServer, isIPv6, type Server, type Socket } from 'node:net';
import { ConcurrencyLimit, ConcurrencyLimitReached, TokenBucket } from '@slipway/program';
import type { Logger } from 'pino';
import {
  addressesIn,
  CODES,
  emptyResponse,
  MOST_OF_QUERY,
  type Question,
  questionOf,
  responds,
  withId,
} from './dns-message.js';
import { RESOLVER_PORT } from './machine-routing.js';

export interface DnsForwarderOptions {
  /** True for addresses that containers may reach. */
  reaches(address: string): boolean;
  log: Logger;
  /** Addresses of resolvers, each with a port if it is not 53. Default: those of this machine. */
  resolvers?(): readonly string[];
  port?: number;
}

/** Queries of one container: at once, and then in a second. Further ones get no response. */
export const QUERY_RATE = { burst: 500, perSecond: 100 };
/** Queries in flight of one container, and of all. */
export const IN_FLIGHT = { ofOne: 64, most: 1024, perFree: 1 / 4 };
/** TCP connections of one container. */
export const MOST_STREAMS = 16;
const MOST_RESOLVERS = 3;
const RESOLVER_MS = 2_000;
const STREAM_MS = 10_000;
const RESOLVERS_KEPT_MS = 30_000;
const AGAIN_MS = 1_000;

interface Link {
  address: string;
  udp: UdpSocket | undefined;
  tcp: Server | undefined;
  bucket: TokenBucket;
  again: NodeJS.Timeout | undefined;
}

export class DnsForwarder {
  readonly #links = new Map<string, Link>();
  readonly #queries = new ConcurrencyLimit(IN_FLIGHT);
  #resolvers: { list: readonly string[]; until: number } = { list: [], until: 0 };

  constructor(private readonly options: DnsForwarderOptions) {}

  /** Listens at the address until `close`. If that fails, it is tried again. */
  open(address: string): void {
    if (this.#links.has(address)) return;
    const bucket = new TokenBucket(QUERY_RATE);
    const link: Link = { address, udp: undefined, tcp: undefined, bucket, again: undefined };
    this.#links.set(address, link);
    void this.#listen(address, link, true);
  }

  close(address: string): void {
    const link = this.#links.get(address);
    this.#links.delete(address);
    if (link) release(link);
  }

  closeAll(): void {
    for (const address of [...this.#links.keys()]) this.close(address);
  }

  async #listen(address: string, link: Link, isFirst: boolean): Promise<void> {
    const { port = RESOLVER_PORT, log } = this.options;
    const udp = createSocket('udp4');
    const tcp = createServer({ pauseOnConnect: false }, (socket) => void this.#serveStream(link, socket));
    tcp.maxConnections = MOST_STREAMS;
    link.udp = udp;
    link.tcp = tcp;
    try {
      udp.bind(port, address);
      await once(udp, 'listening');
      tcp.listen(port, address);
      await once(tcp, 'listening');
    } catch (error) {
      release(link);
      if (this.#links.get(address) !== link) return;
      if (isFirst) log.warn({ err: error, address }, 'resolver of an app not started');
      link.again = setTimeout(() => void this.#listen(address, link, false), AGAIN_MS);
      link.again.unref();
      return;
    }
    // Closed while it began to listen.
    if (this.#links.get(address) !== link) return release(link);
    for (const server of [udp, tcp]) {
      server.on('error', (error: Error) => log.warn({ err: error, address }, 'resolver of an app failed'));
    }
    udp.on('message', (query, from) => void this.#answerDatagram(link, query, from));
  }

  async #answerDatagram(link: Link, query: Buffer, from: RemoteInfo): Promise<void> {
    const response = await this.#answer(link, query, datagram);
    // The socket may be closed by now, and the container may not listen.
    if (response && link.udp) {
      try {
        link.udp.send(response, from.port, from.address, () => undefined);
      } catch {}
    }
  }

  /** Answers one query after another. */
  async #serveStream(link: Link, socket: Socket): Promise<void> {
    socket.setTimeout(STREAM_MS, () => socket.destroy());
    socket.on('error', () => undefined);
    let received = Buffer.alloc(0);
    try {
      for await (const bytes of socket as AsyncIterable<Buffer>) {
        received = Buffer.concat([received, bytes]);
        for (;;) {
          const length = received.length >= 2 ? received.readUInt16BE(0) : 0;
          if (length > MOST_OF_QUERY) return;
          if (received.length < 2 || received.length < 2 + length) break;
          const response = await this.#answer(link, received.subarray(2, 2 + length), stream);
          if (!response) return;
          if (!socket.write(framed(response))) await once(socket, 'drain', { signal: AbortSignal.timeout(STREAM_MS) });
          received = received.subarray(2 + length);
        }
      }
    } catch {
      // The container closed the connection, or did not read.
    } finally {
      socket.destroy();
    }
  }

  /** Returns the response for a container. Undefined: it gets none. */
  async #answer(link: Link, query: Buffer, send: Send): Promise<Buffer | undefined> {
    const question = query.length <= MOST_OF_QUERY ? questionOf(query) : undefined;
    if (!question || !link.bucket.tryTake()) return undefined;
    if (isPrivate(question.name, this.options.reaches)) return emptyResponse(query, question, CODES.NXDOMAIN);
    try {
      return await this.#queries.run(link.address, () => this.#forward(query, question, send));
    } catch (error) {
      if (error instanceof ConcurrencyLimitReached) return undefined;
      throw error;
    }
  }

  async #forward(query: Buffer, question: Question, send: Send): Promise<Buffer> {
    const response = await this.#ask(query, question, send);
    const addresses = response && addressesIn(response);
    if (!response || !addresses) return emptyResponse(query, question, CODES.SERVFAIL);
    const isReached = addresses.every((address) => this.options.reaches(address));
    return isReached ? withId(response, query.readUInt16BE(0)) : emptyResponse(query, question, CODES.NXDOMAIN);
  }

  /** Returns the response of the first resolver that responds. Each gets an id that nobody else can know. */
  async #ask(query: Buffer, question: Question, send: Send): Promise<Buffer | undefined> {
    for (const resolver of this.#currentResolvers()) {
      const id = randomInt(0x10000);
      const response = await send(placeOf(resolver), withId(query, id), (message) => responds(message, id, question));
      if (response) return response;
    }
    return undefined;
  }

  #currentResolvers(): readonly string[] {
    if (performance.now() < this.#resolvers.until) return this.#resolvers.list;
    const { resolvers = () => new Resolver().getServers() } = this.options;
    this.#resolvers = {
      list: resolvers().slice(0, MOST_RESOLVERS),
      until: performance.now() + RESOLVERS_KEPT_MS,
    };
    return this.#resolvers.list;
  }
}

interface Place {
  host: string;
  port: number;
}

/** Sends a query. Resolves with the first message that `isResponse` accepts, or with undefined. */
type Send = (to: Place, query: Buffer, isResponse: (message: Buffer) => boolean) => Promise<Buffer | undefined>;

/** A socket for each query has a port of its own, and accepts messages of the resolver alone. */
const datagram: Send = ({ host, port }, query, isResponse) =>
  new Promise((resolve) => {
    const socket = createSocket(isIPv6(host) ? 'udp6' : 'udp4');
    let hasEnded = false;
    const end = (response?: Buffer) => {
      if (hasEnded) return;
      hasEnded = true;
      clearTimeout(timer);
      socket.close();
      resolve(response);
    };
    const timer = setTimeout(end, RESOLVER_MS);
    socket.on('error', () => end());
    socket.on('message', (message) => {
      if (isResponse(message)) end(message);
    });
    const send = (error?: Error) => (error ? end() : socket.send(query, () => undefined));
    socket.connect(port, host, send as () => void);
  });

const stream: Send = ({ host, port }, query, isResponse) =>
  new Promise((resolve) => {
    const socket = connect({ host, port });
    let received = Buffer.alloc(0);
    const end = (response?: Buffer) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(response);
    };
    const timer = setTimeout(end, RESOLVER_MS);
    socket.on('error', () => end());
    socket.on('close', () => end());
    socket.on('data', (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      const whole = received.length >= 2 && received.length >= 2 + received.readUInt16BE(0);
      if (!whole) return;
      const message = received.subarray(2, 2 + received.readUInt16BE(0));
      end(isResponse(message) ? message : undefined);
    });
    socket.write(framed(query));
  });

function release(link: Link): void {
  clearTimeout(link.again);
  for (const server of [link.udp, link.tcp]) {
    // Node.js throws if the socket is not open.
    try {
      server?.close();
    } catch {}
  }
  link.udp = undefined;
  link.tcp = undefined;
}

function framed(message: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
}

/** Reads `192.0.2.1`, `192.0.2.1:53`, `2001:db8::1` and `[2001:db8::1]:53`. */
function placeOf(resolver: string): Place {
  const [, host, port] = /^\[(.+)\]:(\d+)$/.exec(resolver) ?? /^([\d.]+):(\d+)$/.exec(resolver) ?? [];
  return { host: host ?? resolver, port: Number(port ?? 53) };
}

/** Domains that only the network of the machine knows (RFC 6761, 6762, 8375, and `internal` of ICANN). */
const LOCAL = /(^|\.)(localhost|local|internal|home\.arpa|lan|intranet|private|corp)$/;

/** True for names that no public server knows, and for the names of addresses that containers may not reach. */
function isPrivate(name: string, reaches: (address: string) => boolean): boolean {
  const reverse = /^(\d+)\.(\d+)\.(\d+)\.(\d+)\.in-addr\.arpa$/.exec(name);
  if (reverse) return !reaches(reverse.slice(1).reverse().join('.'));
  if (name.endsWith('.in-addr.arpa')) return true;
  if (name.endsWith('.ip6.arpa')) return !/\.[23]\.ip6\.arpa$/.test(name);
  return LOCAL.test(name) || (name !== '' && !name.includes('.'));
}
