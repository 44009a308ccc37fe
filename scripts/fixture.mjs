/**
 * `npm run fixture -- <release> [--cluster]`: writes a home, or a cluster, with this release, for the test of later
 * upgrades.
 */
import { helpOr } from './help.mjs';
import { prepare, runNode } from './prepare.mjs';

helpOr(`npm run fixture -- <release> [--cluster] [--from=checkout]

Writes a home, or a cluster, with this release into e2e/fixtures/<release>, for the test of later upgrades.`);

prepare();
runNode(['e2e/dist/upgrade/main.js', ...process.argv.slice(2)]);
