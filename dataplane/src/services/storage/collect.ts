/**
 * Deletes garbage: content that no object refers to (an upload that a crash interrupted), abandoned parts of uploads,
 * and all files of a project that was deleted a while ago. Recent files stay, because their upload may be in progress.
 */
import { mkdir, rm, stat, utimes, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseJson } from '@slipway/program';
import type { Logger } from 'pino';
import type { MigratedPools } from '../../projects/migrated-pools.js';
import type { BackendTenant } from '../../projects/tenant.js';
import type { ContentStore } from './content/content.js';
import { type FileStore, GONE_MARK } from './content/files.js';
import { PARTIAL_LIFE_MS, removeExpired } from './partial-uploads.js';
import type { StorageUsage } from './usage.js';

export interface Collection {
  content: ContentStore;
  files: FileStore;
  databases: MigratedPools;
  /** Records each project's usage after its collection. */
  usage?: StorageUsage;
  /** Returns undefined if the project does not exist, once all projects are known. */
  tenant(ref: string): BackendTenant | undefined;
  log: Logger;
  now: number;
}

/**
 * Age in milliseconds from which content may be deleted as garbage. Until an object refers to it, content of a
 * resumable upload is as old as its first part.
 */
const YOUNG_MS = 2 * PARTIAL_LIFE_MS;
/** Milliseconds for which the files of a deleted project stay, in case the project is created again. */
const GONE_MS = 7 * 24 * 3600 * 1000;
const AT_ONCE = 500;

export async function collect(collection: Collection): Promise<void> {
  const { tenant, log } = collection;
  const collected = new Set<string>();
  for await (const ref of refsOf(collection)) {
    if (collected.has(ref)) continue;
    try {
      const known = tenant(ref);
      // Pauses, because there may be many deleted projects, and each is checked twice.
      if (known) collected.add(ref);
      if (known) await collectProject(collection, known);
      else await collectDeletedProject(collection, ref);
    } catch (error) {
      log.warn({ err: error, ref }, 'leftovers of uploads not collected; tried again in an hour');
    }
  }
}

async function* refsOf({ content, files }: Collection): AsyncIterable<string> {
  yield* content.refs();
  if (files !== content) yield* files.refs();
}

async function collectProject(
  { content, files, databases, usage, log, now }: Collection,
  tenant: BackendTenant,
): Promise<void> {
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
  await usage?.refresh(tenant);
}

async function unnamedOf(databases: MigratedPools, tenant: BackendTenant, versions: string[]): Promise<string[]> {
  const pool = await databases.pool(tenant);
  const [, result] = await pool.batch([
    { text: "select set_config('role', 'service_role', true)" },
    {
      text: `select coalesce(json_agg(distinct version), '[]')::text from storage.objects
             where version in (select json_array_elements_text($1::json))`,
      values: [JSON.stringify(versions)],
    },
  ]);
  const named = new Set(parseJson(result?.rows[0]?.[0] ?? '') as string[]);
  return versions.filter((version) => !named.has(version));
}

async function collectDeletedProject({ content, files, log, now }: Collection, ref: string): Promise<void> {
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
