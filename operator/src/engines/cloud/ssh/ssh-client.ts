/**
 * Commands and files on one machine over SSH. In: a target. Out: results, or an SshError. The connection is opened by
 * the first call, used by all, and opened again by the next call after it ended. Every connection must have the same
 * host key.
 */
import type { Duplex } from 'node:stream';
import { type CommandOptions, type CommandResult, runCommand } from './command.js';
import { openConnection, opened, type SshConnection, type SshTarget } from './connection.js';
import { SshError } from './ssh-error.js';
import { type Upload, uploadFile } from './upload.js';

export class SshClient {
  readonly #target: SshTarget;
  readonly #stop = new AbortController();
  #pinned: string | undefined;
  #connection: Promise<SshConnection> | undefined;

  constructor(target: SshTarget) {
    this.#target = target;
    this.#pinned = target.hostKey;
  }

  /** Returns the fingerprint of the machine's host key, `SHA256:…`, to be pinned by later clients. */
  async hostKey(signal: AbortSignal): Promise<string> {
    return (await this.#connected(signal)).hostKey;
  }

  /**
   * Runs the program with its arguments. A command is never repeated, also if the connection ends. An aborted one may
   * continue on the machine until its timeout.
   */
  async run(
    args: readonly [string, ...string[]],
    options: CommandOptions,
    signal: AbortSignal,
  ): Promise<CommandResult> {
    return runCommand(await this.#connected(signal), args, options, signal);
  }

  async upload(upload: Upload, signal: AbortSignal): Promise<void> {
    await uploadFile(await this.#connected(signal), upload, signal);
  }

  /** Connects to a Unix socket on the machine. Rejects with the kind `closed` if nothing listens there. */
  async connect(socketPath: string, signal: AbortSignal): Promise<Duplex> {
    return opened(
      await this.#connected(signal),
      (client, done) => client.openssh_forwardOutStreamLocal(socketPath, done),
      signal,
    );
  }

  /** Closes the connection. Commands in progress reject. Later calls reject too. */
  async close(): Promise<void> {
    this.#stop.abort(new SshError('closed', 'The SSH client is closed.'));
    const connection = this.#connection && (await ifOpened(this.#connection));
    connection?.client.destroy();
  }

  async #connected(signal: AbortSignal): Promise<SshConnection> {
    this.#stop.signal.throwIfAborted();
    const current = this.#connection;
    const connection = current && (await raced(ifOpened(current), signal));
    if (connection && connection.ended() === undefined) return connection;
    // Another call may have replaced it already.
    if (this.#connection === current) this.#connection = this.#open();
    return raced(this.#connection as Promise<SshConnection>, signal);
  }

  /** The connection belongs to all calls, so the signal of one call does not end it. */
  async #open(): Promise<SshConnection> {
    const connection = await openConnection({ ...this.#target, hostKey: this.#pinned }, this.#stop.signal);
    this.#pinned = connection.hostKey;
    return connection;
  }
}

const ifOpened = (connection: Promise<SshConnection>) => connection.catch(() => undefined);

const raced = <T>(work: Promise<T>, signal: AbortSignal): Promise<T> =>
  new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
