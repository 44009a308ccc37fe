/**
 * Stores deployments of sites in a folder. `<ref>/deployments/<id>/` has `files/…`, encoded files (`br/…`, `gzip/…`)
 * and `manifest.json`; `size` has its bytes on the disk. `<ref>/live` names the live deployment. A deployment that was
 * live until another one replaced it has an empty file `served`. A preview is a site too: its folder is below
 * `<ref>/previews`, and its name takes the place of the ref in all calls.
 *
 * In: outputs of builds. A site may have one writer and any number of readers. The files of a deployment never change
 * after the rename that gives its folder its name, and going live is one rename.
 */
import { createHash } from 'node:crypto';
import { mkdir, open, readFile, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { flush, namesIn, parseJsonInTurns, replaceFile, unlessMissing } from '@slipway/program';
import { type EncodedBytes, Encoder } from './encodings.js';
import {
  deploymentFolder,
  deploymentsFolder,
  filesFolder,
  INCOMING,
  LIVE,
  MANIFEST,
  MOST_OF_MANIFEST,
  previewsFolder,
  SERVED,
  SIZE,
  siteFolder,
} from './layout.js';
import { checkedName } from './names.js';
import { type DeploymentLimits, Output, type OutputFile } from './output.js';
import { type HeaderRule, MOST_RULES_BYTES, parseHeaders, parseRedirects, type RedirectRule } from './rules.js';

export interface Published {
  id: string;
  files: number;
  bytes: number;
  /** Warnings for the build's log. */
  warnings: string[];
}

export interface Deployment {
  id: string;
  publishedAt: Date;
}

/** A file of a deployment. The manifest has it under its path. */
export interface ManifestFile extends EncodedBytes {
  bytes: number;
  /** SHA-256 of its content, in base64url. */
  hash: string;
}

export interface Manifest {
  version: 1;
  publishedAt: string;
  files: Record<string, ManifestFile>;
  redirects?: RedirectRule[];
  headers?: HeaderRule[];
}

/** The outputs of a project that are kept. */
export interface KeptOutputs {
  /** The number of the site's newest deployments, beside the live one. */
  deployments: number;
  /** Names of previews. */
  previews: readonly string[];
  /** The number of the newest deployments of each preview, beside the live one. */
  previewDeployments: number;
  /** The site and the previews that a build may write to. They stay as they are. */
  written: readonly string[];
}

const COPIED_AT_ONCE = 256 * 1024;
/** The smallest part of a disk that a file can use, in bytes. */
const BLOCK = 4096;

export class Sites {
  constructor(readonly folder: string) {}

  /**
   * Publishes the output as the deployment `id`. Does nothing if that deployment exists already. Throws OutputRefused
   * if the output can't be published.
   */
  async publish(
    ref: string,
    id: string,
    output: string,
    limits: DeploymentLimits,
    signal?: AbortSignal,
  ): Promise<Published> {
    const target = this.#deployment(ref, id);
    const there = await readManifest(target);
    if (there) return publishedOf(id, there, []);
    const incoming = path.join(this.#site(ref), INCOMING, checkedName(id));
    await rm(incoming, { recursive: true, force: true });
    await mkdir(filesFolder(incoming), { recursive: true, mode: 0o700 });
    const read = new Output(output, limits);
    const warnings: string[] = [];
    const encoder = new Encoder((encoding) => filesFolder(incoming, encoding));
    const manifest: Manifest = { version: 1, publishedAt: new Date().toISOString(), files: Object.create(null) };
    try {
      for await (const file of read.files()) {
        signal?.throwIfAborted();
        const copied = path.join(filesFolder(incoming), file.path);
        const { bytes, hash } = await copy(file, copied);
        if (isRules(file.path)) warnings.push(...(await takeRules(file.path, copied, bytes, manifest)));
        else manifest.files[file.path] = { bytes, hash, ...(await encoder.encode(file.path, copied, bytes)) };
      }
      await replaceFile(path.join(incoming, SIZE), `${sizeOnDisk(manifest)}`);
      await replaceFile(path.join(incoming, MANIFEST), JSON.stringify(manifest));
      await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
      await rename(incoming, target);
      await flush(path.dirname(target));
    } catch (error) {
      await rm(incoming, { recursive: true, force: true });
      throw error;
    }
    return publishedOf(id, manifest, [...read.leftOut, ...warnings]);
  }

  /**
   * Takes the deployment live by one rename, so no request sees an intermediate state. Throws if there is no such
   * deployment.
   */
  async goLive(ref: string, id: string): Promise<void> {
    if (!(await this.has(ref, id))) throw new Error(`${ref} has no deployment ${id}`);
    await this.#markServed(ref, id);
    await replaceFile(path.join(this.#site(ref), LIVE), `${id}\n`);
  }

  async liveId(ref: string): Promise<string | undefined> {
    const text = await readFile(path.join(this.#site(ref), LIVE), 'utf8').catch(unlessMissing);
    return text === undefined ? undefined : checkedName(text.trim());
  }

  async has(ref: string, id: string): Promise<boolean> {
    return (await this.#publishedAt(ref, id)) !== undefined;
  }

  /** Returns the deployments, newest first. */
  async deployments(ref: string): Promise<Deployment[]> {
    const found: Deployment[] = [];
    for (const id of await namesIn(deploymentsFolder(this.folder, ref))) {
      const publishedAt = await this.#publishedAt(ref, id);
      if (publishedAt) found.push({ id, publishedAt });
    }
    return found.sort((a, b) => b.publishedAt.getTime() - a.publishedAt.getTime());
  }

  /** Removes all deployments except the live one and the `keep` newest. Removes unfinished publications too. */
  async prune(ref: string, keep: number): Promise<void> {
    await rm(path.join(this.#site(ref), INCOMING), { recursive: true, force: true });
    const live = await this.liveId(ref);
    for (const { id } of (await this.deployments(ref)).slice(keep)) {
      if (id !== live) await rm(this.#deployment(ref, id), { recursive: true, force: true });
    }
  }

  /**
   * Removes the other outputs of the project: deployments, and previews. `alone` runs the work on one site while nobody
   * else writes to that site.
   */
  async keepOnly(
    ref: string,
    { deployments, previews, previewDeployments, written }: KeptOutputs,
    alone: (site: string, work: () => Promise<void>) => Promise<void> = (_, work) => work(),
  ): Promise<void> {
    if (!written.includes(ref)) await alone(ref, () => this.prune(ref, deployments));
    for (const preview of await this.previews(ref)) {
      if (written.includes(preview)) continue;
      const isKept = previews.includes(preview);
      await alone(preview, () => (isKept ? this.prune(preview, previewDeployments) : this.remove(preview)));
    }
  }

  /** Returns the bytes on the disk of all deployments of the site and of its previews. */
  async bytes(ref: string): Promise<number> {
    let sum = 0;
    for (const site of [ref, ...(await this.previews(ref))]) {
      for (const id of await namesIn(deploymentsFolder(this.folder, site))) sum += await this.#size(site, id);
    }
    return sum;
  }

  /** Returns the names of the project's previews. */
  async previews(ref: string): Promise<string[]> {
    return await namesIn(previewsFolder(this.folder, ref));
  }

  /** Removes the deployment unless it is live. */
  async discard(ref: string, id: string): Promise<void> {
    if ((await this.liveId(ref)) === id) return;
    // The manifest goes first: if the process dies here, no deployment is listed whose files are missing.
    await rm(path.join(this.#deployment(ref, id), MANIFEST), { force: true });
    await rm(this.#deployment(ref, id), { recursive: true, force: true });
  }

  /** Removes all files of the site and of its previews. */
  async remove(ref: string): Promise<void> {
    await rm(this.#site(ref), { recursive: true, force: true });
  }

  /** Marks the live deployment before another one replaces it. Open pages still load its hashed files. */
  async #markServed(ref: string, next: string): Promise<void> {
    const live = await this.liveId(ref);
    if (live === undefined || live === next || !(await this.has(ref, live))) return;
    const mark = path.join(this.#deployment(ref, live), SERVED);
    if (!(await stat(mark).catch(unlessMissing))) await replaceFile(mark, '');
  }

  async #size(site: string, id: string): Promise<number> {
    const file = path.join(this.#deployment(site, id), SIZE);
    const text = await readFile(file, 'utf8').catch(unlessMissing);
    if (text !== undefined) return Number(text);
    // An earlier release wrote no size.
    const manifest = await readManifest(this.#deployment(site, id));
    if (!manifest) return 0;
    const size = sizeOnDisk(manifest);
    // The deployment may be removed at the same time.
    await replaceFile(file, `${size}`).catch(unlessMissing);
    return size;
  }

  /** Returns the manifest's time of modification. Reads no content, because a manifest has an entry for each file. */
  async #publishedAt(ref: string, id: string): Promise<Date | undefined> {
    return (await stat(path.join(this.#deployment(ref, id), MANIFEST)).catch(unlessMissing))?.mtime;
  }

  #site(ref: string): string {
    return siteFolder(this.folder, ref);
  }

  #deployment(ref: string, id: string): string {
    return deploymentFolder(this.folder, ref, id);
  }
}

function publishedOf(id: string, { files }: Manifest, warnings: string[]): Published {
  const all = Object.values(files);
  return { id, files: all.length, bytes: all.reduce((sum, { bytes }) => sum + bytes, 0), warnings };
}

function sizeOnDisk({ files }: Manifest): number {
  const blocksOf = (bytes: number | undefined) => Math.ceil((bytes ?? 0) / BLOCK) * BLOCK;
  return Object.values(files).reduce(
    (sum, { bytes, br, gzip }) => sum + blocksOf(bytes) + blocksOf(br) + blocksOf(gzip),
    0,
  );
}

async function readManifest(deployment: string): Promise<Manifest | undefined> {
  const text = await readFile(path.join(deployment, MANIFEST)).catch(unlessMissing);
  return text === undefined ? undefined : ((await parseJsonInTurns(text, MOST_OF_MANIFEST)) as Manifest);
}

const isRules = (file: string): file is '_redirects' | '_headers' => file === '_redirects' || file === '_headers';

/** Moves the rules of a file into the manifest and deletes the file, so that it is not served. Returns warnings. */
async function takeRules(
  file: '_redirects' | '_headers',
  copied: string,
  bytes: number,
  manifest: Manifest,
): Promise<string[]> {
  const text = bytes <= MOST_RULES_BYTES ? await readFile(copied, 'utf8') : undefined;
  await rm(copied);
  if (text === undefined) return [`${file} is left out: it is larger than 1 MiB`];
  if (file === '_redirects') {
    const { rules, warnings } = parseRedirects(text);
    manifest.redirects = rules;
    return warnings;
  }
  const { rules, warnings } = parseHeaders(text);
  manifest.headers = rules;
  return warnings;
}

/** Copies at most `bytes` bytes, the size that was checked against the limits. */
async function copy({ handle, bytes }: OutputFile, target: string): Promise<ManifestFile> {
  await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
  const written = await open(target, 'wx', 0o600);
  try {
    const hash = createHash('sha256');
    const buffer = Buffer.allocUnsafe(Math.min(COPIED_AT_ONCE, Math.max(bytes, 1)));
    let done = 0;
    while (done < bytes) {
      const { bytesRead } = await handle.read(buffer, 0, Math.min(buffer.length, bytes - done), done);
      if (bytesRead === 0) break;
      const piece = buffer.subarray(0, bytesRead);
      hash.update(piece);
      await written.writeFile(piece);
      done += bytesRead;
    }
    await written.sync();
    return { bytes: done, hash: hash.digest('base64url') };
  } finally {
    await written.close();
  }
}
