/** Writes the CRD manifests: `node crds/dist/generate.js <folder>`. */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { manifestFiles } from './manifests.js';

const folder = path.resolve(process.argv[2] ?? 'manifests/crds');
await mkdir(folder, { recursive: true });
for (const { file, yaml } of manifestFiles()) await writeFile(path.join(folder, file), yaml);
