/**
 * The folders of one platform. In: SLIPWAY_HOME. Out: all paths, after the folders are made private. Only the starter
 * can enter the folders of secrets, logs and certificates. The sockets are in a folder with a short path, because a
 * socket's path may have at most 107 bytes.
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
  /** TLS certificates of the hosts, with their keys. */
  certificates: string;
  /** Folder of each program's own files. */
  programs: string;
  logs: string;
  /** Compiled code of the programs, which makes the next start faster. */
  cache: string;
  /** The tenants' Postgres. */
  postgres: string;
  /** The platform's own Postgres. */
  platformPostgres: string;
  /** Files of the projects' storage. */
  storage: string;
  /** Logs of the projects' services, for their owners. */
  projectLogs: string;
  /** Sources of the projects' functions, and the modules that they import. */
  functions: string;
  /** Deployments of the projects' sites. */
  sites: string;
  /** Work folders, caches and logs of builds. */
  builds: string;
  /** Disks of the projects' apps. */
  apps: string;
  /** The packed software of dedicated projects' machines. */
  machines: string;
  sockets: {
    folder: string;
    postgres: string;
    platformPostgres: string;
    api: string;
    operator: string;
    functions: string;
    logs: string;
    forms: string;
    machines: string;
  };
}

/** Makes missing folders of SLIPWAY_HOME, and checks that they are writable. */
export async function openHome(folder: string): Promise<Home> {
  // A Postgres of another account must pass through this folder to its own. The mode allows nothing else.
  const mode = (await postgresAccount()) ? 0o711 : 0o700;
  await makeFolder(folder, mode);
  await chmod(folder, mode);
  const real = await realpath(folder);
  await refuseHalfRemoved(real);
  const home: Home = {
    folder: real,
    kubeconfig: path.join(real, 'kubeconfig'),
    secrets: path.join(real, 'secrets'),
    tls: path.join(real, 'tls'),
    certificates: path.join(real, 'certificates'),
    programs: path.join(real, 'programs'),
    logs: path.join(real, 'logs'),
    cache: path.join(real, 'cache'),
    postgres: path.join(real, 'postgres'),
    platformPostgres: path.join(real, 'platform-postgres'),
    storage: path.join(real, 'storage'),
    projectLogs: path.join(real, 'project-logs'),
    functions: path.join(real, 'functions'),
    sites: path.join(real, 'sites'),
    builds: path.join(real, 'builds'),
    apps: path.join(real, 'apps'),
    machines: path.join(real, 'machines'),
    sockets: socketsOf(real),
  };
  for (const each of [home.secrets, home.tls, home.certificates, home.programs, home.logs, home.cache]) {
    await mkdir(each, { recursive: true, mode: 0o700 });
    await chmod(each, 0o700);
  }
  await tryToWrite(home);
  return home;
}

/** The file that marks a home while it is being removed. */
export const REMOVAL_MARKER = 'uninstalling';

async function refuseHalfRemoved(folder: string): Promise<void> {
  const marker = await lstat(path.join(folder, REMOVAL_MARKER)).catch(() => undefined);
  if (!marker) return;
  throw new StartProblem(
    `${folder} is half removed: finish it by \`npm run uninstall\`, or set SLIPWAY_HOME to another folder`,
  );
}

/**
 * Makes the folder without the option `recursive`. That option makes mkdir hang on file systems such as /proc, which
 * report an existing parent as missing.
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

/**
 * Minimum free bytes for a start. With a nearly full disk, a start would fail later, in Postgres, with a less clear
 * error.
 */
const LEAST_FREE_BYTES = 128 * 2 ** 20;

async function tryToWrite(home: Home): Promise<void> {
  const probe = path.join(home.folder, '.probe');
  await writeFile(probe, 'x'.repeat(4096));
  await rm(probe);
  for (const folder of [home.postgres, home.platformPostgres]) {
    await expectFreeBytes(folder, LEAST_FREE_BYTES, 'a start');
  }
}

/**
 * Throws if the disk of `folder` has too little free space for `work`. If `folder` does not exist yet, its parent
 * counts.
 */
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

/**
 * Maximum bytes of the path of a folder of sockets. Postgres appends `/.s.PGSQL.65535.lock`, and macOS allows 103
 * bytes.
 */
const LONGEST_SOCKET_FOLDER = 80;

/** Returns the paths of the sockets. `home` must be a real path. */
export function socketsOf(home: string): Home['sockets'] {
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
    logs: path.join(folder, 'logs.sock'),
    forms: path.join(folder, 'forms.sock'),
    machines: path.join(folder, 'machines'),
  };
}

/** Makes the folder. Its parent may be writable for everyone, so an existing entry must be a folder of this account. */
export async function openSocketFolder(sockets: Home['sockets']): Promise<void> {
  const { folder, api, operator, functions, logs, forms } = sockets;
  const mode = (await postgresAccount()) ? 0o711 : 0o700;
  await mkdir(folder, { mode }).catch((error) => {
    if (error.code !== 'EEXIST') throw error;
  });
  const stats = await lstat(folder);
  if (!stats.isDirectory() || stats.uid !== process.getuid?.()) {
    throw new StartProblem(`${folder} belongs to someone else: remove it, or set TMPDIR to a folder of yours`);
  }
  await chmod(folder, mode);
  for (const leftover of [api, operator, functions, logs, forms]) await rm(leftover, { force: true });
}
