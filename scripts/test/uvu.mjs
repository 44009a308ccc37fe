/**
 * uvu for test files: prints the error of a failed hook, which uvu does not, and shows which test runs. In:
 * SLIPWAY_TEST_CURRENT, a file that always has the name of the running test, and SLIPWAY_TEST_LOG, where tests keep the
 * output of their programs, after a line with that name. Called by scripts/test/preload.mjs.
 */
import { appendFileSync, writeFileSync } from 'node:fs';
import * as uvu from 'uvu';
import { TEST } from './file-marks.mjs';

const { SLIPWAY_TEST_CURRENT: CURRENT, SLIPWAY_TEST_LOG: LOG } = process.env;

export const { exec } = uvu;
export const test = watched(uvu.test);
export const suite = (...given) => {
  const made = watched(uvu.suite(...given));
  showEach(made);
  return made;
};

/** Shows the tests of the next file. uvu forgets the hooks of `test` after each file. */
export function beginFile() {
  showCurrent('');
  showEach(test);
}

const showEach = (tests) => tests.before.each(({ __test__: name }) => showCurrent(name));

export function showCurrent(name) {
  if (CURRENT) writeFileSync(CURRENT, name);
  if (LOG) appendFileSync(LOG, `\n${TEST}${name}\n`);
}

function watched(tests) {
  for (const when of ['before', 'after']) {
    const register = tests[when];
    const withError = (hook) =>
      register(async (...given) => {
        try {
          return await hook(...given);
        } catch (error) {
          // On the stream of the marks around a file's output.
          console.log(`   FAIL  in what is done ${when} the tests\n`, error);
          throw error;
        }
      });
    tests[when] = Object.assign(withError, register);
  }
  return tests;
}
