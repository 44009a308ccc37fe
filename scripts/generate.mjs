/**
 * `npm run generate`: writes what is made of code and of other pages. `npm run generate -- lite` also asks
 * @supabase/lite.
 */
import { spawnSync } from 'node:child_process';
import { nodeBinary, prepare, root } from './prepare.mjs';

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
