import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { accountOf, isRoot } from './account.js';
import { isolation, isolationOn } from './isolation.js';

test('the isolation names what is missing when the platform has no root, too few user ids and no namespaces', () => {
  const kinds = [true, false].flatMap((root) =>
    [true, false].flatMap((manyIds) =>
      [true, false].map((given) => isolationOn({ root, manyIds, namespaces: () => given }).kind),
    ),
  );
  const [own, boxed] = ['account-per-project', 'sandbox'];
  const without = 'permissions-only';
  assert.equal(kinds, [own, own, boxed, 'shared-account', boxed, without, boxed, without]);
  const { description } = isolationOn({ root: false, manyIds: true, namespaces: () => false });
  assert.match(description, /Deno’s permissions alone/);
});

test('where each project has a user id, namespaces are not tried', () => {
  const namespaces = (): never => {
    throw new Error('a process was started');
  };
  assert.is(isolationOn({ root: true, manyIds: true, namespaces }).kind, 'account-per-project');
});

test('the isolation of this system is the one that accounts follow', () => {
  const { kind } = isolation();
  const [one, two] = [accountOf('one')?.uid, accountOf('two')?.uid];
  assert.is(one === undefined, !isRoot());
  assert.is(kind === 'account-per-project', one !== two);
});

test.run();
