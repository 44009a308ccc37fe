/**
 * TLS on one machine. In: certificates that the operator orders, or one certificate whose files a setting names. Out:
 * decrypted connections for the gateway.
 */
import { readFileSync, statSync } from 'node:fs';
import type { Server } from 'node:http';
import type { BlockList, Socket } from 'node:net';
import {
  createSecureContext,
  createServer,
  type Server as TlsServer,
  type TlsOptions as TlsServerOptions,
} from 'node:tls';
import { type CertificateFolder, SecureContexts } from '@slipway/certificates';
import { LogThrottle } from '@slipway/program';
import type { Logger } from 'pino';
import { contains } from '../http/client-address.js';
import { ConnectionShares } from './connection-shares.js';

/** A certificate that the machine's owner renews. */
export interface CertificateFiles {
  certificate: string;
  key: string;
}

export interface TlsOptions {
  folder: CertificateFolder;
  /** Used for every host; undefined: each host has a certificate of its own in the folder. */
  files: CertificateFiles | undefined;
  /** Reverse proxies, such as those of a CDN: their connections serve many clients. */
  trustedProxies?: BlockList | undefined;
  log: Logger;
  /** Milliseconds between two looks at `files`; undefined: the default. */
  checkMs?: number | undefined;
}

/** A server in front of the gateway, which can end its connections, also those in mid-handshake. */
export type TlsFront = TlsServer & { closeAllConnections(): void };

const OLDEST = 'TLSv1.2';
const HANDSHAKE_MS = 10_000;
const CONNECTIONS = 16_384;
/**
 * Milliseconds after which the files of certificates are checked again, so that a renewed certificate needs no restart.
 */
const CHECK_MS = 10_000;

/** Decrypts connections and gives them to `gateway`, whose limits and handlers hold for both ports. */
export function createTlsServer(
  gateway: Server,
  { folder, files, trustedProxies, log, checkMs }: TlsOptions,
): TlsFront {
  const server = createServer({
    ...(files ? read(files) : { SNICallback: contextOf(folder, log) }),
    minVersion: OLDEST,
    ALPNProtocols: ['http/1.1'],
    handshakeTimeout: HANDSHAKE_MS,
    noDelay: true,
  });
  if (files) renewFrom(files, { server, log, checkMs });
  server.maxConnections = CONNECTIONS;
  // Counted before the handshake, which is what a flood of connections costs.
  const isProxy = (address: string) => trustedProxies !== undefined && contains(trustedProxies, address);
  new ConnectionShares(server, { most: CONNECTIONS, isProxy, log });
  server.on('secureConnection', (socket) => gateway.emit('connection', socket));
  // A client that ends its handshake early harms only itself.
  server.on('tlsClientError', (_, socket) => socket.destroy());
  const connections = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  const closeAllConnections = () => {
    for (const socket of connections) socket.destroy();
  };
  return Object.assign(server, { closeAllConnections });
}

type SniCallback = NonNullable<TlsServerOptions['SNICallback']>;

/** Returns the function that finds the certificate of a host for a handshake. */
function contextOf(folder: CertificateFolder, log: Logger): SniCallback {
  // Strangers choose the names, and so the number of problems.
  const lines = new LogThrottle((dropped) => log.warn({ dropped }, 'lines about certificates dropped'));
  const contexts = new SecureContexts({
    folder,
    onProblem: (host, err) => {
      if (lines.take('')) log.warn({ err, host }, 'certificate not read');
    },
  });
  return (serverName, callback) => {
    contexts.find(serverName).then((context) => callback(null, context), callback);
  };
}

const read = ({ certificate, key }: CertificateFiles) => ({ cert: readFileSync(certificate), key: readFileSync(key) });

/**
 * Uses the files again when they change, also for clients that send no name, such as those of an IP address. While the
 * files do not belong together, as within a renewal, the former certificate is used.
 */
function renewFrom(
  files: CertificateFiles,
  { server, log, checkMs = CHECK_MS }: { server: TlsServer; log: Logger; checkMs: number | undefined },
): void {
  let seen = versionOf(files);
  const timer = setInterval(() => {
    const version = versionOf(files);
    if (version === seen) return;
    seen = version;
    try {
      const context = { ...read(files), minVersion: OLDEST } as const;
      createSecureContext(context);
      server.setSecureContext(context);
    } catch (error) {
      log.warn({ err: error, ...files }, 'certificate not read');
    }
  }, checkMs).unref();
  server.once('close', () => clearInterval(timer));
}

/** Differs after each change of one of the files. */
const versionOf = ({ certificate, key }: CertificateFiles): string =>
  [certificate, key]
    .map((file) => statSync(file, { throwIfNoEntry: false }))
    .map((found) => `${found?.ino} ${found?.size} ${found?.mtimeMs}`)
    .join();
