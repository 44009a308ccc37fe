/**
 * Makes the pack of an installation, as a process of its own: hashing and compressing 300 MB would block the operator.
 * Arguments: the folder of the installation and the cache folder. Standard output: a Pack in JSON.
 */
import { setPriority } from 'node:os';
import { makePack } from './make-pack.js';

/** Requests to the platform come first. */
const LOW_PRIORITY = 10;

setPriority(LOW_PRIORITY);
const [root = '', cache = ''] = process.argv.slice(2);
try {
  process.stdout.write(JSON.stringify(await makePack(root, cache)));
} catch (error) {
  process.stderr.write((error as Error).message);
  process.exitCode = 1;
}
