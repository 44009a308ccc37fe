/**
 * Loaded before the test files of a process. Makes uvu run tests only when several-files.mjs calls it, and gives test
 * files our uvu.mjs. Reads source maps of our own code alone: with `--enable-source-maps` Node reads those of all
 * packages too, which is a fifth of the time to load the API.
 */
import { registerHooks, setSourceMapsSupport } from 'node:module';

// uvu reads this when it is loaded.
globalThis.UVU_DEFER = true;

setSourceMapsSupport(true);

// A program that a test forks starts without this module.
process.execArgv = process.execArgv.filter((option) => !option.endsWith(import.meta.url));

const OURS = new URL('uvu.mjs', import.meta.url).href;

registerHooks({
  resolve(specifier, context, next) {
    if (specifier !== 'uvu' || context.parentURL === OURS) return next(specifier, context);
    return { url: OURS, format: 'module', shortCircuit: true };
  },
});
