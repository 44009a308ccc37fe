import { prepare, runNode } from './prepare.mjs';

prepare();
runNode(['slipway/dist/main.js', ...process.argv.slice(2)]);
