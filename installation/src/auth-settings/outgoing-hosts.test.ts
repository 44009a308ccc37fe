import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { outgoingHosts } from './index.js';

const SECRETS = `v1,whsec_${Buffer.alloc(32).toString('base64')}`;
const hook = (name: string, uri: string) => ({
  [`GOTRUE_HOOK_${name}_ENABLED`]: 'true',
  [`GOTRUE_HOOK_${name}_URI`]: uri,
  [`GOTRUE_HOOK_${name}_SECRETS`]: SECRETS,
});
const provider = (name: string, url?: string) => ({
  [`GOTRUE_EXTERNAL_${name}_ENABLED`]: 'true',
  [`GOTRUE_EXTERNAL_${name}_CLIENT_ID`]: 'app',
  ...(url !== undefined && { [`GOTRUE_EXTERNAL_${name}_URL`]: url }),
});
const places = (values: Record<string, string>) =>
  outgoingHosts(values).map(({ setting, host, port }) => [setting, host, port]);

test('the mail server, HTTP hooks and providers are listed with host and port', () => {
  const values = {
    GOTRUE_SMTP_HOST: 'Mail.Example.com',
    ...hook('BEFORE_USER_CREATED', 'http://2130706433:8080/path?token=hidden'),
    ...hook('SEND_SMS', 'https://hooks.example.com/sms'),
    ...provider('KEYCLOAK', 'https://user:hidden@[FD00::1]:8443/realms/hidden'),
    ...provider('GITLAB', 'http://localhost/'),
  };
  assert.equal(places(values), [
    ['GOTRUE_SMTP_HOST', 'mail.example.com', 587],
    ['GOTRUE_HOOK_SEND_SMS_URI', 'hooks.example.com', 443],
    ['GOTRUE_HOOK_BEFORE_USER_CREATED_URI', '127.0.0.1', 8080],
    ['GOTRUE_EXTERNAL_KEYCLOAK_URL', 'fd00::1', 8443],
    ['GOTRUE_EXTERNAL_GITLAB_URL', 'localhost', 80],
  ]);
  assert.not.match(JSON.stringify(outgoingHosts(values)), 'hidden');
});

test('database functions, well-known providers, and settings without effect are left out', () => {
  assert.equal(places({}), []);
  assert.equal(places(hook('SEND_EMAIL', 'pg-functions://postgres/public/send')), []);
  assert.equal(places({ ...provider('GITHUB'), ...provider('GOOGLE', '') }), []);
  assert.equal(places({ ...hook('SEND_SMS', 'https://a.example'), GOTRUE_HOOK_SEND_SMS_ENABLED: 'false' }), []);
  assert.equal(places({ ...hook('SEND_SMS', 'https://a.example'), GOTRUE_HOOK_SEND_SMS_SECRETS: 'wrong' }), []);
  const byHook = { GOTRUE_SMTP_HOST: '127.0.0.1', ...hook('SEND_EMAIL', 'https://a.example') };
  assert.equal(places(byHook), [['GOTRUE_HOOK_SEND_EMAIL_URI', 'a.example', 443]]);
});

test('a mail server is listed by its address in any form, and left out if its name cannot be printed', () => {
  const host = (value: string) => outgoingHosts({ GOTRUE_SMTP_HOST: value }).map((each) => each.host)[0];
  for (const name of ['127.0.0.1', '2130706433', '::ffff:127.0.0.1', '0x7f.1', 'münchen.example', 'my_mail'])
    assert.is(host(name), name);
  assert.is(host('[::1]\n'), '::1');
  for (const name of ['user:secret@mail', 'mail/path', 'a b', '\u202email', 'a\tb', 'x'.repeat(254), ' '])
    assert.is(host(name), undefined, name);
  assert.equal(outgoingHosts({ GOTRUE_SMTP_HOST: 'mail', GOTRUE_SMTP_PORT: '0' })[0]?.port, 587);
});

test.run();
