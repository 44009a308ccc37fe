/**
 * Runs programs of the system, such as podman and ip. In: a program and its arguments, as a list. Out: its output. The
 * program gets no variable of this process.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';

export interface CommandOptions {
  env?: Readonly<Record<string, string>>;
  /** Written to standard input, such as a secret that no argument may contain. */
  input?: string;
  signal?: AbortSignal;
  /** Receives standard output and standard error; then the result is empty. */
  onOutput?(bytes: Buffer): void;
  milliseconds?: number;
}

/** The program ended with another exit code than 0. The message has the last lines of its standard error. */
export class CommandFailed extends Error {
  constructor(
    readonly program: string,
    readonly exitCode: number | null,
    readonly complaint: string,
  ) {
    super(`${program} ended with ${exitCode === null ? 'a signal' : `exit code ${exitCode}`}: ${complaint}`);
  }
}

const SYSTEM_PATH = '/usr/sbin:/usr/bin:/sbin:/bin';
const MILLISECONDS = 60_000;
const OUTPUT_BYTES = 4 * 2 ** 20;
const COMPLAINT_BYTES = 2_000;

/** Resolves with standard output. Rejects with CommandFailed, or with the signal's reason. */
export async function systemCommand(
  [program, ...args]: readonly [string, ...string[]],
  { env = {}, input, signal, onOutput, milliseconds = MILLISECONDS }: CommandOptions = {},
): Promise<string> {
  signal?.throwIfAborted();
  const timeout = AbortSignal.timeout(milliseconds);
  const ends = signal ? AbortSignal.any([signal, timeout]) : timeout;
  const child = spawn(program, args, {
    cwd: '/',
    env: { PATH: SYSTEM_PATH, LC_ALL: 'C', ...env },
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
  });
  const kill = () => child.kill('SIGKILL');
  ends.addEventListener('abort', kill, { once: true });
  const [output, complaint] = [new Tail(OUTPUT_BYTES), new Tail(COMPLAINT_BYTES)];
  child.stdout?.on('data', (bytes: Buffer) => {
    onOutput?.(bytes);
    // A command within another one may have both on standard output.
    (onOutput ? complaint : output).add(bytes);
  });
  child.stderr?.on('data', (bytes: Buffer) => {
    onOutput?.(bytes);
    complaint.add(bytes);
  });
  child.stdin?.on('error', () => undefined).end(input);
  try {
    const [code] = (await once(child, 'close')) as [number | null];
    if (code === 0) return output.text;
    signal?.throwIfAborted();
    throw new CommandFailed(program, code, timeout.aborted ? 'it took too long' : complaint.text.trim());
  } finally {
    ends.removeEventListener('abort', kill);
  }
}

export const linesOf = (output: string): string[] => output.split('\n').filter((line) => line !== '');

/** The last bytes of an output. */
class Tail {
  #bytes: Buffer = Buffer.alloc(0);

  constructor(private readonly most: number) {}

  add(bytes: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, bytes]).subarray(-this.most);
  }

  get text(): string {
    return this.#bytes.toString();
  }
}
