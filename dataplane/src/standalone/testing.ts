/** Runs a program of this folder as a process with its own environment, for tests. */
import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { keepForReport } from '@slipway/testing';
import type { Login } from '../sql/login.js';

export interface Ended {
  code: number | null;
  /** Everything that it wrote. */
  output: string;
}

export interface Program {
  url: string;
  /** URL of its probes; undefined: none. */
  admin: string | undefined;
  process: ChildProcess;
  output(): string;
  ended: Promise<Ended>;
}

/** Resolves once it serves. Fails with its output if it exits. */
export async function startProgram(name: 'auth' | 'rest', environment: Record<string, string>): Promise<Program> {
  const { child, output, ended } = run(name, environment);
  const serving = await new Promise<{ url: string; admin?: string }>((resolve, reject) => {
    child.stdout?.on('data', () => {
      const line = output()
        .split('\n')
        .find((line) => line.includes(`"${name} serves"`));
      if (line !== undefined) resolve(JSON.parse(line));
    });
    void ended.then(({ output }) => reject(new Error(`${name} ended:\n${output}`)));
  });
  return { url: serving.url, admin: serving.admin, process: child, output, ended };
}

/** Returns the exit status and output of a program that does not start. */
export const endOf = (name: 'auth' | 'rest', environment: Record<string, string>): Promise<Ended> =>
  run(name, environment).ended;

function run(name: string, environment: Record<string, string>) {
  const child = spawn(process.execPath, [fileURLToPath(new URL(`${name}.js`, import.meta.url))], {
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let written = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      written += chunk;
      keepForReport(chunk);
    });
  }
  const ended = new Promise<Ended>((resolve) => child.once('close', (code) => resolve({ code, output: written })));
  return { child, output: () => written, ended };
}

export async function stop({ process, ended }: Program): Promise<Ended> {
  process.kill('SIGTERM');
  return ended;
}

/** Returns the login as a URL; the folder of a Unix socket is its host. */
export const urlOf = ({ host, port, database, user, password }: Login) =>
  `postgres://${encodeURIComponent(user)}:${password}@/${database}?host=${encodeURIComponent(host)}&port=${port}`;

export const octKey = (secret: string, kid: string, key_ops: string[]) => ({
  kty: 'oct',
  kid,
  alg: 'HS256',
  k: Buffer.from(secret).toString('base64url'),
  key_ops,
});
