/**
 * Writes manifests/ without the CRDs, and the table in docs/cluster.md: `node cdk8s/dist/generate.js <the repository>`.
 */
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { GENERATED, manifestFiles } from './files.js';
import { withSettingsTable } from './settings-table.js';

const root = path.resolve(process.argv[2] ?? '.');
const manifests = path.join(root, 'manifests');
for (const part of GENERATED) await rm(path.join(manifests, part), { recursive: true, force: true });
for (const [file, text] of manifestFiles()) {
  await mkdir(path.dirname(path.join(manifests, file)), { recursive: true });
  await writeFile(path.join(manifests, file), text);
}
const page = path.join(root, 'docs', 'cluster.md');
await writeFile(page, withSettingsTable(await readFile(page, 'utf8')));
