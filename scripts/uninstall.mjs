import { prepare, runNode } from './prepare.mjs';

prepare();
runNode(['slipway/dist/main.js', 'uninstall', ...process.argv.slice(2)]);
