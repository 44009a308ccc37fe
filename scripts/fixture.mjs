/**
 * `npm run fixture -- <release> [--cluster]`: writes a home, or a cluster, with this release, for the test of later
 * upgrades.
 */
import { prepare, runNode } from './prepare.mjs';

prepare();
runNode(['e2e/dist/upgrade/main.js', ...process.argv.slice(2)]);
