/** The errors of SSH to a machine. */

export type SshErrorKind =
  /** No connection: nothing listens, or nothing responds. */
  | 'unreachable'
  /** The machine does not accept the key. */
  | 'unauthorized'
  /** Another host key than the pinned one: another machine has the address, or somebody intercepts it. */
  | 'host-key-changed'
  /** The connection ended. It is unknown whether the command or upload was completed. */
  | 'closed'
  | 'timeout'
  /** The command ended with an exit code that was not expected, or by a signal. */
  | 'command-failed'
  | 'output-too-large'
  /** The file on the machine is not the one that was to be uploaded. */
  | 'checksum'
  /** The local file can't be read, or the remote one can't be written. */
  | 'upload-failed';

export class SshError extends Error {
  constructor(
    readonly kind: SshErrorKind,
    message: string,
    /** The exit code of a command. Undefined: a signal ended it, or the error is another one. */
    readonly exitCode?: number,
  ) {
    super(message);
    this.name = 'SshError';
  }

  /** True if a new connection may succeed later without a change by a person. */
  get retryable(): boolean {
    return this.kind === 'unreachable' || this.kind === 'closed' || this.kind === 'timeout';
  }
}
