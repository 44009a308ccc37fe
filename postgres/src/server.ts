import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chown, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Account, postgresAccount, reachableBinaries, reachableFolder, socketFolder } from './account.js';
import { installedBinaries } from './binaries.js';
import { parentDeathSignal, spawnGuarded } from './guard.js';
import { endLeftover, removeStaleLocks } from './leftover.js';
import { LineSplitter } from './line-splitter.js';
import { type LogPipes, openLogPipes, passText } from './log-pipes.js';
import type { LogRecord } from './log-record.js';
import { syncToDisk } from './sync-to-disk.js';

/**
 * The superuser of the embedded cluster. No tenant can become it. Only the operator and the program that starts the
 * server log in with it.
 */
export const SUPERUSER = 'slipway';

export interface PostgresOptions {
  /** The cluster's data folder. The first start makes it. */
  folder: string;
  /** The folder of the Unix socket. It must be short, because a socket's path may have at most 107 bytes. */
  socketFolder: string;
  /** TCP port. It is on loopback unless `listen` has another address. */
  port: number;
  listen?: string;
  /** Password of SUPERUSER. The first start sets it. */
  password: string;
  /** Further settings, by name. */
  settings?: Record<string, string>;
  /** Replaces the access rules (`pg_hba.conf`). */
  access?: string;
  /** Receives each line of the server's log. */
  onLog?: (line: string) => void;
  /** Receives each message of the server's log. */
  onRecord?: (record: LogRecord) => void;
  /**
   * Returns false to leave a message of a session in `database` out of the log. The name has the escapes of JSON. It is
   * called for each message, so that a flood of messages costs little. `isFatal`: the message ended the session. Any
   * client can cause such a message in any database, because a rejected connection is one.
   */
  accepts?: (database: string, isFatal: boolean) => boolean;
  /** Aborts a start in progress, for example a long recovery. Has no effect on a started server. */
  signal?: AbortSignal;
}

export interface PostgresServer {
  /** The folder of the Unix socket. `pg` accepts it as a host. */
  socket: string;
  port: number;
  /** Process id of the postmaster. */
  pid: number;
  /** Resolves when the server has ended, for any reason. */
  exited: Promise<void>;
  /**
   * fast: disconnects all clients, writes a checkpoint and ends. immediate: ends at once, and the next start recovers.
   */
  stop(how?: 'fast' | 'immediate'): Promise<void>;
}

const SETTINGS: Record<string, string> = {
  // JIT never helps a catalogue read or a read of one indexed row, and its first use costs 20 ms.
  jit: 'off',
  max_connections: '400',
  shared_buffers: '256MB',
  // Realtime reads changes by logical decoding. A later change of this setting would need a restart.
  wal_level: 'logical',
  // Each new database writes half a segment of log. With zeroing of every new segment, CREATE DATABASE was 2 to 3 times
  // slower.
  wal_init_zero: 'off',
  // The platform ends a tenant's session that takes a large share of the lock table. With the default of 64, the table
  // could fill up between two checks.
  max_locks_per_transaction: '256',
  // These connections stay free for the operator if tenants use up all others.
  superuser_reserved_connections: '10',
  // A quarter stays free for the platform's services, which have pg_use_reserved_connections. Sessions of `db_url` do
  // not.
  reserved_connections: '100',
  max_slot_wal_keep_size: '1GB',
  max_wal_size: '2GB',
  // Each project with subscribers to its changes needs one.
  max_wal_senders: '100',
  max_replication_slots: '100',
  // 32 MB instead of 8 GB. A listener in a transaction retains the queue for all databases, and each listener reads
  // all of it: with 128 MB, reads of other projects waited for up to half a second.
  max_notify_queue_pages: '4096',
  // The listeners of all projects read the messages of all projects, so these should be in memory.
  notify_buffers: '2MB',
  // Worker processes run only parallel queries, with which one project's query would take several processors.
  max_worker_processes: '0',
  max_logical_replication_workers: '0',
  // A slot without a reader retains the log for this time at most.
  idle_replication_slot_timeout: '10min',
  // Without this, a busy query does not notice when its postmaster and its client are killed together.
  client_connection_check_interval: '2s',
  password_encryption: 'scram-sha-256',
  // A statement may contain a secret, so no statement is logged, not even a failing one.
  log_min_error_statement: 'panic',
  log_parameter_max_length_on_error: '0',
  log_statement: 'none',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/**
 * Starts the cluster in `options.folder`, and makes it first if it does not exist. Resolves once it accepts
 * connections.
 */
export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
  const { account, binaries, version, folder } = await locate(options.folder);
  await socketFolder(options.socketFolder, account);
  await endLeftover(folder);
  await removeStaleLocks(folder, options.socketFolder, options.port);
  if (!(await isInitialised(folder))) await initialise({ binaries, folder, password: options.password, account });
  await refuseOtherMajor(folder, version);
  if (options.access) await writeFile(path.join(folder, 'pg_hba.conf'), options.access);
  const lastLines: string[] = [];
  const onLine = (line: string) => {
    lastLines.push(line);
    if (lastLines.length > LAST_LINES) lastLines.shift();
    options.onLog?.(line);
  };
  const pipes = await openLogPipes(options.socketFolder, account, { ...options, onLine });
  const child = await launch(binaries, folder, { ...options, logSettings: pipes.settings }, account).catch(
    (error: Error) => {
      pipes.close();
      throw error;
    },
  );
  return await untilReady(child, folder, { ...options, pipes, onLine, lastLines });
}

/** Makes the cluster in `options.folder` without starting it. */
export async function initialisePostgres(options: Pick<PostgresOptions, 'folder' | 'password'>): Promise<void> {
  const { account, binaries, folder } = await locate(options.folder);
  await initialise({ binaries, folder, password: options.password, account });
}

/** Finds the binaries and makes the data folder, so that the server's account can reach both. */
async function locate(wanted: string) {
  const account = await postgresAccount();
  const { native, version } = await installedBinaries();
  const binaries = await reachableBinaries(native, version, account);
  return { account, binaries, version, folder: await reachableFolder(wanted, account) };
}

/** The file that marks the end of initdb. */
const MARKER = 'slipway-initialised';

/** True once initdb has finished in `folder`. */
export const isInitialised = (folder: string) =>
  stat(path.join(folder, MARKER)).then(
    () => true,
    () => false,
  );

/** Throws if another major version wrote the cluster. */
async function refuseOtherMajor(folder: string, version: string): Promise<void> {
  const written = (await readFile(path.join(folder, 'PG_VERSION'), 'utf8')).trim();
  const ours = version.split('.')[0];
  if (written === ours) return;
  throw new Error(
    `the data in ${folder} is of Postgres ${written}, and this program brings Postgres ${ours}: ` +
      `start it with a release that brings Postgres ${written}, or move the data over by pg_dump`,
  );
}

interface Initialise {
  binaries: string;
  folder: string;
  password: string;
  account: Account | undefined;
}

/** Runs initdb. Starts again if an earlier run was interrupted. */
async function initialise({ binaries, folder, password, account }: Initialise): Promise<void> {
  await refuseUsedFolder(folder);
  for (const name of await readdir(folder)) await rm(path.join(folder, name), { recursive: true });
  const scratch = await mkdtemp(path.join(tmpdir(), 'slipway-'));
  const passwordFile = path.join(scratch, 'password');
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  if (account) for (const owned of [scratch, passwordFile]) await chown(owned, account.uid, account.gid);
  const options = [
    ...['--pgdata', folder, '--username', SUPERUSER, '--pwfile', passwordFile, '--auth', 'scram-sha-256'],
    ...['--encoding', 'UTF8', '--locale', 'C', '--locale-provider', 'builtin', '--builtin-locale', 'C.UTF-8'],
  ];
  try {
    const command = [...(await parentDeathSignal()), path.join(binaries, 'bin', 'initdb'), ...options];
    const child = spawn(command[0] as string, command.slice(1), {
      ...account,
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    let problem = '';
    child.stderr.on('data', (chunk) => {
      problem = (problem + chunk).slice(-2000);
    });
    const code = await new Promise((resolve, reject) => child.on('error', reject).on('close', resolve));
    if (code !== 0) throw new Error(`initdb failed: ${problem.trim()}`);
  } finally {
    await rm(scratch, { recursive: true, force: true });
  }
  const marker = path.join(folder, MARKER);
  await writeFile(`${marker}.new`, '');
  await syncToDisk(`${marker}.new`);
  await rename(`${marker}.new`, marker);
  // Written to disk now: a power cut must not remove the marker or the folder's name once the server is in use.
  for (const each of [folder, path.dirname(folder)]) await syncToDisk(each);
}

/** The lowest OID of a database that was made after initdb. */
const FIRST_NORMAL_OID = 16384;

/** Throws if a folder without the marker has databases that initdb did not make. Any other such folder is emptied. */
async function refuseUsedFolder(folder: string): Promise<void> {
  const databases = await readdir(path.join(folder, 'base')).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return [];
  });
  if (!databases.some((name) => Number(name) >= FIRST_NORMAL_OID)) return;
  throw new Error(
    `the folder ${folder} has databases that were in use, but its file ${MARKER} is missing. Nothing was changed. ` +
      `If the folder is complete, make an empty file ${MARKER} in it. ` +
      'Otherwise move the folder away or restore it from a backup',
  );
}

/** Number of the log's last lines that are the reason of a failed start. */
const LAST_LINES = 20;

interface Launch extends PostgresOptions {
  logSettings: Record<string, string>;
}

function launch(binaries: string, folder: string, options: Launch, account: Account | undefined) {
  const settings = {
    ...SETTINGS,
    ...options.settings,
    ...options.logSettings,
    listen_addresses: options.listen ?? '127.0.0.1',
    port: String(options.port),
    unix_socket_directories: options.socketFolder,
    unix_socket_permissions: '0777',
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  return spawnGuarded(path.join(binaries, 'bin', 'postgres'), ['-D', folder, ...flags], {
    ...account,
    cwd: folder,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

interface Launched extends PostgresOptions {
  pipes: LogPipes;
  onLine(line: string): void;
  lastLines: readonly string[];
}

async function untilReady(child: ChildProcess, folder: string, options: Launched): Promise<PostgresServer> {
  const { pipes, lastLines } = options;
  // The server writes here until its collector runs.
  const early = new LineSplitter((line) => passText(line, options));
  child.stderr?.on('data', (chunk: Buffer) => early.push(chunk)).on('end', () => early.end());
  let ended: string | undefined;
  let swept = Promise.resolve();
  child.on('exit', () => {
    swept = sweep(child, folder, options);
  });
  const exited = new Promise<void>((resolve) => {
    const end = (reason: string) => {
      ended = reason;
      resolve();
    };
    child.on('error', (error) => {
      pipes.close();
      end(error.message);
    });
    // The event 'close' comes after the last lines are read, 'exit' may come before.
    child.on('close', () => void swept.then(() => pipes.finish()).then(() => end(lastLines.join('\n'))));
  });
  while (!(await isReady(folder, child.pid))) {
    if (ended !== undefined) throw new Error(`Postgres ended while starting: ${ended}`);
    if (options.signal?.aborted) child.kill('SIGQUIT');
    await sleep(10);
  }
  const stop = async (how: 'fast' | 'immediate' = 'fast') => {
    if (ended === undefined) child.kill(how === 'fast' ? 'SIGINT' : 'SIGQUIT');
    // A session that the system has stopped, or that waits for a disk, does not end by itself.
    const patience = how === 'immediate' && setTimeout(() => child.kill('SIGKILL'), IMMEDIATE_PATIENCE_MS);
    await exited;
    if (patience) clearTimeout(patience);
  };
  return { socket: options.socketFolder, port: options.port, pid: child.pid as number, exited, stop };
}

const LAST_WORDS_MS = 1_000;
const IMMEDIATE_PATIENCE_MS = 500;

/**
 * Ends processes that are busy in a query. They notice the end of their postmaster late, and keep its log open until
 * then.
 */
async function sweep(child: ChildProcess, folder: string, { onLine, pipes }: Launched): Promise<void> {
  await endLeftover(folder).catch((error: Error) => onLine(error.message));
  // Such processes are found only on Linux.
  setTimeout(() => {
    child.stderr?.destroy();
    pipes.close();
  }, LAST_WORDS_MS).unref();
}

/** True if the server accepts connections. The postmaster writes its state into the eighth line of its lock file. */
async function isReady(folder: string, pid: number | undefined): Promise<boolean> {
  const text = await readFile(path.join(folder, 'postmaster.pid'), 'utf8').catch(() => '');
  const lines = text.split('\n');
  return Number(lines[0]) === pid && lines[7]?.trim() === 'ready';
}

export const newPassword = () => randomBytes(24).toString('base64url');
