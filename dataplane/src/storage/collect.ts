/**
 * Removes what nobody can reach: content that no object names (an upload that a crash cut short), parts of uploads that
 * nobody went on with, and all of a project that has been gone for a while. Young things are left alone: they may be
 * under way.
 */
import { mkdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { Logger } from 'pino';
import type { Tenant } from '../tenant.js';
import type { ContentStore } from './content/content.js';
import { type FileStore, GONE_MARK } from './content/files.js';
import type { StorageDatabases } from './database.js';
import { PARTIAL_LIFE_MS, removeExpired } from './partial-uploads.js';

export interface Collection {
  content: ContentStore;
  files: FileStore;
  databases: StorageDatabases;
  /** Undefined: no such project is known, and all projects are. */
  tenant(ref: string): Tenant | undefined;
  log: Logger;
  now: number;
}

/** An upload in parts may lie here as content, as old as what came first of it, until it is named. */
const YOUNG_MS = 2 * PARTIAL_LIFE_MS;
/** A project whose objects are missed can be made again until then. */
const GONE_MS = 7 * 24 * 3600 * 1000;
const AT_ONCE = 500;

export async function collect(collection: Collection): Promise<void> {
  const { tenant, log } = collection;
  const collected = new Set<string>();
  for await (const ref of refsOf(collection)) {
    if (collected.has(ref)) continue;
    try {
      const known = tenant(ref);
      // Of those that are gone there may be any number, and they may be looked at twice.
      if (known) collected.add(ref);
      if (known) await collectProject(collection, known);
      else await collectGone(collection, ref);
    } catch (error) {
      log.warn({ err: error, ref }, 'what is left of uploads could not be collected; it will be tried again');
    }
  }
}

async function* refsOf({ content, files }: Collection): AsyncIterable<string> {
  yield* content.refs();
  if (files !== content) yield* files.refs();
}

async function collectProject({ content, files, databases, log, now }: Collection, tenant: Tenant): Promise<void> {
  const { ref } = tenant;
  await rm(path.join(files.folder, ref, GONE_MARK), { force: true });
  await removeExpired(path.join(files.folder, ref), now);
  let old: string[] = [];
  const sort = async () => {
    const unnamed = await unnamedOf(databases, tenant, old);
    await content.remove(ref, unnamed);
    for (const version of unnamed) await rm(path.join(files.folder, ref, 'tmp', version), { force: true });
    if (unnamed.length > 0) log.info({ ref, files: unnamed.length }, 'unreferenced content removed');
    old = [];
  };
  for await (const { version, modified } of content.versions(ref)) {
    if (now - modified > YOUNG_MS) old.push(version);
    if (old.length === AT_ONCE) await sort();
  }
  if (old.length > 0) await sort();
}

async function unnamedOf(databases: StorageDatabases, tenant: Tenant, versions: string[]): Promise<string[]> {
  const pool = await databases.pool(tenant);
  const [, result] = await pool.batch([
    { text: "select set_config('role', 'service_role', true)" },
    {
      text: `select coalesce(json_agg(distinct version), '[]')::text from storage.objects
             where version in (select json_array_elements_text($1::json))`,
      values: [JSON.stringify(versions)],
    },
  ]);
  const named = new Set(JSON.parse(String(result?.rows[0]?.[0])) as string[]);
  return versions.filter((version) => !named.has(version));
}

async function collectGone({ content, files, log, now }: Collection, ref: string): Promise<void> {
  const mark = path.join(files.folder, ref, GONE_MARK);
  const { mtimeMs } = await stat(mark).catch(() => ({ mtimeMs: undefined }));
  if (mtimeMs === undefined) {
    await mkdir(path.dirname(mark), { recursive: true, mode: 0o700 });
    await writeFile(mark, '');
    await utimes(mark, now / 1000, now / 1000);
  } else if (now - mtimeMs > GONE_MS) {
    await content.removeProject(ref);
    await files.removeProject(ref);
    log.info({ ref }, 'files of a deleted project removed');
  }
}
