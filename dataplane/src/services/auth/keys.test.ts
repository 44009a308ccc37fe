import { createPublicKey, type KeyObject } from 'node:crypto';
import {
  createLocalJWKSet,
  decodeJwt,
  decodeProtectedHeader,
  exportJWK,
  generateKeyPair,
  type JSONWebKeySet,
  type JWTPayload,
  jwtVerify,
  SignJWT,
  UnsecuredJWT,
} from 'jose';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type AuthProject, type Harness, sessionOf, startHarness } from './testing/harness.js';

let harness: Harness;
let app: AuthProject;

test.before(async () => {
  harness = await startHarness();
  app = await harness.project('keys');
});
test.after(() => harness?.close());

async function newKey(alg: 'ES256' | 'RS256', kid: string) {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  const jwk = { ...(await exportJWK(privateKey)), kid, alg };
  return {
    kid,
    alg,
    privateKey,
    current: { ...jwk, key_ops: ['sign', 'verify'] },
    other: { ...jwk, key_ops: ['verify'] },
  };
}
type Key = Awaited<ReturnType<typeof newKey>>;

const useKeys = (...keys: object[]) => app.configure({ GOTRUE_JWT_KEYS: JSON.stringify(keys) });
const jwks = async () =>
  (await app.ask('GET', '/.well-known/jwks.json', { headers: { apikey: '' } })).body as unknown as JSONWebKeySet;
const userOf = (token: string) => app.ask('GET', '/user', { token });

for (const alg of ['ES256', 'RS256'] as const) {
  test(`tokens are signed by the current ${alg} key, and can be verified with its published key`, async () => {
    const key = await newKey(alg, `now-${alg}`);
    useKeys(key.current);
    const { supabase, userId } = await app.signedUp();
    const { access_token } = await sessionOf(supabase);
    assert.equal(decodeProtectedHeader(access_token), { alg, kid: `now-${alg}`, typ: 'JWT' });
    const published = await jwks();
    assert.is(published.keys.length, 1);
    for (const secret of ['d', 'p', 'q', 'dp', 'dq', 'qi', 'k']) assert.not.ok(secret in (published.keys[0] as object));
    const { payload } = await jwtVerify(access_token, createLocalJWKSet(published), {
      issuer: `${app.url}/auth/v1`,
      audience: 'authenticated',
    });
    assert.is(payload.sub, userId);
    assert.is((await userOf(access_token)).status, 200);
    const { data, error } = await supabase.auth.getClaims();
    assert.is(error, null);
    assert.is(data?.claims.sub, userId);
  });
}

test('a standby key is published before it signs, a previous key afterwards, and a removed key never', async () => {
  const [first, second] = [await newKey('ES256', 'first'), await newKey('ES256', 'second')];
  app.configure({});
  const { supabase } = await app.signedUp();
  const ofSecret = await sessionOf(supabase);
  useKeys(first.current, second.other);
  assert.equal(
    (await jwks()).keys.map(({ kid }) => kid),
    ['first', 'second'],
  );
  const ofFirst = (await supabase.auth.refreshSession()).data.session?.access_token as string;
  useKeys(second.current, first.other);
  const ofSecond = (await supabase.auth.refreshSession()).data.session?.access_token as string;
  assert.is(decodeProtectedHeader(ofSecond).kid, 'second');
  for (const token of [ofSecret.access_token, ofFirst, ofSecond]) assert.is((await userOf(token)).status, 200);
  useKeys(second.current);
  assert.is((await userOf(ofFirst)).body.error_code, 'bad_jwt');
  assert.is((await userOf(ofSecond)).status, 200);
});

test('a token that claims another algorithm, key or time is rejected', async () => {
  const [key, rsa] = [await newKey('ES256', 'now'), await newKey('RS256', 'rsa')];
  useKeys(key.current, rsa.other);
  const { supabase, userId } = await app.signedUp();
  const { session_id } = decodeJwt((await sessionOf(supabase)).access_token);
  const claims = { sub: userId, role: 'authenticated', aud: 'authenticated', session_id };
  const sign = (
    payload: JWTPayload,
    by: Key['privateKey'] | Uint8Array,
    header: { alg: string; kid?: string },
    exp: number | string = '1h',
  ) => new SignJWT(payload).setProtectedHeader(header).setIssuedAt().setExpirationTime(exp).sign(by);
  const publicKey: KeyObject = createPublicKey({ key: key.current as never, format: 'jwk' });
  const pem = new TextEncoder().encode(publicKey.export({ type: 'spki', format: 'pem' }) as string);
  const x = new TextEncoder().encode(String(key.current.x));
  const stranger = await newKey('ES256', 'now');
  const cases: [string, string][] = [
    ['none', new UnsecuredJWT(claims).setExpirationTime('1h').encode()],
    ['HS256 by the public key as PEM', await sign(claims, pem, { alg: 'HS256', kid: 'now' })],
    ['HS256 by the public key as x', await sign(claims, x, { alg: 'HS256', kid: 'now' })],
    ['a key that is not ours under our kid', await sign(claims, stranger.privateKey, { alg: 'ES256', kid: 'now' })],
    ['the kid of the key of another algorithm', await sign(claims, key.privateKey, { alg: 'ES256', kid: 'rsa' })],
    ['no kid', await sign(claims, key.privateKey, { alg: 'ES256' })],
    ['a kid that is a path', await sign(claims, key.privateKey, { alg: 'ES256', kid: '../../dev/null' })],
    ['a kid that all objects have', await sign(claims, key.privateKey, { alg: 'ES256', kid: '__proto__' })],
    ['expired', await sign(claims, key.privateKey, { alg: 'ES256', kid: 'now' }, Math.floor(Date.now() / 1000) - 60)],
    [
      'of the future',
      await sign(
        { ...claims, nbf: Math.floor(Date.now() / 1000) + 3600 },
        key.privateKey,
        { alg: 'ES256', kid: 'now' },
        '2h',
      ),
    ],
  ];
  for (const [what, token] of cases) {
    const { status, body } = await userOf(token);
    assert.equal([status, body.error_code], [403, 'bad_jwt'], what);
  }
  assert.is((await userOf(await sign(claims, key.privateKey, { alg: 'ES256', kid: 'now' }))).status, 200);
});

for (const [what, make] of [
  ['are no JSON', async () => '{'],
  ['are on another curve', async () => JSON.stringify([{ kty: 'EC', crv: 'P-384', kid: 'x', x: 'a', y: 'b' }])],
  ['have no kid', async () => JSON.stringify([{ ...(await newKey('ES256', 'x')).current, kid: undefined }])],
  [
    'sign twice',
    async () => JSON.stringify([(await newKey('ES256', 'a')).current, (await newKey('ES256', 'b')).current]),
  ],
] as const) {
  test(`signing keys that ${what} are reported as a problem, and tokens are signed with the JWT secret`, async () => {
    app.configure({ GOTRUE_JWT_KEYS: await make() });
    const { body } = await app.ask('GET', '/settings', { token: app.tenant.serviceRoleKey });
    const problems = body.config_problems as { key: string; message: string }[];
    assert.is(problems[0]?.key, 'GOTRUE_JWT_KEYS');
    assert.not.match(JSON.stringify(problems), /"d"/);
    const { supabase } = await app.signedUp();
    assert.is(decodeProtectedHeader((await sessionOf(supabase)).access_token).alg, 'HS256');
  });
}

test('the OpenID document has the issuer of the project’s tokens, and the URL of its keys', async () => {
  const { body } = await app.ask('GET', '/.well-known/openid-configuration', { headers: { apikey: '' } });
  assert.is(body.issuer, `${app.url}/auth/v1`);
  assert.is(body.jwks_uri, `${app.url}/auth/v1/.well-known/jwks.json`);
});

test.run();
