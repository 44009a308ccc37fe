/** Runs one command on a machine, with a limit on its output and its time. */
import type { ClientChannel } from 'ssh2';
import { opened, type SshConnection } from './connection.js';
import { quoted } from './quote.js';
import { SshError } from './ssh-error.js';

export interface CommandOptions {
  /** Written to standard input, such as a secret, which no argument may contain. */
  input?: string | Buffer;
  /** After this time, the program and its children are killed on the machine. Default: one minute. */
  timeoutMs?: number;
  /** Maximum bytes of standard output and standard error together. Default: 1 MiB. */
  mostBytes?: number;
  /** True to return the output up to `mostBytes` instead of failing beyond it. The command is not awaited then. */
  isCut?: boolean;
  /** Exit codes that are not an error. Default: 0 alone. */
  exitCodes?: readonly number[];
}

export interface CommandResult {
  exitCode: number;
  stdout: string;
  stderr: string;
}

const TIMEOUT_MS = 60_000;
const MOST_BYTES = 2 ** 20;
/** Characters of standard error in a message. */
const MOST_SHOWN = 500;

/** `args`: the program and its arguments, which reach it unchanged. */
export async function runCommand(
  connection: SshConnection,
  args: readonly [string, ...string[]],
  { input, timeoutMs = TIMEOUT_MS, mostBytes = MOST_BYTES, isCut = false, exitCodes = [0] }: CommandOptions,
  signal: AbortSignal,
): Promise<CommandResult> {
  const timeout = AbortSignal.timeout(timeoutMs);
  const ends = AbortSignal.any([signal, timeout]);
  try {
    const command = commandOf(args, timeoutMs);
    const channel = await opened<ClientChannel>(connection, (client, done) => client.exec(command, done), ends);
    const { exitCode, ...output } = await resultOf(channel, { input, mostBytes, isCut, name: args[0] }, ends);
    if (exitCode !== undefined && exitCodes.includes(exitCode)) return { exitCode, ...output };
    const why = exitCode === undefined ? 'was ended by a signal' : `ended with exit code ${exitCode}`;
    throw new SshError('command-failed', `${args[0]} ${why}: ${output.stderr.trim().slice(-MOST_SHOWN)}`, exitCode);
  } catch (error) {
    signal.throwIfAborted();
    if (timeout.aborted) throw new SshError('timeout', `${args[0]} did not end within ${timeoutMs} ms.`);
    throw error;
  }
}

/** Returns the command for the machine's shell. `timeout` ends it there, also if the connection is lost. */
const commandOf = (args: readonly string[], timeoutMs: number): string =>
  quoted(['timeout', '-s', 'KILL', String(Math.ceil(timeoutMs / 1000) + 1), ...args]);

interface Expected {
  input: string | Buffer | undefined;
  mostBytes: number;
  isCut: boolean;
  name: string;
}

const resultOf = (channel: ClientChannel, { input, mostBytes, isCut, name }: Expected, ends: AbortSignal) =>
  new Promise<Omit<CommandResult, 'exitCode'> & { exitCode: number | undefined }>((resolve, reject) => {
    const chunks: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] };
    const textOf = (stream: keyof typeof chunks) => Buffer.concat(chunks[stream]).toString();
    let bytes = 0;
    let exit: { code: number | null } | undefined;
    const fail = (error: unknown) => {
      reject(error);
      endCommand(channel);
    };
    const abort = () => fail(ends.reason);
    ends.addEventListener('abort', abort, { once: true });
    const keep = (stream: keyof typeof chunks) => (chunk: Buffer) => {
      const room = mostBytes - bytes;
      if (room < 0) return;
      bytes += chunk.length;
      if (chunk.length <= room) chunks[stream].push(chunk);
      else if (!isCut) fail(new SshError('output-too-large', `${name} wrote more than ${mostBytes} bytes.`));
      else {
        if (room > 0) chunks[stream].push(chunk.subarray(0, room));
        ends.removeEventListener('abort', abort);
        resolve({ exitCode: 0, stdout: textOf('stdout'), stderr: textOf('stderr') });
        endCommand(channel);
      }
    };
    channel.on('data', keep('stdout'));
    channel.stderr.on('data', keep('stderr'));
    channel.on('exit', (code: number | null) => (exit = { code }));
    channel.on('error', () => undefined);
    channel.on('close', () => {
      ends.removeEventListener('abort', abort);
      if (!exit) return reject(new SshError('closed', `The connection ended before ${name} did.`));
      resolve({ exitCode: exit.code ?? undefined, stdout: textOf('stdout'), stderr: textOf('stderr') });
    });
    if (ends.aborted) abort();
    channel.end(input);
  });

/**
 * Closes the channel. OpenSSH delivers no signals to sessions of root, so a silent command continues on the machine
 * until its timeout.
 */
function endCommand(channel: ClientChannel): void {
  channel.close();
  channel.resume();
}
