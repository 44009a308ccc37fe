/**
 * One connection to a machine over SSH. In: an address, a private key and the host key that is pinned. Out: channels
 * for commands and files. Only `ssh-ed25519` is accepted as host key, so that a machine has one fingerprint.
 */
import { createHash } from 'node:crypto';
import { Client } from 'ssh2';
import { SshError } from './ssh-error.js';

export interface SshTarget {
  host: string;
  /** Default: 22. */
  port?: number;
  user: string;
  /** In the format of OpenSSH or PEM, without a passphrase. */
  privateKey: string;
  /** The fingerprint of the only accepted host key, `SHA256:…`. Undefined: the first connection accepts any key. */
  hostKey: string | undefined;
}

export interface SshConnection {
  client: Client;
  /** The fingerprint of the machine's host key. */
  hostKey: string;
  /** Undefined while the connection is open, else the reason of its end. */
  ended(): string | undefined;
}

const SSH_PORT = 22;
const READY_MS = 20_000;
/** A connection without a response to three probes is closed. */
const KEEPALIVE_MS = 10_000;
const UNANSWERED_PROBES = 3;

/** Returns the fingerprint of a host key as `ssh-keygen -l` shows it. */
export const fingerprintOf = (key: Buffer) =>
  `SHA256:${createHash('sha256').update(key).digest('base64').replaceAll('=', '')}`;

export async function openConnection(target: SshTarget, signal: AbortSignal): Promise<SshConnection> {
  signal.throwIfAborted();
  const client = new Client();
  let seen = '';
  let end: string | undefined;
  const abort = () => client.destroy();
  signal.addEventListener('abort', abort, { once: true });
  try {
    await new Promise<void>((resolve, reject) => {
      client.on('ready', resolve);
      client.on('error', (error) => {
        end ??= error.message;
        reject(errorOf(error, target, seen));
      });
      client.on('close', () => {
        end ??= 'the machine closed the connection';
        reject(new SshError('unreachable', `The machine at ${target.host} closed the connection.`));
      });
      client.connect({
        host: target.host,
        port: target.port ?? SSH_PORT,
        username: target.user,
        privateKey: target.privateKey,
        readyTimeout: READY_MS,
        keepaliveInterval: KEEPALIVE_MS,
        keepaliveCountMax: UNANSWERED_PROBES,
        algorithms: { serverHostKey: ['ssh-ed25519'] },
        hostVerifier: (key: Buffer) => {
          seen = fingerprintOf(key);
          return target.hostKey === undefined || seen === target.hostKey;
        },
      });
    });
  } catch (error) {
    client.destroy();
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', abort);
  }
  return { client, hostKey: seen, ended: () => end };
}

/** Opens a channel. One that opens after the abort is closed. */
export const opened = <T extends { end(): unknown }>(
  { client }: SshConnection,
  open: (client: Client, done: (error: Error | undefined, channel: T) => void) => void,
  ends: AbortSignal,
): Promise<T> =>
  new Promise((resolve, reject) => {
    ends.throwIfAborted();
    const abort = () => reject(ends.reason);
    const refuse = (error: Error) => reject(new SshError('closed', `The machine opens no channel: ${error.message}.`));
    ends.addEventListener('abort', abort, { once: true });
    try {
      open(client, (error, channel) => {
        ends.removeEventListener('abort', abort);
        if (error) return refuse(error);
        if (ends.aborted) channel.end();
        resolve(channel);
      });
    } catch (error) {
      // The library throws if the connection has ended.
      refuse(error as Error);
    }
  });

function errorOf(error: Error & { level?: string }, { host, hostKey }: SshTarget, seen: string): SshError {
  if (hostKey !== undefined && seen !== '' && seen !== hostKey) {
    return new SshError('host-key-changed', `The machine at ${host} has the host key ${seen}, not ${hostKey}.`);
  }
  if (error.level === 'client-authentication') {
    return new SshError('unauthorized', `The machine at ${host} does not accept the key.`);
  }
  return new SshError('unreachable', `The machine at ${host} does not accept a connection: ${error.message}.`);
}
