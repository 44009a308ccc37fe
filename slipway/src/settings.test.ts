import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { readAllowedHosts } from '@slipway/installation';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { allowedHostsOf } from './programs.js';
import { readSettings, SETTINGS_HELP, unknownSettings } from './settings.js';

test('the defaults are loopback, ports from 4000 on, and the folder .slipway', () => {
  assert.equal(readSettings({}, '/repo'), {
    home: '/repo/.slipway',
    host: '127.0.0.1',
    kubernetesHost: '127.0.0.1',
    postgresHost: '127.0.0.1',
    ports: { people: 4000, kubernetes: 4001, postgres: 4002 },
    tls: undefined,
    publicUrl: 'http://localhost:4000',
    localOnly: true,
    registration: 'open',
    passedOn: {},
    authorities: undefined,
    logLevel: 'info',
  });
});

test('the help of the settings has one default for each setting, all in one column', () => {
  const entries = SETTINGS_HELP.split(/^(?= {2}SLIPWAY_)/m).slice(1);
  assert.ok(entries.length > 20, `${entries.length} settings`);
  const column = entries[0]?.indexOf('(.slipway)');
  for (const entry of entries) {
    const defaults = entry.split('\n').flatMap((line) => [...line.matchAll(/(?<= {2})\(/g)].map(({ index }) => index));
    assert.equal(defaults, [column], entry);
  }
});

test('a variable that is not a setting is unknown, unless a test or the start script sets it', () => {
  const environment = {
    SLIPWAY_PORT: '1',
    SLIPWAY_PROT: '1',
    SLIPWAY_TEST_LOG: '1',
    SLIPWAY_PREPARED_MS: '1',
    HOME: '/',
  };
  assert.equal(unknownSettings(environment), ['SLIPWAY_PROT']);
});

test('the public URL is derived from the listening address when it is not set', () => {
  const url = (environment: Record<string, string>) => readSettings(environment, '/').publicUrl;
  assert.is(url({ SLIPWAY_HOST: '192.168.1.5', SLIPWAY_PORT: '5000' }), 'http://192.168.1.5:5000');
  assert.is(url({ SLIPWAY_HOST: '0.0.0.0' }), 'http://127.0.0.1:4000');
  assert.is(url({ SLIPWAY_HOST: '::' }), 'http://[::1]:4000');
  assert.is(url({ SLIPWAY_PUBLIC_URL: 'https://backend.example.com/' }), 'https://backend.example.com');
});

for (const [what, environment] of [
  ['an address of the network', { SLIPWAY_HOST: '192.168.1.5' }],
  ['every address', { SLIPWAY_HOST: '0.0.0.0' }],
  ['every IPv6 address', { SLIPWAY_HOST: '::' }],
  ['Postgres on every address', { SLIPWAY_POSTGRES_HOST: '0.0.0.0' }],
  ['the Kubernetes API on every address', { SLIPWAY_KUBERNETES_HOST: '0.0.0.0' }],
  ['a trusted proxy', { SLIPWAY_TRUSTED_PROXIES: '127.0.0.1' }],
  ['another host name', { SLIPWAY_ALLOWED_HOSTS: 'backend.internal' }],
  ['a public URL elsewhere', { SLIPWAY_PUBLIC_URL: 'https://backend.example.com' }],
  ['a public URL that only begins like loopback', { SLIPWAY_PUBLIC_URL: 'http://127.0.0.1.example.com' }],
  ['a public URL that only ends like loopback', { SLIPWAY_PUBLIC_URL: 'http://notlocalhost' }],
] as [string, Record<string, string>][]) {
  test(`registration needs an invitation by default with ${what}`, () => {
    const settings = readSettings(environment, '/');
    assert.equal([settings.localOnly, settings.registration], [false, 'invite']);
    assert.is(readSettings({ ...environment, SLIPWAY_REGISTRATION: 'open' }, '/').registration, 'open');
  });
}

for (const SLIPWAY_PUBLIC_URL of ['http://[::1]:4000', 'http://slipway.localhost:4000', 'http://127.9.9.9:4000']) {
  test(`registration is open by default with the public URL ${SLIPWAY_PUBLIC_URL} on loopback`, () => {
    assert.is(readSettings({ SLIPWAY_PUBLIC_URL }, '/').registration, 'open');
    assert.is(readSettings({ SLIPWAY_PUBLIC_URL, SLIPWAY_REGISTRATION: 'closed' }, '/').registration, 'closed');
  });
}

test('the Kubernetes API and Postgres stay on loopback unless their own setting opens them', () => {
  const hosts = (environment: Record<string, string>) => {
    const { host, kubernetesHost, postgresHost } = readSettings(environment, '/');
    return [host, kubernetesHost, postgresHost];
  };
  assert.equal(hosts({ SLIPWAY_HOST: '0.0.0.0' }), ['0.0.0.0', '127.0.0.1', '127.0.0.1']);
  assert.equal(hosts({ SLIPWAY_HOST: '::1' }), ['::1', '::1', '::1']);
  const opened = { SLIPWAY_HOST: '0.0.0.0', SLIPWAY_POSTGRES_HOST: '0.0.0.0', SLIPWAY_KUBERNETES_HOST: '10.0.0.1' };
  assert.equal(hosts(opened), ['0.0.0.0', '10.0.0.1', '0.0.0.0']);
});

for (const [variable, value] of [
  ['SLIPWAY_ALLOWED_HOSTS', 'a.example:80'],
  ['SLIPWAY_CORS_ORIGINS', 'https://a.example/path'],
  ['SLIPWAY_CORS_ORIGINS', '*'],
  ['SLIPWAY_CORS_ORIGINS', 'null'],
  ['SLIPWAY_PROJECTS_DOMAIN', 'https://projects.example.net'],
  ['SLIPWAY_TRUSTED_PROXIES', '10.0.0.0/33'],
  ['SLIPWAY_TRUSTED_PROXIES', 'nginx'],
] as const) {
  test(`${variable} rejects ${value} by name, with an example`, () => {
    assert.throws(
      () => readSettings({ [variable]: value }, '/'),
      (error: Error) => error.message.startsWith(variable) && error.message.includes('such as'),
    );
  });
}

test('a public URL below the domain of projects is rejected with the fix', () => {
  const settings = { SLIPWAY_PUBLIC_URL: 'https://app.example.net', SLIPWAY_PROJECTS_DOMAIN: 'example.net' };
  assert.throws(
    () => readSettings(settings, '/'),
    (error: Error) => error.message.includes('such as projects.example.net'),
  );
});

for (const machine of ['box', 'Box.lan', 'my-host-', '_x', 'ho st', '']) {
  test(`the host names passed to programs are names that they accept if the machine is "${machine}"`, () => {
    assert.ok(readAllowedHosts(allowedHostsOf('backend.internal', machine)).includes('backend.internal'));
  });
}

test('mail domains may register only when mail is configured', () => {
  assert.throws(
    () => readSettings({ SLIPWAY_REGISTRATION: '@example.com' }, '/'),
    (error: Error) => /SLIPWAY_REGISTRATION names mail domains: set SLIPWAY_SMTP_URL/.test(error.message),
  );
});

for (const [variable, value] of [
  ['SLIPWAY_REGISTRATION', 'everyone'],
  ['SLIPWAY_REGISTRATION', 'example.com'],
  ['SLIPWAY_REGISTRATION', '@example.com,open'],
  ['SLIPWAY_PORT', 'http'],
  ['SLIPWAY_PORT', '0'],
  ['SLIPWAY_PORT', '65534'],
  ['SLIPWAY_HOST', 'everywhere'],
  ['SLIPWAY_KUBERNETES_HOST', 'everywhere'],
  ['SLIPWAY_POSTGRES_HOST', 'everywhere'],
  ['SLIPWAY_PUBLIC_URL', 'backend.example.com'],
  ['SLIPWAY_PUBLIC_URL', 'https://user:word@example.com'],
  ['SLIPWAY_PUBLIC_URL', 'https://example.com/base'],
  ['SLIPWAY_LOG_LEVEL', 'loud'],
  ['SLIPWAY_RATE_LIMIT', 'many'],
  ['SLIPWAY_API_RATE_LIMIT', 'many'],
  ['SLIPWAY_RATE_LIMIT', '-1'],
  ['SLIPWAY_RATE_LIMIT', '1.5'],
  ['SLIPWAY_STORAGE_DIR', 'files'],
  ['SLIPWAY_STORAGE_S3', '/nowhere/s3.json'],
  ['SLIPWAY_STORAGE_S3', '/'],
  ['SLIPWAY_SMTP_URL', '/nowhere/url'],
  ['SLIPWAY_SMTP_URL', '/etc/passwd'],
] as const) {
  test(`${variable}=${value} is rejected with its name and the allowed values`, () => {
    assert.throws(
      () => readSettings({ [variable]: value }, '/'),
      (error: Error) => error.message.startsWith(`${variable} is "${value}": it must be`),
    );
  });
}

test('the services setting is passed to programs unchanged, and rejected when it names no service', () => {
  const shared = (value: string) => readSettings({ SLIPWAY_SERVICES_SHARED: value }, '/').passedOn;
  assert.equal(shared('storage,functions'), { SLIPWAY_SERVICES_SHARED: 'storage,functions' });
  assert.throws(() => shared('disk'), /SLIPWAY_SERVICES_SHARED names "disk"/);
});

test('a request limit is passed to programs unchanged, and the bucket file as an absolute path', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-settings-'));
  try {
    writeFileSync(path.join(folder, 's3.json'), '{"bucket":"files"}');
    const set = { SLIPWAY_RATE_LIMIT: '0', SLIPWAY_STORAGE_S3: 's3.json' };
    assert.equal(readSettings(set, folder).passedOn, set);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('the error for a file that is not JSON names the file but not its content', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-settings-'));
  try {
    writeFileSync(path.join(folder, 's3.json'), 'secretAccessKey=canary');
    assert.throws(
      () => readSettings({ SLIPWAY_STORAGE_S3: 's3.json' }, folder),
      (error: Error) =>
        /^SLIPWAY_STORAGE_S3 is "s3.json".*no JSON/.test(error.message) && !/canary/.test(error.message),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.run();
