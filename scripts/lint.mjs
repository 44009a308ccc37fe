import path from 'node:path';
import { prepare, root, runNode } from './prepare.mjs';

prepare();
runNode([path.join(root, 'node_modules/@biomejs/biome/bin/biome'), 'check', '.']);
