import { runNode } from './prepare.mjs';

runNode(['slipway/dist/main.js', 'stop', ...process.argv.slice(2)]);
