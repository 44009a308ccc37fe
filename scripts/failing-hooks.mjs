/**
 * Loaded before the test files of a process. Makes uvu run tests only when scripts/test/several-files.mjs calls it.
 * Prints the error of a failed hook, which uvu does not. Reads source maps of our own code alone: with
 * `--enable-source-maps` Node reads those of all packages too, which is a fifth of the time to load the API.
 */
import { setSourceMapsSupport } from 'node:module';

// uvu reads this when it is loaded.
globalThis.UVU_DEFER = true;
const { test } = await import('uvu');

setSourceMapsSupport(true);

// A program that a test forks starts without this module.
process.execArgv = process.execArgv.filter((option) => !option.endsWith(import.meta.url));

for (const when of ['before', 'after']) {
  const register = test[when];
  const telling = (hook) =>
    register(async (...given) => {
      try {
        return await hook(...given);
      } catch (error) {
        console.error(`   FAIL  in what is done ${when} the tests\n`, error);
        throw error;
      }
    });
  test[when] = Object.assign(telling, register);
}
