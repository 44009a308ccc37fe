import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { accountOf, isRoot } from './account.js';
import { isolationKind, isolationOn } from './isolation.js';

test('the kind of isolation follows from the rights of root, the user ids and the namespaces', () => {
  const kinds = [true, false].flatMap((root) =>
    [true, false].flatMap((manyIds) =>
      [true, false].map((granted) => isolationOn({ root, manyIds, namespaces: () => granted })),
    ),
  );
  const [own, boxed] = ['account-per-project', 'sandbox'];
  const without = 'permissions-only';
  assert.equal(kinds, [own, own, boxed, 'shared-account', boxed, without, boxed, without]);
});

test('the isolation does not test namespaces if each project has a user id', () => {
  const namespaces = (): never => {
    throw new Error('a process was started');
  };
  assert.is(isolationOn({ root: true, manyIds: true, namespaces }), 'account-per-project');
});

test('projects have user ids of their own only if this system’s isolation is account-per-project', () => {
  const kind = isolationKind();
  const [one, two] = [accountOf('one')?.uid, accountOf('two')?.uid];
  assert.is(one === undefined, !isRoot());
  assert.is(kind === 'account-per-project', one !== two);
});

test.run();
