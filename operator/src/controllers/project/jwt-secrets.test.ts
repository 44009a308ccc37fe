import { createHmac } from 'node:crypto';
import { SECRETS } from '@slipway/installation';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type KeyRequest, promotedKeys, wantedKeys } from './jwt-secrets.js';
import type { Values } from './secrets.js';

const { keys: names } = SECRETS;
const test = suite('the JWT secrets of a project');
const now = new Date('2026-01-01T00:00:00Z');
const OWN = 'a secret of the owner that is more than 32 characters';

const request = (rotation: KeyRequest['rotation'] = {}, own?: string): KeyRequest => ({
  ref: 'shop',
  own,
  rotation,
  now,
});
const stored = wantedKeys({}, request());
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
const after = (before: Values, wanted: KeyRequest) => applied(before, wantedKeys(before, wanted));

const unchanged: Record<string, [Values, KeyRequest]> = {
  'requests nothing': [stored, request()],
  'requests the numbers of its present credentials': [
    { ...stored, [names.jwtSecretRotation]: '3', [names.apiKeysRotation]: '4' },
    request({ jwtSecret: 3, apiKeys: 4 }),
  ],
  'has removed its numbers': [{ ...stored, [names.jwtSecretRotation]: '3', [names.apiKeysRotation]: '4' }, request()],
};
for (const [who, [before, wanted]] of Object.entries(unchanged)) {
  test(`a project that ${who} keeps all its JWT secrets and keys`, () =>
    assert.equal(after(before, wanted), applied(before, {})));
}

test('a new project records the requested rotation numbers, and rotates nothing', () => {
  const made = after({}, request({ jwtSecret: 5, apiKeys: 6 }));
  assert.is(made[names.jwtSecretRotation], '5');
  assert.is(made[names.apiKeysRotation], '6');
  assert.is(made[names.nextJwtSecret], undefined);
});

test('a new rotation number makes a next secret, which stays until it signs, with unchanged keys', () => {
  const begun = after(stored, request({ jwtSecret: 1 }));
  assert.ok(begun[names.nextJwtSecret]);
  assert.is(begun[names.jwtSecret], stored[names.jwtSecret]);
  assert.is(begun[names.anonKey], stored[names.anonKey]);
  assert.is(begun[names.jwtSecretRotation], undefined, 'recorded at the end of the rotation');
  assert.equal(after(begun, request({ jwtSecret: 1 })), begun);
});

test('a rotation is cancelled when its number is restored before the next secret signs', () => {
  const begun = after(stored, request({ jwtSecret: 1 }));
  assert.equal(after(begun, request()), applied(stored, {}));
});

test('the next secret signs new keys, the former secret becomes previous, and the number is recorded', () => {
  const begun = after(stored, request({ jwtSecret: 1 }));
  const next = begun[names.nextJwtSecret] as string;
  const done = applied(begun, promotedKeys(begun, next, request({ jwtSecret: 1 })));
  assert.is(done[names.jwtSecret], next);
  assert.is(done[names.previousJwtSecret], stored[names.jwtSecret]);
  assert.is(done[names.nextJwtSecret], undefined);
  assert.is(done[names.jwtSecretRotation], '1');
  assert.ok(signs(next, done[names.anonKey]) && signs(next, done[names.serviceRoleKey]));
  assert.is(done[names.webhookSecret], stored[names.webhookSecret]);
  assert.equal(after(done, request({ jwtSecret: 1 })), done);
});

test('a rotation number that is requested during a rotation starts another rotation afterwards', () => {
  const begun = after(stored, request({ jwtSecret: 1 }));
  const twice = request({ jwtSecret: 2 });
  assert.equal(after(begun, twice), begun, 'the first goes on');
  const first = applied(begun, promotedKeys(begun, begun[names.nextJwtSecret] as string, twice));
  assert.is(first[names.jwtSecretRotation], '1');
  const second = after(first, twice);
  const next = second[names.nextJwtSecret] as string;
  assert.ok(next && next !== first[names.jwtSecret]);
  const done = applied(second, promotedKeys(second, next, twice));
  assert.is(done[names.jwtSecretRotation], '2');
  assert.not(Object.values(done).includes(stored[names.jwtSecret]), 'no token of the leaked secret is valid');
  assert.equal(after(done, twice), done);
});

test('a next secret that was the owner’s own does not count for a requested rotation number', () => {
  const begun = after(stored, request({}, OWN));
  const numbered = after(begun, request({ jwtSecret: 1 }));
  assert.ok(numbered[names.nextJwtSecret] && numbered[names.nextJwtSecret] !== OWN);
});

test('promotedKeys changes nothing when the Secret has another next secret', () => {
  const begun = after(stored, request({ jwtSecret: 1 }));
  assert.equal(promotedKeys(begun, 'one from before', request({ jwtSecret: 1 })), {});
});

test('an owner’s own secret is used at once if there is no secret, and otherwise becomes the next secret', () => {
  assert.is(after({}, request({}, OWN))[names.jwtSecret], OWN);
  const begun = after(stored, request({}, OWN));
  assert.is(begun[names.nextJwtSecret], OWN);
  assert.is(begun[names.jwtSecret], stored[names.jwtSecret]);
  assert.is(after(begun, request({}, `${OWN}, changed`))[names.nextJwtSecret], `${OWN}, changed`);
  assert.is(after(begun, request({}, stored[names.jwtSecret]))[names.nextJwtSecret], undefined);
});

test('a rotation number does not rotate an owner’s own secret, and is recorded', () => {
  const made = after({}, request({}, OWN));
  const numbered = after(made, request({ jwtSecret: 2 }, OWN));
  assert.equal(numbered, { ...made, [names.jwtSecretRotation]: '2' });
});

test('rotated API keys differ under the same secret, and are made once for each rotation number', () => {
  const rotated = after(stored, request({ apiKeys: 1 }));
  assert.is(rotated[names.jwtSecret], stored[names.jwtSecret]);
  for (const key of [names.anonKey, names.serviceRoleKey]) {
    assert.is.not(rotated[key], stored[key]);
    assert.ok(signs(stored[names.jwtSecret], rotated[key]));
  }
  assert.equal(after(rotated, request({ apiKeys: 1 })), rotated);
});

test('an API key is issued again when the present secret did not sign it', () => {
  const edited = after({ ...stored, [names.anonKey]: 'a.b.c' }, request());
  assert.ok(signs(stored[names.jwtSecret], edited[names.anonKey]));
  assert.is(edited[names.serviceRoleKey], stored[names.serviceRoleKey]);
});

test.run();
