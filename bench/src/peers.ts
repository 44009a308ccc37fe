/**
 * The programs that Slipway is compared with. Their packages have a lockfile of their own, so that none of them is a
 * dependency of the platform.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';

export const peerScript = (name: string) => fileURLToPath(new URL(`../peers/${name}`, import.meta.url));

export interface LiteSettings {
  driver: 'sqlite' | 'pglite' | 'postgres';
  url: string;
  schema: string;
  jwtSecret: string;
}

export interface Program {
  child: ChildProcess;
  pid: number;
  port: number;
  close(): Promise<void>;
}

export const startLite = (settings: LiteSettings) => startProgram(peerScript('lite-server.mjs'), settings);

/**
 * Starts a server that gets its settings over IPC and answers with its port. The server exits when the channel closes.
 */
export async function startProgram(script: string, settings: object): Promise<Program> {
  const child = fork(script, { stdio: ['ignore', 2, 2, 'ipc'] });
  child.send(settings);
  const { port } = (await nextMessage(child)) as { port: number };
  const close = async () => {
    if (child.exitCode !== null) return;
    const exited = once(child, 'exit');
    child.disconnect();
    await exited;
  };
  return { child, pid: child.pid as number, port, close };
}

export function nextMessage(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null) => reject(new Error(`${child.spawnargs[1]} ended with status ${code}`));
    child.once('exit', onExit);
    child.once('message', (message) => {
      child.off('exit', onExit);
      resolve(message);
    });
  });
}
