/**
 * Reads the deployments of sites while other processes publish. In: refs, ids of deployments, and paths of a manifest.
 * Out: the live deployment, manifests and open files. A pruned deployment is reported as missing.
 */
import { constants } from 'node:fs';
import { type FileHandle, open, readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { namesIn, parseJsonInTurns, unlessMissing } from '@slipway/program';
import type { Encoding } from './encodings.js';
import {
  deploymentFolder,
  deploymentsFolder,
  filesFolder,
  LIVE,
  MANIFEST,
  MOST_OF_MANIFEST,
  SERVED,
  siteFolder,
} from './layout.js';
import { checkedName } from './names.js';
import type { Manifest } from './sites.js';

export interface LivePointer {
  id: string;
  /** Changes whenever a deployment goes live, even if the id stays the same. */
  version: string;
}

/**
 * Flags for opening a file: the call follows no symbolic link, because no file of a deployment is one, and does not
 * wait for a pipe.
 */
const FLAGS = constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK;
/** Maximum bytes of the file `live`, which has the name of a deployment and a line break. */
const MOST_OF_POINTER = 300;

export class SiteReader {
  constructor(readonly folder: string) {}

  /** Returns undefined if the site has no live deployment. */
  async live(ref: string): Promise<LivePointer | undefined> {
    const handle = await open(path.join(siteFolder(this.folder, ref), LIVE), FLAGS).catch(unlessMissing);
    if (!handle) return undefined;
    try {
      const { ino, mtimeNs, size } = await handle.stat({ bigint: true });
      const buffer = Buffer.alloc(MOST_OF_POINTER);
      const { bytesRead } = await handle.read(buffer, 0, Math.min(Number(size), MOST_OF_POINTER), 0);
      const id = checkedName(buffer.toString('utf8', 0, bytesRead).trim());
      return { id, version: `${id} ${ino} ${mtimeNs}` };
    } finally {
      await handle.close();
    }
  }

  /** Returns the manifest with the length of its text, or undefined if the deployment does not exist. */
  async manifest(ref: string, id: string): Promise<{ manifest: Manifest; bytes: number } | undefined> {
    const file = path.join(deploymentFolder(this.folder, ref, id), MANIFEST);
    const text = await readFile(file).catch(unlessMissing);
    if (text === undefined) return undefined;
    return { manifest: (await parseJsonInTurns(text, MOST_OF_MANIFEST)) as Manifest, bytes: text.length };
  }

  /** Returns the ids of all deployments, unsorted. */
  async deployments(ref: string): Promise<string[]> {
    return await namesIn(deploymentsFolder(this.folder, ref));
  }

  /**
   * Returns the ids of deployments that were live until another one replaced them, unsorted. Nobody may see the output
   * of other builds.
   */
  async servedDeployments(ref: string): Promise<string[]> {
    const served: string[] = [];
    for (const id of await this.deployments(ref)) {
      const mark = path.join(deploymentFolder(this.folder, ref, id), SERVED);
      if (await stat(mark).catch(unlessMissing)) served.push(id);
    }
    return served;
  }

  /**
   * Opens the file, which the caller closes. `file` is a path in the manifest. Returns undefined if the deployment was
   * pruned.
   */
  async open(ref: string, id: string, file: string, encoding?: Encoding): Promise<FileHandle | undefined> {
    const folder = filesFolder(deploymentFolder(this.folder, ref, id), encoding);
    return await open(path.join(folder, file), FLAGS).catch(unlessMissing);
  }
}
