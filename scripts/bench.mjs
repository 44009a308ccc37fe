/** `npm run bench [-- name …]`: runs the benches, which install the peers that are measured beside the platform. */
import { prepare, runNode } from './prepare.mjs';

prepare();
runNode(['bench/dist/main.js', ...process.argv.slice(2)]);
