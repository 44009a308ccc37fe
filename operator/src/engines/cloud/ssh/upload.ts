/**
 * Uploads a file to a machine. The file appears at its path with its whole content, or not at all: it is written to a
 * temporary file beside it, compared by its checksum on the machine, and renamed.
 */
import { randomBytes } from 'node:crypto';
import type { SFTPWrapper } from 'ssh2';
import { runCommand } from './command.js';
import { opened, type SshConnection } from './connection.js';
import { SshError } from './ssh-error.js';

export interface Upload {
  /** The path of a local file. */
  from: string;
  /** An absolute path on the machine, in an existing folder. A file there is replaced. */
  to: string;
  /** The checksum of the file, in hexadecimal. */
  sha256: string;
  /** Permissions, such as 0o755. */
  mode: number;
  /** Default: ten minutes. */
  timeoutMs?: number;
}

const TIMEOUT_MS = 10 * 60_000;
const REMOVAL_MS = 5_000;
/** Permissions of the temporary file. */
const PRIVATE = 0o600;

export async function uploadFile(connection: SshConnection, upload: Upload, signal: AbortSignal): Promise<void> {
  const { from, to, sha256, mode, timeoutMs = TIMEOUT_MS } = upload;
  const timeout = AbortSignal.timeout(timeoutMs);
  const lost = new AbortController();
  const ends = AbortSignal.any([signal, timeout, lost.signal]);
  const part = `${to}.${randomBytes(8).toString('hex')}.part`;
  const sftp = await opened<SFTPWrapper>(connection, (client, done) => client.sftp(done), ends);
  sftp.on('close', () => lost.abort(new SshError('closed', `The connection ended in the upload of ${to}.`)));
  const step = (run: Step) => settled(run, ends);
  try {
    await step((done) => sftp.fastPut(from, part, { mode: PRIVATE }, done));
    const { stdout } = await runCommand(connection, ['sha256sum', '--', part], { timeoutMs }, ends);
    if (/[0-9a-f]{64}/.exec(stdout)?.[0] !== sha256) {
      throw new SshError('checksum', `The uploaded ${to} has another checksum than ${sha256}.`);
    }
    await step((done) => sftp.chmod(part, mode, done));
    await flush(sftp, part, ends);
    await step((done) => sftp.ext_openssh_rename(part, to, done));
  } catch (error) {
    if (!lost.signal.aborted) await removePart(connection, part);
    signal.throwIfAborted();
    if (timeout.aborted) throw new SshError('timeout', `The upload of ${to} did not end within ${timeoutMs} ms.`);
    if (error instanceof SshError) throw error;
    throw new SshError('upload-failed', `${to} was not uploaded: ${(error as Error).message}.`);
  } finally {
    sftp.end();
  }
}

/** Deletes the temporary file, also after an abort. */
async function removePart(connection: SshConnection, part: string): Promise<void> {
  const args = ['rm', '-f', '--', part] as const;
  await runCommand(connection, args, { timeoutMs: REMOVAL_MS }, new AbortController().signal).catch(() => undefined);
}

/** Writes the file to the disk, so that the rename does not survive a power cut without it. */
async function flush(sftp: SFTPWrapper, path: string, ends: AbortSignal): Promise<void> {
  let handle: Buffer = Buffer.alloc(0);
  const keep = (done: Done) => (error: Error | undefined, value: Buffer) => {
    handle = value;
    done(error);
  };
  await settled((done) => sftp.open(path, 'r+', keep(done)), ends);
  await settled((done) => sftp.ext_openssh_fsync(handle, done), ends);
  await settled((done) => sftp.close(handle, done), ends);
}

type Done = (error?: Error | null) => void;
type Step = (done: Done) => void;

/** The library does not call back for every request of a channel that ends, so the signal ends a step too. */
const settled = (run: Step, ends: AbortSignal) =>
  new Promise<void>((resolve, reject) => {
    ends.throwIfAborted();
    const abort = () => reject(ends.reason);
    ends.addEventListener('abort', abort, { once: true });
    run((error) => {
      ends.removeEventListener('abort', abort);
      if (error) reject(error);
      else resolve();
    });
  });
