import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { helpOr } from './help.mjs';
import { nodeBinary, prepare, root, runNode } from './prepare.mjs';

helpOr('npm run lint    checks form and style of all sources, and the rules of the repository (checks/)');
prepare();
const biome = path.join(root, 'node_modules/@biomejs/biome/bin/biome');
const { status } = spawnSync(nodeBinary(), [biome, 'check', '.'], { cwd: root, stdio: 'inherit' });
if (status !== 0) process.exit(1);
runNode([path.join(root, 'node_modules/uvu/bin.js'), 'checks/dist', '\\.test\\.js$']);
