import { runNode } from './prepare.mjs';

runNode(['slipway/dist/main.js', 'admin', ...process.argv.slice(2)]);
