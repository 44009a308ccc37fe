import { readFileSync } from 'node:fs';
import { SECRETS } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { authEnvironment, type ProjectSecrets, restEnvironment } from './environment.js';
import { keyIdOf } from './jwt-keys.js';

const URL_OF_IT = 'https://shop.example.com';
const current = 'current-secret-of-at-least-32-characters';
const next = 'the-next-secret-of-at-least-32-characters';
const secrets: ProjectSecrets = {
  keys: { [SECRETS.keys.jwtSecret]: current, [SECRETS.keys.nextJwtSecret]: next },
  database: {
    [SECRETS.database.host]: 'shared-eu-central.slipway-data.svc',
    [SECRETS.database.port]: '5432',
    [SECRETS.database.database]: 'p-shop',
    [SECRETS.database.authAdminPassword]: 'p@ss/word',
    [SECRETS.database.authenticatorPassword]: 'of-rest',
  },
  authConfig: {},
};
const auth = (authConfig: Record<string, string> = {}) =>
  authEnvironment('shop', URL_OF_IT, { ...secrets, authConfig }, 1);
const rest = (authConfig: Record<string, string> = {}) =>
  restEnvironment('shop', URL_OF_IT, { ...secrets, authConfig }, 1);

test('a Deployment contains no secret', () => {
  const shown = JSON.stringify([auth().open, rest().open]);
  for (const secret of [current, next, 'p@ss', 'of-rest', 'postgres://']) assert.not(shown.includes(secret), secret);
});

test('each service logs in as its own role, with special characters of the password escaped', () => {
  assert.is(
    auth().secret.GOTRUE_DB_DATABASE_URL,
    'postgres://auth_admin.shop:p%40ss%2Fword@shared-eu-central.slipway-data.svc:5432/p-shop?search_path=auth',
  );
  assert.match(rest().secret.PGRST_DB_URI as string, /^postgres:\/\/authenticator\.shop:of-rest@/);
});

test('the variables let auth sign with the current secret and accept the next, and rest accept both', () => {
  const keys = JSON.parse(auth().secret.GOTRUE_JWT_KEYS as string);
  assert.equal(
    keys.map(({ kid, key_ops, k }: { kid: string; key_ops: string[]; k: string }) => [kid, key_ops, k]),
    [
      [keyIdOf(current), ['sign', 'verify'], Buffer.from(current).toString('base64url')],
      [keyIdOf(next), ['verify'], Buffer.from(next).toString('base64url')],
    ],
  );
  const set = JSON.parse(rest().secret.PGRST_JWT_SECRET as string);
  assert.equal(
    set.keys.map(({ kid }: { kid: string }) => kid),
    [keyIdOf(current), keyIdOf(next)],
  );
});

test('the owner’s own signing key signs tokens, and rest gets only its public part', () => {
  const own = { kty: 'EC', crv: 'P-256', kid: 'own', x: 'x', y: 'y', d: 'private', key_ops: ['sign', 'verify'] };
  const config = { GOTRUE_JWT_KEYS: JSON.stringify([own]) };
  const keys = JSON.parse(auth(config).secret.GOTRUE_JWT_KEYS as string);
  const signing = keys.filter(({ key_ops }: { key_ops: string[] }) => key_ops.includes('sign'));
  assert.equal(
    signing.map(({ kid }: { kid: string }) => kid),
    ['own'],
  );
  assert.not.match(rest(config).secret.PGRST_JWT_SECRET as string, /private/);
  assert.match(rest(config).secret.PGRST_JWT_SECRET as string, /"kid":"own"/);
});

test('the owner’s settings override only defaults, and only settings of auth are passed on', () => {
  const config = {
    GOTRUE_SITE_URL: 'https://app.example.com',
    GOTRUE_DB_MAX_POOL_SIZE: '2',
    GOTRUE_JWT_SECRET: 'mine',
    GOTRUE_API_PORT: '1',
    GOTRUE_DB_DATABASE_URL: 'postgres://elsewhere',
    NODE_OPTIONS: '--import=data:text/javascript,',
    PATH: '/tmp',
  };
  const { open, secret } = auth(config);
  assert.is(secret.GOTRUE_SITE_URL, 'https://app.example.com');
  assert.is(secret.GOTRUE_DB_MAX_POOL_SIZE, '2');
  assert.is(secret.GOTRUE_JWT_SECRET, current);
  assert.is(open.GOTRUE_API_PORT, '9999');
  assert.not('GOTRUE_API_PORT' in secret);
  assert.match(secret.GOTRUE_DB_DATABASE_URL as string, /shared-eu-central/);
  assert.not('NODE_OPTIONS' in secret || 'PATH' in secret);
});

test('addresses of users are confirmed at once only when no mail can be sent', () => {
  const confirmed = (config: Record<string, string>) => auth(config).secret.GOTRUE_MAILER_AUTOCONFIRM;
  assert.is(confirmed({}), 'true');
  assert.is(confirmed({ GOTRUE_SMTP_HOST: 'smtp.example.com' }), 'false');
  assert.is(confirmed({ GOTRUE_HOOK_SEND_EMAIL_ENABLED: 'true' }), 'false');
  assert.is(confirmed({ GOTRUE_SMTP_HOST: 'smtp.example.com', GOTRUE_MAILER_AUTOCONFIRM: 'true' }), 'true');
});

test('docs/cluster-services.md has a row for each variable and no other', () => {
  const text = readFileSync(new URL('../../../../../docs/cluster-services.md', import.meta.url), 'utf8');
  const rows = text.split('\n').filter((line) => line.startsWith('| `'));
  const named = rows.flatMap((row) => {
    const names = [...(row.split('|')[1] as string).matchAll(/`([A-Z_]+)`/g)].map(([, name]) => name as string);
    return names.map((name) => (name.startsWith('_') ? `GOTRUE_MAILER_URLPATHS${name}` : name));
  });
  const given = [auth(), rest()].flatMap(({ open, secret }) => [...Object.keys(open), ...Object.keys(secret)]);
  assert.equal(named.sort(), given.sort());
});

test.run();
