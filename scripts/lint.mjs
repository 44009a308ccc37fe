import path from 'node:path';
import { helpOr } from './help.mjs';
import { prepare, root, runNode } from './prepare.mjs';

helpOr('npm run lint    checks form and style of all sources');
prepare();
runNode([path.join(root, 'node_modules/@biomejs/biome/bin/biome'), 'check', '.']);
