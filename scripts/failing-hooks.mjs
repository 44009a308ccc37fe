/** Loaded before each test file: uvu fails a file whose hook fails, and does not say why. */
import { test } from 'uvu';

// A program that a test forks is started without this.
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
