/**
 * The one-machine program on free ports in a home of its own, as a person starts it. In: nothing, or the home of an
 * earlier one. Out: its addresses, and ways to end it. Used by the tests here and the benches.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { chmod, lstat, mkdtemp, readFile, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort } from '@slipway/postgres';
import type { ClientConfig } from 'pg';
import { directly, type Network } from './network.js';
import { isAlive, processTree } from './processes.js';
import { until } from './until.js';

const START_PATIENCE_MS = 120_000;

export interface PlatformPlace {
  home: string;
  port: number;
}

/** A platform as tests use it, wherever it runs. */
export interface Platform {
  /** URL of the management API. */
  url: string;
  /** An administrator's. */
  kubeconfig: string;
  network: Network;
  /** A superuser's connection to the Postgres that projects share, to look where no client can. */
  admin(database?: string): Promise<ClientConfig>;
}

/** On one machine. */
export interface RunningPlatform extends Platform, PlatformPlace {
  /** Process id of the supervisor. */
  pid: number;
  /** Returns the output so far. */
  output(): string;
  /** Stops it as Ctrl-C does. */
  stop(): Promise<void>;
  /** Every process of it at once, with no chance to write anything down. */
  kill(): Promise<void>;
  /** Stops it and removes its home. */
  remove(): Promise<void>;
}

export async function newPlace(): Promise<PlatformPlace> {
  const home = await mkdtemp(path.join(tmpdir(), 'slipway-e2e-'));
  await chmod(home, 0o711);
  return { home, port: await freePort(3) };
}

const MAIN = fileURLToPath(new URL('../../slipway/dist/main.js', import.meta.url));

/** Runs the program, this checkout's or the `main` of another; resolves once it says that it is ready. */
export async function startPlatform(
  place?: PlatformPlace,
  environment: Record<string, string> = {},
  main = MAIN,
): Promise<RunningPlatform> {
  const { home, port } = place ?? (await newPlace());
  const program = run(main, { home, port }, environment);
  const { child, output } = program;
  try {
    await until(
      'ready',
      async () => {
        if (child.exitCode !== null || child.signalCode) throw new Error(`the platform ended:\n${output()}`);
        return output().includes('Slipway is ready') || undefined;
      },
      START_PATIENCE_MS,
    );
  } catch (error) {
    await killTree(child);
    throw new Error(`${(error as Error).message}\n${output()}`);
  }
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode) return;
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    await ended;
  };
  return {
    home,
    port,
    url: `http://localhost:${port}`,
    kubeconfig: path.join(home, 'kubeconfig'),
    network: directly,
    pid: child.pid as number,
    output,
    admin: async (database = 'postgres') => ({
      ...(await adminLogin(home)),
      port: port + 2,
      database,
    }),
    stop,
    kill: () => killTree(child),
    remove: async () => {
      await stop();
      await removeHome(home);
    },
  };
}

function run(main: string, { home, port }: PlatformPlace, environment: Record<string, string>) {
  const child = fork(main, {
    env: { PATH: process.env.PATH, SLIPWAY_HOME: home, SLIPWAY_PORT: String(port), ...environment },
    execArgv: ['--enable-source-maps', '--disable-warning=ExperimentalWarning'],
    // With a channel, so that it ends when the test does, however that ends.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      text = (text + chunk).slice(-20_000);
    });
  }
  return { child, output: () => text };
}

async function adminLogin(home: string): Promise<{ host: string; user: string; password: string }> {
  const socket = (
    await readFile(path.join(await realpath(path.join(home, 'postgres')), 'postmaster.pid'), 'utf8')
  ).split('\n')[4] as string;
  const password = await readFile(path.join(home, 'secrets', 'postgres-superuser'), 'utf8');
  return { host: socket, user: 'slipway', password };
}

/** All at once: each is stopped first, so that none sees another's end and acts on it. */
async function killTree(child: ChildProcess): Promise<void> {
  if (!child.pid) return;
  let tree = await processTree(child.pid);
  for (const pid of tree) send(pid, 'SIGSTOP');
  tree = await processTree(child.pid);
  for (const pid of tree) send(pid, 'SIGKILL');
  await until('every process is gone', async () => (tree.some(isAlive) ? undefined : true));
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Gone meanwhile.
  }
}

async function removeHome(home: string): Promise<void> {
  for (const folder of ['postgres', 'platform-postgres'].map((name) => path.join(home, name))) {
    const elsewhere = (await lstat(folder).catch(() => undefined))?.isSymbolicLink() && (await realpath(folder));
    if (elsewhere) await rm(elsewhere, { recursive: true, force: true });
  }
  await rm(home, { recursive: true, force: true });
}
