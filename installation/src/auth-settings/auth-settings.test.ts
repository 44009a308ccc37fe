import { readFile } from 'node:fs/promises';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readAuthConfig, readAuthSettings } from './index.js';

const problemsOf = (values: Record<string, string>) =>
  Object.fromEntries(readAuthConfig(values).problems.map(({ key, message }) => [key, message]));
const settingOf = (key: string, values: Record<string, string> = {}) =>
  readAuthSettings(values).settings.find((setting) => setting.key === key);

test('docs/auth.md has each setting, and no other', async () => {
  const page = await readFile(new URL('../../../docs/auth.md', import.meta.url), 'utf8');
  const rows = [...page.matchAll(/^\| `(GOTRUE_[A-Z0-9_<>]+)` \|/gm)].map(([, name]) => name as string);
  const mails = ['CONFIRMATION', 'INVITE', 'RECOVERY', 'MAGIC_LINK', 'EMAIL_CHANGE', 'REAUTHENTICATION'];
  const documented = rows.flatMap((row) => mails.map((mail) => row.replace('<MAIL>', mail)));
  const known = readAuthSettings().settings.map(({ key }) => key);
  const others = known.filter((key) => !key.startsWith('GOTRUE_HOOK_'));
  assert.equal([...new Set(documented)].sort(), others.sort());
});

test('a setting has its type and its value, and a secret is marked', () => {
  const values = {
    GOTRUE_DISABLE_SIGNUP: '1',
    GOTRUE_SMTP_PORT: ' 465 ',
    GOTRUE_SITE_URL: 'https://a.example',
    GOTRUE_SMTP_PASS: 'x',
  };
  assert.equal(settingOf('GOTRUE_DISABLE_SIGNUP', values), {
    key: 'GOTRUE_DISABLE_SIGNUP',
    type: 'boolean',
    isSecret: false,
    value: true,
  });
  assert.is(settingOf('GOTRUE_SMTP_PORT', values)?.value, 465);
  assert.is(settingOf('GOTRUE_SITE_URL', values)?.value, 'https://a.example');
  assert.is(settingOf('GOTRUE_SMTP_PORT')?.value, undefined);
  const secrets = readAuthSettings({ GOTRUE_EXTERNAL_GOOGLE_URL: 'https://a.example' })
    .settings.filter(({ isSecret }) => isSecret)
    .map(({ key }) => key.replace(/HOOK_.*_SECRETS/, 'HOOK_SECRETS'));
  assert.equal([...new Set(secrets)].sort(), [
    'GOTRUE_EXTERNAL_GOOGLE_SECRET',
    'GOTRUE_HOOK_SECRETS',
    'GOTRUE_JWT_KEYS',
    'GOTRUE_SMS_TEST_OTP',
    'GOTRUE_SMTP_PASS',
  ]);
});

test('a provider has settings once one of them is set, and needs a client id only when it is enabled', () => {
  assert.is(settingOf('GOTRUE_EXTERNAL_GOOGLE_SECRET'), undefined);
  assert.equal(problemsOf({ GOTRUE_EXTERNAL_GOOGLE_CLIENT_ID: 'x' }), {});
  const enabled = { GOTRUE_EXTERNAL_GOOGLE_ENABLED: 'true' };
  assert.equal(Object.keys(problemsOf(enabled)), ['GOTRUE_EXTERNAL_GOOGLE_CLIENT_ID']);
  assert.ok(settingOf('GOTRUE_EXTERNAL_GOOGLE_SECRET', enabled));
  for (const key of ['EXTERNAL_ENABLED', 'EXTERNAL__URL', 'EXTERNAL_EMAIL_URL', 'EXTERNAL_1A_URL', 'EXTERNAL_a_URL'])
    assert.match(problemsOf({ [`GOTRUE_${key}`]: 'https://a.example' })[`GOTRUE_${key}`] ?? '', 'no such setting', key);
});

test('control characters are rejected in settings of one line, except a newline at the end', () => {
  for (const key of ['SMTP_HOST', 'SMTP_PASS', 'SMTP_SENDER_NAME', 'SMTP_ADMIN_EMAIL', 'MAILER_SUBJECTS_INVITE'])
    for (const value of ['a\r\nBcc: b', 'a\n\n', 'a\0', '\u001b[2J'])
      assert.ok(problemsOf({ [`GOTRUE_${key}`]: value })[`GOTRUE_${key}`], `${key} ${JSON.stringify(value)}`);
  assert.is(readAuthConfig({ GOTRUE_SMTP_PASS: 'word\n' }).config.mail.password, 'word');
  assert.equal(problemsOf({ GOTRUE_MAILER_TEMPLATES_INVITE: '<p>\n</p>' }), {});
  assert.equal(Object.keys(problemsOf({ GOTRUE_MAILER_TEMPLATES_INVITE: '<p>\0</p>' })), [
    'GOTRUE_MAILER_TEMPLATES_INVITE',
  ]);
});

test('a problem never contains the value', () => {
  const value = 'hunter2 hunter2';
  const keys = readAuthSettings({ GOTRUE_EXTERNAL_X_URL: value }).settings.map(({ key }) => key);
  const problems = problemsOf(Object.fromEntries(keys.map((key) => [key, value])));
  assert.ok(Object.keys(problems).length > 30);
  assert.not.match(JSON.stringify(problems), 'hunter2');
});

test.run();
