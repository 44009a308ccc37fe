import { prepare, runNode } from './prepare.mjs';

prepare();
// The duration beside "Slipway is ready" counts from here, not from the installation of packages.
const environment = { SLIPWAY_PREPARED_MS: String(Math.round(performance.now())) };
runNode(['slipway/dist/main.js', ...process.argv.slice(2)], environment);
