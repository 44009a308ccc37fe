import { createHmac } from 'node:crypto';
import { SECRETS } from '@slipway/crds';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type KeyWishes, promotedKeys, wantedKeys } from './jwt-secrets.js';
import type { Values } from './secrets.js';

const { keys: names } = SECRETS;
const test = suite('which JWT secrets a project has');
const now = new Date('2026-01-01T00:00:00Z');
const OWN = 'a secret of the owner that is more than 32 characters';

const wishes = (rotation: KeyWishes['rotation'] = {}, own?: string): KeyWishes => ({ ref: 'shop', own, rotation, now });
const held = wantedKeys({}, wishes());
const signs = (secret: string | undefined, key: string | undefined) => {
  const [header, claims, signature] = (key ?? '').split('.');
  return (
    createHmac('sha256', secret ?? '')
      .update(`${header}.${claims}`)
      .digest('base64url') === signature
  );
};
/** Applies a change as an update of the Secret does: undefined values are removed. */
const applied = (before: Values, change: Values): Values =>
  Object.fromEntries(Object.entries({ ...before, ...change }).filter(([, value]) => value !== undefined));
const after = (before: Values, wanted: KeyWishes) => applied(before, wantedKeys(before, wanted));

const unchanged: Record<string, [Values, KeyWishes]> = {
  'asks for nothing': [held, wishes()],
  'asks for the numbers that the credentials are of': [
    { ...held, [names.jwtSecretRotation]: '3', [names.apiKeysRotation]: '4' },
    wishes({ jwtSecret: 3, apiKeys: 4 }),
  ],
  'has taken its numbers away': [{ ...held, [names.jwtSecretRotation]: '3', [names.apiKeysRotation]: '4' }, wishes()],
};
for (const [who, [before, wanted]] of Object.entries(unchanged)) {
  test(`who ${who} keeps all that there is`, () => assert.equal(after(before, wanted), applied(before, {})));
}

test('a project is made with the numbers it asks for, and nothing is rotated', () => {
  const made = after({}, wishes({ jwtSecret: 5, apiKeys: 6 }));
  assert.is(made[names.jwtSecretRotation], '5');
  assert.is(made[names.apiKeysRotation], '6');
  assert.is(made[names.nextJwtSecret], undefined);
});

test('another number makes a next secret, which stays the same until it signs, and the keys stay of the present one', () => {
  const begun = after(held, wishes({ jwtSecret: 1 }));
  assert.ok(begun[names.nextJwtSecret]);
  assert.is(begun[names.jwtSecret], held[names.jwtSecret]);
  assert.is(begun[names.anonKey], held[names.anonKey]);
  assert.is(begun[names.jwtSecretRotation], undefined, 'recorded when it is done');
  assert.equal(after(begun, wishes({ jwtSecret: 1 })), begun);
});

test('a number that goes back before the next secret signs ends the rotation', () => {
  const begun = after(held, wishes({ jwtSecret: 1 }));
  assert.equal(after(begun, wishes()), applied(held, {}));
});

test('the next secret signs with new keys, the one before is previous, and the number is recorded', () => {
  const begun = after(held, wishes({ jwtSecret: 1 }));
  const next = begun[names.nextJwtSecret] as string;
  const done = applied(begun, promotedKeys(begun, next, wishes({ jwtSecret: 1 })));
  assert.is(done[names.jwtSecret], next);
  assert.is(done[names.previousJwtSecret], held[names.jwtSecret]);
  assert.is(done[names.nextJwtSecret], undefined);
  assert.is(done[names.jwtSecretRotation], '1');
  assert.ok(signs(next, done[names.anonKey]) && signs(next, done[names.serviceRoleKey]));
  assert.is(done[names.webhookSecret], held[names.webhookSecret]);
  assert.equal(after(done, wishes({ jwtSecret: 1 })), done);
});

test('a number asked for while the next secret of another is made known rotates once more after it', () => {
  const begun = after(held, wishes({ jwtSecret: 1 }));
  const twice = wishes({ jwtSecret: 2 });
  assert.equal(after(begun, twice), begun, 'the first goes on');
  const first = applied(begun, promotedKeys(begun, begun[names.nextJwtSecret] as string, twice));
  assert.is(first[names.jwtSecretRotation], '1');
  const second = after(first, twice);
  const next = second[names.nextJwtSecret] as string;
  assert.ok(next && next !== first[names.jwtSecret]);
  const done = applied(second, promotedKeys(second, next, twice));
  assert.is(done[names.jwtSecretRotation], '2');
  assert.not(Object.values(done).includes(held[names.jwtSecret]), 'no token of the leaked secret is good');
  assert.equal(after(done, twice), done);
});

test('a next secret that was the owner’s own is not the one that a number asks for', () => {
  const begun = after(held, wishes({}, OWN));
  const numbered = after(begun, wishes({ jwtSecret: 1 }));
  assert.ok(numbered[names.nextJwtSecret] && numbered[names.nextJwtSecret] !== OWN);
});

test('what was asked of another next secret promotes nothing', () => {
  const begun = after(held, wishes({ jwtSecret: 1 }));
  assert.equal(promotedKeys(begun, 'one from before', wishes({ jwtSecret: 1 })), {});
});

test('an owner’s own secret is used at once where there is none, and is next where there is one', () => {
  assert.is(after({}, wishes({}, OWN))[names.jwtSecret], OWN);
  const begun = after(held, wishes({}, OWN));
  assert.is(begun[names.nextJwtSecret], OWN);
  assert.is(begun[names.jwtSecret], held[names.jwtSecret]);
  assert.is(after(begun, wishes({}, `${OWN}, changed`))[names.nextJwtSecret], `${OWN}, changed`);
  assert.is(after(begun, wishes({}, held[names.jwtSecret]))[names.nextJwtSecret], undefined);
});

test('a number does not rotate an owner’s own secret, and is recorded', () => {
  const made = after({}, wishes({}, OWN));
  const numbered = after(made, wishes({ jwtSecret: 2 }, OWN));
  assert.equal(numbered, { ...made, [names.jwtSecretRotation]: '2' });
});

test('rotated API keys are others under the same secret, once for each number', () => {
  const rotated = after(held, wishes({ apiKeys: 1 }));
  assert.is(rotated[names.jwtSecret], held[names.jwtSecret]);
  for (const key of [names.anonKey, names.serviceRoleKey]) {
    assert.is.not(rotated[key], held[key]);
    assert.ok(signs(held[names.jwtSecret], rotated[key]));
  }
  assert.equal(after(rotated, wishes({ apiKeys: 1 })), rotated);
});

test('a key that is not of its secret is made anew', () => {
  const edited = after({ ...held, [names.anonKey]: 'a.b.c' }, wishes());
  assert.ok(signs(held[names.jwtSecret], edited[names.anonKey]));
  assert.is(edited[names.serviceRoleKey], held[names.serviceRoleKey]);
});

test.run();
