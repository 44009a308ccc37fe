/** Paths of deployments and their parts in the folder of sites. `sites.ts` describes the layout. */
import path from 'node:path';
import type { Encoding } from './encodings.js';
import { checkedName } from './names.js';
import { refOfPreview } from './preview-names.js';

/** The file that names the live deployment. */
export const LIVE = 'live';
/** The folder of unfinished deployments. */
export const INCOMING = 'incoming';
/** The file that lists the files of a deployment. */
export const MANIFEST = 'manifest.json';
/** The empty file that marks a deployment which was live until another one replaced it. */
export const SERVED = 'served';
/** The file with the bytes that a deployment needs on the disk. */
export const SIZE = 'size';
/** Limits of a manifest: the largest one has the maximum number of files, all with the longest path. */
export const MOST_OF_MANIFEST = { bytes: 64 * 1024 * 1024, depth: 8, values: 500_000 };

/** Returns the folder of a project's previews. Each preview is a site. */
export const previewsFolder = (folder: string, ref: string) => path.join(folder, checkedName(ref), 'previews');

/** `site` is the ref of a project, or the name of a preview. */
export function siteFolder(folder: string, site: string): string {
  const ref = refOfPreview(site);
  return path.join(ref === undefined ? folder : previewsFolder(folder, ref), checkedName(site));
}

export const deploymentsFolder = (folder: string, ref: string) => path.join(siteFolder(folder, ref), 'deployments');

export const deploymentFolder = (folder: string, ref: string, id: string) =>
  path.join(deploymentsFolder(folder, ref), checkedName(id));

/** Returns the folder with the deployment's files, as published or encoded. Each file is there at its own path. */
export const filesFolder = (deployment: string, encoding?: Encoding) => path.join(deployment, encoding ?? 'files');
