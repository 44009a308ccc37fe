import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { accountOf, isRoot } from './account.js';
import { isolationOf } from './isolation.js';

test('the isolation names what is missing when the platform has no root or too few user ids', () => {
  const kinds = [
    { root: true, manyIds: true },
    { root: true, manyIds: false },
    { root: false, manyIds: true },
    { root: false, manyIds: false },
  ].map((system) => isolationOf(system).kind);
  assert.equal(kinds, ['account-per-project', 'shared-account', 'permissions-only', 'permissions-only']);
  assert.match(isolationOf({ root: false, manyIds: true }).description, /Deno’s permissions alone/);
});

test('the isolation of this system is the one that accounts follow', () => {
  const { kind } = isolationOf();
  const [one, two] = [accountOf('one')?.uid, accountOf('two')?.uid];
  assert.is(kind === 'permissions-only', !isRoot());
  assert.is(kind === 'permissions-only', one === undefined);
  assert.is(kind === 'account-per-project', one !== two);
});

test.run();
