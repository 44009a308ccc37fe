/**
 * Runs the one-machine program on free ports in a temporary home, as a person starts it. In: nothing, or the home of an
 * earlier one. Out: its addresses, and functions to end it. Tests here and the benches use it.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { chmod, lstat, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { appFolders, endApp } from '@slipway/operator/leftover-apps.js';
import { freePort, isAlive, keepForReport, until } from '@slipway/testing';
import type { ClientConfig } from 'pg';
import { directly, type Network } from './network.js';
import { processTree, send } from './processes.js';

const POSTGRES_FOLDERS = ['postgres', 'platform-postgres'];
const START_PATIENCE_MS = 120_000;

export interface PlatformPlace {
  home: string;
  port: number;
}

/** A platform as tests use it, on one machine or a cluster. */
export interface Platform {
  /** URL of the management API. */
  url: string;
  /** An administrator's kubeconfig. */
  kubeconfig: string;
  network: Network;
  /** Returns a superuser's connection to the Postgres that projects share, for checks that no client can make. */
  admin(database?: string): Promise<ClientConfig>;
}

/** A platform on one machine. */
export interface RunningPlatform extends Platform, PlatformPlace {
  /** Process id of the supervisor. */
  pid: number;
  /** Returns the output so far. */
  output(): string;
  /** Stops the platform as Ctrl-C does. */
  stop(): Promise<void>;
  /** Kills every process of the platform at once, without a chance to write anything. */
  kill(): Promise<void>;
  /** Stops the platform and removes its home. */
  remove(): Promise<void>;
}

export async function newPlace(): Promise<PlatformPlace> {
  const home = await mkdtemp(path.join(tmpdir(), 'slipway-e2e-'));
  await chmod(home, 0o711);
  return { home, port: await freePort(3) };
}

/** The home of an earlier release, or of an earlier start, keeps its own data. */
const isEmpty = async (home: string) => (await readdir(home)).length === 0;

/** Puts the data of both Postgres servers into `data`, and shares Node's compiled code within a run of tests. */
async function useShared(home: string, shared: string, data: string): Promise<void> {
  for (const name of POSTGRES_FOLDERS) {
    await symlink(await mkdtemp(path.join(data, 'slipway-e2e-')), path.join(home, name));
  }
  const cache = path.join(shared, 'compile-cache');
  await mkdir(cache, { recursive: true });
  await symlink(cache, path.join(home, 'cache'));
}

export const MAIN = fileURLToPath(new URL('../../slipway/dist/main.js', import.meta.url));

/** The platform's error if another program took one of its ports after `newPlace` found it free. */
const PORT_TAKEN = 'is taken by another program';
const MOST_PORTS = 3;

/**
 * Runs the program, of this checkout or the `main` of another. Resolves once the program reports that it is ready. If
 * no place is given, and another program has taken one of its ports, starts it again on other ports.
 */
export async function startPlatform(
  place?: PlatformPlace,
  environment: Record<string, string> = {},
  main = MAIN,
): Promise<RunningPlatform> {
  if (place) return await startAt(place, environment, main);
  for (let ports = 1; ; ports++) {
    const made = await newPlace();
    try {
      return await startAt(made, environment, main);
    } catch (error) {
      if (ports === MOST_PORTS || !(error as Error).message.includes(PORT_TAKEN)) throw error;
      await removeHome(made.home);
    }
  }
}

async function startAt(
  { home, port }: PlatformPlace,
  environment: Record<string, string>,
  main: string,
): Promise<RunningPlatform> {
  await mkdir(temporaryFolder(home), { recursive: true, mode: 0o711 });
  const { SLIPWAY_TEST_SHARED: shared, SLIPWAY_TEST_DATA: data } = process.env;
  if (shared && data && (await isEmpty(home))) await useShared(home, shared, data);
  const program = run(main, { home, port }, environment);
  const { child, output } = program;
  try {
    await until(
      async () => {
        if (child.exitCode !== null || child.signalCode) throw new Error(`the platform ended:\n${output()}`);
        return output().includes('Slipway is ready');
      },
      'ready',
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
    env: {
      PATH: process.env.PATH,
      TMPDIR: temporaryFolder(home),
      SLIPWAY_HOME: home,
      SLIPWAY_PORT: String(port),
      ...environment,
    },
    execArgv: ['--enable-source-maps', '--disable-warning=ExperimentalWarning'],
    // With an IPC channel, the program ends when the test ends for any reason.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding('utf8').on('data', (chunk: string) => {
      text = (text + chunk).slice(-20_000);
      keepForReport(chunk);
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

/** Kills all processes at once. Each is stopped first, so that none can react to another's end. */
async function killTree(child: ChildProcess): Promise<void> {
  if (!child.pid) return;
  let tree = await processTree(child.pid);
  for (const pid of tree) send(pid, 'SIGSTOP');
  tree = await processTree(child.pid);
  for (const pid of tree) send(pid, 'SIGKILL');
  await until(() => !tree.some(isAlive), 'every process has ended');
}

/** The TMPDIR of the platform, which has its sockets. A killed platform leaves them behind. */
export const temporaryFolder = (home: string) => `${home}.tmp`;

/** Removes the data of a stopped platform's Postgres servers if it is in a folder of the tests, and the links to it. */
export async function removeLinkedData(home: string): Promise<void> {
  for (const folder of POSTGRES_FOLDERS.map((name) => path.join(home, name))) {
    if (!(await lstat(folder).catch(() => undefined))?.isSymbolicLink()) continue;
    await rm(await realpath(folder), { recursive: true, force: true });
    await rm(folder);
  }
}

async function removeHome(home: string): Promise<void> {
  await removeLinkedData(home);
  for (const app of await appFolders()) if (app.startsWith(`${home}/`)) await endApp(app);
  for (const folder of [home, temporaryFolder(home)]) await rm(folder, { recursive: true, force: true });
}
