/**
 * `npm run generate`: writes the files that are generated from code and from other pages. `npm run generate -- lite`
 * also sends requests to @supabase/lite.
 */
import { spawnSync } from 'node:child_process';
import { helpOr } from './help.mjs';
import { nodeBinary, prepare, root } from './prepare.mjs';

helpOr(`npm run generate [-- lite]

Writes manifests/, the table of settings in docs/cluster.md and docs/compatibility.md. lite also runs each request
against @supabase/lite and writes docs/compatibility/lite.md.`);

prepare();
const commands = [
  ['crds/dist/generate.js', 'manifests/crds'],
  ['cdk8s/dist/generate.js', '.'],
  ['e2e/dist/compatibility/generate.js'],
  ...(process.argv.includes('lite') ? [['e2e/dist/differential/generate.js']] : []),
];
for (const command of commands) {
  const { status } = spawnSync(nodeBinary(), command, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(1);
}
