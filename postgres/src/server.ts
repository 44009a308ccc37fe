import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chown, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Account, postgresAccount, reachableBinaries, reachableFolder, socketFolder } from './account.js';
import { installedBinaries } from './binaries.js';
import { endLeftover, removeStaleLocks } from './leftover.js';
import { syncToDisk } from './sync-to-disk.js';

/** The superuser of the embedded cluster. No tenant can become it; only the operator and start log in as it. */
export const SUPERUSER = 'slipway';

export interface PostgresOptions {
  /** The cluster's data folder; made by the first start. */
  folder: string;
  /** For the Unix socket: short, as a socket's path may have 107 bytes at most. */
  socketFolder: string;
  /** TCP port; loopback unless `listen` says otherwise. */
  port: number;
  listen?: string;
  /** Password of SUPERUSER; set by the first start. */
  password: string;
  /** Further settings, by name. */
  settings?: Record<string, string>;
  /** Replaces the rules of who may log in from where (`pg_hba.conf`). */
  access?: string;
  /** Takes each line of the server's log. */
  onLog?: (line: string) => void;
}

export interface PostgresServer {
  /** The Unix socket's folder, which `pg` takes as a host. */
  socket: string;
  port: number;
  /** Process id of the postmaster. */
  pid: number;
  /** Resolves when the server is gone, whoever ended it. */
  exited: Promise<void>;
  /** fast: disconnects everyone, checkpoints and ends. immediate: ends at once, and the next start recovers. */
  stop(how?: 'fast' | 'immediate'): Promise<void>;
}

const SETTINGS: Record<string, string> = {
  // A catalogue read or one indexed row never gains from JIT, and its first use costs 20 ms.
  jit: 'off',
  max_connections: '400',
  shared_buffers: '256MB',
  // Realtime reads changes by logical decoding; switching later would need a restart.
  wal_level: 'logical',
  // Each database that is made writes half a segment of log: zeroing every new one first made CREATE DATABASE 2 to 3
  // times slower.
  wal_init_zero: 'off',
  // A tenant's session is ended before it holds a large share of the lock table: 64, the default, fills up between two
  // looks.
  max_locks_per_transaction: '256',
  // Places that stay for the operator if tenants use up all others.
  superuser_reserved_connections: '10',
  max_slot_wal_keep_size: '1GB',
  max_wal_size: '2GB',
  // One of each for every project whose changes somebody listens to.
  max_wal_senders: '100',
  max_replication_slots: '100',
  // 128 MB, not 8 GB: a listener in a transaction keeps the queue for all databases, and each listener reads all of it.
  max_notify_queue_pages: '16384',
  // Each listener of each project reads what any project sends: from memory.
  notify_buffers: '2MB',
  // Only for parallel queries: one project's query would take several processors.
  max_worker_processes: '0',
  max_logical_replication_workers: '0',
  // A slot that nobody reads holds back the log no longer than this, whoever forgot it.
  idle_replication_slot_timeout: '10min',
  password_encryption: 'scram-sha-256',
  // A statement may hold a secret: no part of it is logged, not even of a failing one.
  log_min_error_statement: 'panic',
  log_parameter_max_length_on_error: '0',
  log_statement: 'none',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/** Starts the cluster in `options.folder`, made first where there is none, and waits until it takes connections. */
export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
  const account = await postgresAccount();
  const { native, version } = await installedBinaries();
  const binaries = await reachableBinaries(native, version, account);
  const folder = await reachableFolder(options.folder, account);
  await socketFolder(options.socketFolder, account);
  await endLeftover(folder);
  await removeStaleLocks(folder, options.socketFolder, options.port);
  if (!(await isInitialised(folder))) await initialise({ binaries, folder, password: options.password, account });
  await refuseOtherMajor(folder, version);
  if (options.access) await writeFile(path.join(folder, 'pg_hba.conf'), options.access);
  const child = launch(binaries, folder, options, account);
  return await untilReady(child, folder, options);
}

/** The file that says that initdb has finished. */
const MARKER = 'slipway-initialised';

/** True once initdb has finished in `folder`. */
export const isInitialised = (folder: string) =>
  stat(path.join(folder, MARKER)).then(
    () => true,
    () => false,
  );

/** A cluster is only ever opened by the major version that wrote it. */
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

/** Runs initdb; a run that was cut short is begun again. */
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
    const child = spawn(path.join(binaries, 'bin', 'initdb'), options, {
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
  // A power cut must not take the marker, or the folder's name, from a server that is in use by then.
  for (const each of [folder, path.dirname(folder)]) await syncToDisk(each);
}

/** Postgres gives numbers from here on to the databases that it makes after initdb. */
const FIRST_NORMAL_OID = 16384;

/** A folder without the marker is emptied, but never one with databases that initdb did not make. */
async function refuseUsedFolder(folder: string): Promise<void> {
  const databases = await readdir(path.join(folder, 'base')).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return [];
  });
  if (!databases.some((name) => Number(name) >= FIRST_NORMAL_OID)) return;
  throw new Error(
    `the folder ${folder} holds databases that were in use, but its file ${MARKER} is missing, and nothing was changed: ` +
      `if the folder is complete, make an empty file ${MARKER} in it; otherwise move the folder away or restore it from a backup`,
  );
}

function launch(binaries: string, folder: string, options: PostgresOptions, account: Account | undefined) {
  const settings = {
    ...SETTINGS,
    ...options.settings,
    listen_addresses: options.listen ?? '127.0.0.1',
    port: String(options.port),
    unix_socket_directories: options.socketFolder,
    unix_socket_permissions: '0777',
  };
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  // In a group of its own, so that a Ctrl-C in the terminal reaches start alone, which then ends things in order.
  return spawn(path.join(binaries, 'bin', 'postgres'), ['-D', folder, ...flags], {
    ...account,
    cwd: folder,
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe'],
  });
}

async function untilReady(child: ChildProcess, folder: string, options: PostgresOptions): Promise<PostgresServer> {
  const lines: string[] = [];
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split('\n').filter(Boolean)) {
      lines.push(line);
      if (lines.length > 20) lines.shift();
      options.onLog?.(line);
    }
  });
  let ended: string | undefined;
  const exited = new Promise<void>((resolve) => {
    const end = (reason: string) => {
      ended = reason;
      resolve();
    };
    child.on('error', (error) => end(error.message));
    // Not 'exit': by 'close' the last words have been read too.
    child.on('close', () => end(lines.join('\n')));
  });
  while (!(await isReady(folder, child.pid))) {
    if (ended !== undefined) throw new Error(`Postgres ended while starting: ${ended}`);
    await sleep(10);
  }
  const stop = async (how: 'fast' | 'immediate' = 'fast') => {
    if (ended === undefined) child.kill(how === 'fast' ? 'SIGINT' : 'SIGQUIT');
    await exited;
  };
  return { socket: options.socketFolder, port: options.port, pid: child.pid as number, exited, stop };
}

/** The postmaster writes its state into the eighth line of its lock file. */
async function isReady(folder: string, pid: number | undefined): Promise<boolean> {
  const text = await readFile(path.join(folder, 'postmaster.pid'), 'utf8').catch(() => '');
  const lines = text.split('\n');
  return Number(lines[0]) === pid && lines[7]?.trim() === 'ready';
}

export const newPassword = () => randomBytes(24).toString('base64url');
