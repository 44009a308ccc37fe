import { spawnSync } from 'node:child_process';
import { nodeBinary, prepare, root } from './prepare.mjs';

prepare();
for (const command of [
  ['crds/dist/generate.js', 'manifests/crds'],
  ['cdk8s/dist/generate.js', '.'],
]) {
  const { status } = spawnSync(nodeBinary(), command, { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(1);
}
