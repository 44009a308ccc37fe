/** Writes manifests/ anew, but for the CRDs: `node cdk8s/dist/generate.js <folder>`. */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { GENERATED, manifestFiles } from './files.js';

const folder = path.resolve(process.argv[2] ?? 'manifests');
for (const part of GENERATED) await rm(path.join(folder, part), { recursive: true, force: true });
for (const [file, text] of manifestFiles()) {
  await mkdir(path.dirname(path.join(folder, file)), { recursive: true });
  await writeFile(path.join(folder, file), text);
}
