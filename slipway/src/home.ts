/**
 * The folders of one platform. In: SLIPWAY_HOME. Out: where everything is, made and private. Secrets, logs and
 * certificates are in folders that only the starter enters; sockets are in a short one, as a socket's path may have 107
 * bytes.
 */
import { createHash } from 'node:crypto';
import { chmod, lstat, mkdir, realpath, rm, stat, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { postgresAccount } from '@slipway/postgres';
import { StartProblem } from './problem.js';

export interface Home {
  folder: string;
  kubeconfig: string;
  secrets: string;
  tls: string;
  /** Folder of each program's own files. */
  programs: string;
  logs: string;
  /** Compiled code of the programs, so that the next start is faster. */
  cache: string;
  /** The tenants' Postgres. */
  postgres: string;
  /** The platform's own Postgres. */
  platformPostgres: string;
  /** Files of the projects' storage. */
  storage: string;
  /** Sources of the projects' functions, and what they import. */
  functions: string;
  sockets: {
    folder: string;
    postgres: string;
    platformPostgres: string;
    api: string;
    operator: string;
    functions: string;
  };
}

/** Makes what is missing of SLIPWAY_HOME and checks that it can be written. */
export async function openHome(folder: string): Promise<Home> {
  // Postgres, where it runs as another account, must pass through to its own folder; nobody else gains by it.
  const mode = (await postgresAccount()) ? 0o711 : 0o700;
  await makeFolder(folder, mode);
  await chmod(folder, mode);
  const real = await realpath(folder);
  const home: Home = {
    folder: real,
    kubeconfig: path.join(real, 'kubeconfig'),
    secrets: path.join(real, 'secrets'),
    tls: path.join(real, 'tls'),
    programs: path.join(real, 'programs'),
    logs: path.join(real, 'logs'),
    cache: path.join(real, 'cache'),
    postgres: path.join(real, 'postgres'),
    platformPostgres: path.join(real, 'platform-postgres'),
    storage: path.join(real, 'storage'),
    functions: path.join(real, 'functions'),
    sockets: socketsOf(real),
  };
  for (const each of [home.secrets, home.tls, home.programs, home.logs, home.cache]) {
    await mkdir(each, { recursive: true, mode: 0o700 });
    await chmod(each, 0o700);
  }
  await tryToWrite(home);
  return home;
}

/**
 * Not by `recursive`, which never returns where a file system such as /proc says that the parent, though there, is
 * missing.
 */
async function makeFolder(folder: string, mode: number): Promise<void> {
  const make = () =>
    mkdir(folder, { mode }).catch(async (error) => {
      if (error.code !== 'EEXIST' || !(await stat(folder)).isDirectory()) throw error;
    });
  await make().catch(async (error) => {
    if (error.code !== 'ENOENT' || folder === path.dirname(folder)) throw error;
    await makeFolder(path.dirname(folder), 0o755);
    await make();
  });
}

/** A start over a nearly full disk would only fail later, in Postgres, and less clearly. */
const LEAST_FREE_BYTES = 128 * 2 ** 20;

async function tryToWrite(home: Home): Promise<void> {
  const probe = path.join(home.folder, '.probe');
  await writeFile(probe, 'x'.repeat(4096));
  await rm(probe);
  for (const folder of [home.postgres, home.platformPostgres]) {
    await expectFreeBytes(folder, LEAST_FREE_BYTES, 'a start');
  }
}

/** Throws where the disk of `folder`, or of its parent if it is not made yet, has less space left than `work` needs. */
export async function expectFreeBytes(folder: string, needed: number, work: string): Promise<void> {
  const data = await realpath(folder).catch(() => path.dirname(folder));
  const { bavail, bsize } = await statfs(data);
  if (bavail * bsize >= needed) return;
  const free = Math.floor((bavail * bsize) / 2 ** 20);
  throw new StartProblem(
    `the disk of ${data} is full: it has ${free} MB left and ${work} needs ${Math.ceil(needed / 2 ** 20)} MB; ` +
      'free some space, or set SLIPWAY_HOME to a folder on another disk',
  );
}

/** Postgres appends `/.s.PGSQL.65535.lock`, and macOS allows 103 bytes. */
const LONGEST_SOCKET_FOLDER = 80;

function socketsOf(home: string): Home['sockets'] {
  const name = `slipway-${createHash('sha256').update(home).digest('hex').slice(0, 12)}`;
  const preferred = path.join(tmpdir(), name);
  const folder = Buffer.byteLength(preferred) <= LONGEST_SOCKET_FOLDER ? preferred : path.join('/tmp', name);
  return {
    folder,
    postgres: path.join(folder, 'postgres'),
    platformPostgres: path.join(folder, 'platform'),
    api: path.join(folder, 'api.sock'),
    operator: path.join(folder, 'operator.sock'),
    functions: path.join(folder, 'functions.sock'),
  };
}

/** The folder's parent may be everyone's: whatever stands there already must be a folder of ours. */
export async function openSocketFolder({ folder, api, operator, functions }: Home['sockets']): Promise<void> {
  const mode = (await postgresAccount()) ? 0o711 : 0o700;
  await mkdir(folder, { mode }).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
  const found = await lstat(folder);
  if (!found.isDirectory() || found.uid !== process.getuid?.()) {
    throw new StartProblem(`${folder} belongs to someone else: remove it, or set TMPDIR to a folder of yours`);
  }
  await chmod(folder, mode);
  for (const leftover of [api, operator, functions]) await rm(leftover, { force: true });
}
