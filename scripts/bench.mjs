/** `npm run bench [-- name …]`: runs the benches. They install the programs that the platform is compared with. */
import { helpOr } from './help.mjs';
import { prepare, runNode } from './prepare.mjs';

helpOr(`npm run bench [-- name …] [--rounds=5] [--seconds=3] [--only=part] [--before=folder]

Runs the benches that are named, or all, and writes bench/results/<name>.json. --only runs one part and writes nothing.
--before compares with the built checkout in that folder. docs/benchmarks.md has the names and the figures.`);

prepare();
runNode(['bench/dist/main.js', ...process.argv.slice(2)]);
