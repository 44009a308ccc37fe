/**
 * Makes sure that only one platform runs over a home. The lock is the operating system's lock of an open file, so it is
 * released whenever its process ends. It is taken through SQLite, because Node has no API for file locks. The file
 * `pid` beside it has the id of the process.
 */
import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';
import { writeAtomically } from '@slipway/postgres';

export interface HomeLock {
  release(): void;
}

/**
 * Maximum milliseconds to wait for the lock, because a killed process may need a moment to end, and has the lock until
 * then.
 */
const PATIENCE_MS = 1_000;
const POLL_MS = 20;

/** Takes the lock. Returns undefined if another process has it. */
export async function takeLock(home: string): Promise<HomeLock | undefined> {
  let database = openLock(home);
  for (let waited = 0; !database && waited < PATIENCE_MS; waited += POLL_MS) {
    await sleep(POLL_MS);
    database = openLock(home);
  }
  if (!database) return undefined;
  await writeAtomically(holderFile(home), String(process.pid));
  return { release: () => database.close() };
}

/** Returns the id of the process that has the lock, or undefined. */
export async function lockHolder(home: string): Promise<number | undefined> {
  if (!existsSync(lockFile(home))) return undefined;
  const database = openLock(home);
  database?.close();
  if (database) return undefined;
  return Number(await readFile(holderFile(home), 'utf8').catch(() => '')) || undefined;
}

const lockFile = (home: string) => path.join(home, 'lock');
const holderFile = (home: string) => path.join(home, 'pid');

function openLock(home: string): DatabaseSync | undefined {
  const database = new DatabaseSync(lockFile(home));
  try {
    database.exec('BEGIN EXCLUSIVE');
    return database;
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return undefined;
    throw error;
  }
}

const SQLITE_BUSY = 5;
