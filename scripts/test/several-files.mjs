/**
 * The process of one or more test files: runs the compiled files that its arguments name, one after another, and prints
 * a line before and after each. Later files find the modules loaded, which takes most of a file's time. In: uvu in its
 * deferred mode, from scripts/test/preload.mjs. Called by scripts/test/file.mjs.
 */
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { BEGIN, END } from './file-marks.mjs';
import { beginFile, exec, showCurrent } from './uvu.mjs';

/**
 * Time for a file's process to end after its tests: a file ends what it started. The runner's own test uses a shorter
 * one.
 */
const OPEN_MS = Number(process.env.SLIPWAY_TEST_OPEN_MS ?? 60_000);

for (const file of process.argv.slice(2)) {
  console.log(`${BEGIN}${file}`);
  globalThis.UVU_QUEUE.splice(0, Infinity, [null]);
  beginFile();
  let loaded = false;
  try {
    await import(pathToFileURL(path.resolve(file)));
    loaded = true;
    await exec();
  } catch (error) {
    console.log(`   FAIL  ${loaded ? 'in what is done around the tests' : 'the file does not load'}\n`, error);
  }
  console.log(`${END}${file}`);
}
showCurrent('');

setTimeout(() => {
  console.log(`✗ still open: ${process.getActiveResourcesInfo().join(', ')}`);
  process.exit(1);
}, OPEN_MS).unref();
