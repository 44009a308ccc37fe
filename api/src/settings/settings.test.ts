import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { settingsFromEnvironment } from './settings.js';

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-api-settings-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

function file(name: string, content: string): string {
  const at = path.join(folder, name);
  writeFileSync(at, content);
  return at;
}

/** Environment of an API pod: its Secret's keys as files, and the site's settings. */
const POD = {
  SLIPWAY_LISTEN: '0.0.0.0:8080',
  SLIPWAY_SITE: file('site.yaml', 'publicUrl: https://slipway.example.com\n'),
  SLIPWAY_DATABASE_URL: 'postgresql://slipway_api:canary@slipway-postgres:5432/slipway',
  SLIPWAY_JWT_SECRET: file('jwt-secret', 'a secret of 32 bytes, or of a few more\n'),
  SLIPWAY_ENCRYPTION_KEYS: file(
    'encryption-keys.json',
    JSON.stringify({ current: 'a', keys: { a: Buffer.alloc(32, 1).toString('base64') } }),
  ),
};

test('the API in a pod starts with only its Secret, its database URL and the site’s settings', () => {
  const settings = settingsFromEnvironment(POD);
  assert.is(settings.publicUrl, 'https://slipway.example.com');
  assert.is(settings.dataplaneUrl, 'http://slipway-dataplane.slipway-system.svc');
  assert.is(settings.jwtSecret, 'a secret of 32 bytes, or of a few more');
  assert.equal(
    [settings.kubeconfig, settings.metricsListen, settings.functionsSocket],
    [undefined, undefined, undefined],
  );
});

test('mail needs a sender and a file with the URL of a server, and no error quotes the file', () => {
  const set = (url: string, from?: string) => () =>
    settingsFromEnvironment({ ...POD, SLIPWAY_SMTP_URL: file('smtp', url), SLIPWAY_SMTP_FROM: from });
  assert.equal(set('smtp://mailer:canary@mail.example.com:587\n', 'Slipway <noreply@example.com>')().mail, {
    url: 'smtp://mailer:canary@mail.example.com:587',
    from: 'Slipway <noreply@example.com>',
  });
  assert.is(settingsFromEnvironment(POD).mail, undefined);
  for (const [url, from] of [
    ['http://canary@mail.example.com', 'noreply@example.com'],
    ['canary', 'noreply@example.com'],
    ['smtp://mail.example.com', undefined],
    ['smtp://mail.example.com', 'canary\r\nBcc: all@example.com'],
  ] as const) {
    assert.throws(
      set(url, from),
      (error: Error) => /^SLIPWAY_SMTP_/.test(error.message) && !/canary/.test(error.message),
    );
  }
});

test('on one machine the default URL of the data plane is the public URL', () => {
  const { SLIPWAY_SITE: _, ...others } = POD;
  const machine = { ...others, SLIPWAY_PUBLIC_URL: 'http://localhost:4000/' };
  assert.is(settingsFromEnvironment(machine).dataplaneUrl, 'http://localhost:4000');
  const named = { ...machine, SLIPWAY_DATAPLANE_URL: 'http://127.0.0.1:4000/' };
  assert.is(settingsFromEnvironment(named).dataplaneUrl, 'http://127.0.0.1:4000');
});

test('the tokens for pods of functions and of sites are read from their files at each use', () => {
  const SLIPWAY_FUNCTIONS_TOKEN = file('token', 'the first\n');
  const SLIPWAY_HOSTING_TOKEN = file('hosting-token', 'of sites\n');
  const functions = { SLIPWAY_FUNCTIONS_URLS: 'http://functions-0:8080', SLIPWAY_FUNCTIONS_TOKEN };
  const hosting = { SLIPWAY_HOSTING_URLS: 'http://hosting-0:8080', SLIPWAY_HOSTING_TOKEN };
  const { functionsPods, hostingPods } = settingsFromEnvironment({ ...POD, ...functions, ...hosting });
  assert.equal([functionsPods?.token(), hostingPods?.token()], ['the first', 'of sites']);
  writeFileSync(SLIPWAY_FUNCTIONS_TOKEN, 'the second\n');
  assert.equal([functionsPods?.token(), hostingPods?.token()], ['the second', 'of sites']);
});

test('entries of forms are accepted at a socket, or at a port with the token of the pods of sites', () => {
  const SLIPWAY_FORMS_LISTEN = '0.0.0.0:8081';
  const SLIPWAY_FORMS_SOCKET = '/run/slipway/forms.sock';
  const SLIPWAY_HOSTING_TOKEN = file('forms-token', `${'first'.repeat(8)}\n`);
  assert.is(settingsFromEnvironment(POD).forms, undefined);
  assert.equal(settingsFromEnvironment({ ...POD, SLIPWAY_FORMS_SOCKET }).forms, { socket: SLIPWAY_FORMS_SOCKET });
  const { forms } = settingsFromEnvironment({ ...POD, SLIPWAY_FORMS_LISTEN, SLIPWAY_HOSTING_TOKEN });
  assert.ok(forms && 'token' in forms);
  assert.equal([forms.listen, forms.token()], [SLIPWAY_FORMS_LISTEN, 'first'.repeat(8)]);
  writeFileSync(SLIPWAY_HOSTING_TOKEN, 'second'.repeat(8));
  assert.is(forms.token(), 'second'.repeat(8));
  writeFileSync(SLIPWAY_HOSTING_TOKEN, 'short');
  assert.throws(forms.token, /SLIPWAY_HOSTING_TOKEN: the file must hold at least 32 characters/);
  const both = { SLIPWAY_FORMS_LISTEN, SLIPWAY_FORMS_SOCKET, SLIPWAY_HOSTING_TOKEN };
  for (const [environment, message] of [
    [{ SLIPWAY_FORMS_LISTEN }, 'SLIPWAY_HOSTING_TOKEN is not set'],
    [{ SLIPWAY_FORMS_LISTEN, SLIPWAY_HOSTING_TOKEN }, 'SLIPWAY_HOSTING_TOKEN: the file must hold at least 32'],
    [{ SLIPWAY_FORMS_LISTEN: '8081' }, 'SLIPWAY_FORMS_LISTEN is not valid. Set it to a value such as 0.0.0.0:8081'],
    [both, 'SLIPWAY_FORMS_SOCKET and SLIPWAY_FORMS_LISTEN are both set'],
  ] as const) {
    assert.throws(() => settingsFromEnvironment({ ...POD, ...environment }), new RegExp(message));
  }
});

for (const [variable, value] of [
  ['SLIPWAY_LISTEN', ''],
  ['SLIPWAY_DATABASE_URL', ''],
  ['SLIPWAY_PUBLIC_URL', 'https://slipway.example.com'],
  ['SLIPWAY_JWT_SECRET', '/nonexistent'],
  ['SLIPWAY_ENCRYPTION_KEYS', POD.SLIPWAY_JWT_SECRET],
  ['SLIPWAY_METRICS_LISTEN', '9090'],
  ['SLIPWAY_LOG_LEVEL', 'loud'],
] as const) {
  test(`${variable}=${path.basename(value)} is rejected with its name, and the error has no secret`, () => {
    assert.throws(
      () => settingsFromEnvironment({ ...POD, [variable]: value }),
      ({ message }: Error) => message.startsWith(variable) && !/canary|a secret of/.test(message),
    );
  });
}

test.run();
