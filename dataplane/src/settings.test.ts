import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readSettings } from './settings.js';

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-settings-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));
const site = path.join(folder, 'site.yaml');
writeFileSync(site, 'publicUrl: https://slipway.example.com\n');

test('the data plane on a cluster requires only a site and an address to listen at', () => {
  const settings = readSettings({ SLIPWAY_SITE: site, SLIPWAY_LISTEN: '0.0.0.0:8080' });
  assert.is(settings.installation.publicUrl, 'https://slipway.example.com');
  assert.ok(settings.installation.site);
  assert.equal([settings.apiSocket, settings.kubeconfig, settings.metricsListen], [undefined, undefined, undefined]);
});

test('the setting with the pods of realtime is a list', () => {
  const SLIPWAY_REALTIME_URLS = 'http://realtime-0:8080, http://realtime-1:8080';
  const { pods } = readSettings({ SLIPWAY_SITE: site, SLIPWAY_LISTEN: '0.0.0.0:8080', SLIPWAY_REALTIME_URLS });
  const realtime = ['http://realtime-0:8080', 'http://realtime-1:8080'];
  assert.equal(pods, { realtime, storage: [], functions: [], hosting: [] });
});

test('the token of functions is read from its file at each use', () => {
  const file = path.join(folder, 'token');
  writeFileSync(file, `${'first '.repeat(6)}\n`);
  const { functions } = readSettings({
    SLIPWAY_SITE: site,
    SLIPWAY_LISTEN: '0.0.0.0:8080',
    SLIPWAY_FUNCTIONS_DIR: folder,
    SLIPWAY_FUNCTIONS_CONTROL: '0.0.0.0:8081',
    SLIPWAY_FUNCTIONS_TOKEN: file,
    SLIPWAY_DATAPLANE_URL: 'http://slipway-dataplane',
  });
  const control = functions?.control;
  assert.ok(control && 'token' in control);
  const token = () => control.token();
  assert.match(token(), /^first .* first$/);
  writeFileSync(file, 'second '.repeat(6));
  assert.match(token(), /^second /);
});

test('the store of sites needs a folder of sites, a folder for logs, and a token of 32 characters', () => {
  const SLIPWAY_HOSTING_TOKEN = path.join(folder, 'hosting-token');
  writeFileSync(SLIPWAY_HOSTING_TOKEN, 'first '.repeat(6));
  const environment = {
    SLIPWAY_SITE: site,
    SLIPWAY_LISTEN: '0.0.0.0:8080',
    SLIPWAY_HOSTING_STORE: '0.0.0.0:8081',
    SLIPWAY_HOSTING_TOKEN,
    SLIPWAY_SITES_DIR: '/data/sites',
    SLIPWAY_BUILDS_DIR: '/data/builds',
  };
  const { siteStore } = readSettings(environment);
  assert.equal([siteStore?.listen, siteStore?.logs], ['0.0.0.0:8081', '/data/builds/logs']);
  writeFileSync(SLIPWAY_HOSTING_TOKEN, 'short');
  assert.throws(() => siteStore?.token(), /SLIPWAY_HOSTING_TOKEN: the file must hold at least 32 characters/);
  for (const variable of ['SLIPWAY_SITES_DIR', 'SLIPWAY_BUILDS_DIR'])
    assert.throws(() => readSettings({ ...environment, [variable]: '' }), new RegExp(`${variable} is not set`));
});

test('logs of projects are at a socket with a folder, or at a port with a token and in memory', () => {
  const base = { SLIPWAY_SITE: site, SLIPWAY_LISTEN: '0.0.0.0:8080' };
  const SLIPWAY_PROJECT_LOGS_TOKEN = path.join(folder, 'logs-token');
  writeFileSync(SLIPWAY_PROJECT_LOGS_TOKEN, 'first '.repeat(6));
  const port = { ...base, SLIPWAY_PROJECT_LOGS_LISTEN: '0.0.0.0:8081', SLIPWAY_PROJECT_LOGS_TOKEN };
  const { projectLogs } = readSettings(port);
  const { control, folder: logs } = projectLogs ?? {};
  assert.ok(control && 'token' in control);
  assert.equal([control.listen, control.token(), logs], ['0.0.0.0:8081', 'first '.repeat(6).trim(), undefined]);
  writeFileSync(SLIPWAY_PROJECT_LOGS_TOKEN, 'short');
  assert.throws(() => readSettings(port), /SLIPWAY_PROJECT_LOGS_TOKEN: the file must hold at least 32 characters/);
  const socket = { ...base, SLIPWAY_PROJECT_LOGS_SOCKET: '/run/logs.sock' };
  assert.throws(() => readSettings(socket), /SLIPWAY_PROJECT_LOGS_DIR is not set/);
  assert.equal(readSettings({ ...socket, SLIPWAY_PROJECT_LOGS_DIR: '/var/logs' }).projectLogs, {
    folder: '/var/logs',
    control: { socket: '/run/logs.sock' },
  });
  assert.is(readSettings(base).projectLogs, undefined);
});

test('entries of forms go to a socket, or to a URL with the token of the pods of sites', () => {
  const read = (environment: object) =>
    readSettings({ SLIPWAY_SITE: site, SLIPWAY_LISTEN: '0.0.0.0:8080', ...environment });
  const SLIPWAY_FORMS_URL = 'http://slipway-api-forms:8081';
  const SLIPWAY_FORMS_SOCKET = '/run/slipway/forms.sock';
  const SLIPWAY_HOSTING_TOKEN = path.join(folder, 'forms-token');
  writeFileSync(SLIPWAY_HOSTING_TOKEN, `${'first'.repeat(8)}\n`);
  assert.is(read({}).forms, undefined);
  assert.equal(read({ SLIPWAY_FORMS_SOCKET }).forms, { socket: SLIPWAY_FORMS_SOCKET });
  const { forms } = read({ SLIPWAY_FORMS_URL, SLIPWAY_HOSTING_TOKEN });
  assert.ok(forms && 'token' in forms);
  assert.equal([forms.origin, forms.token()], [SLIPWAY_FORMS_URL, 'first'.repeat(8)]);
  writeFileSync(SLIPWAY_HOSTING_TOKEN, 'second'.repeat(8));
  assert.is(forms.token(), 'second'.repeat(8));
  const both = { SLIPWAY_FORMS_URL, SLIPWAY_FORMS_SOCKET, SLIPWAY_HOSTING_TOKEN };
  for (const [environment, message] of [
    [{ SLIPWAY_FORMS_URL }, 'SLIPWAY_HOSTING_TOKEN is not set'],
    [{ SLIPWAY_FORMS_URL: 'https://api:8081' }, 'SLIPWAY_FORMS_URL is not valid'],
    [{ SLIPWAY_FORMS_URL: 'http://api:99999', SLIPWAY_HOSTING_TOKEN }, 'SLIPWAY_FORMS_URL is no URL'],
    [both, 'SLIPWAY_FORMS_SOCKET and SLIPWAY_FORMS_URL are both set'],
  ] as const) {
    assert.throws(() => read(environment), new RegExp(message));
  }
});

for (const [variable, value] of [
  ['SLIPWAY_LISTEN', '8080'],
  ['SLIPWAY_PROJECT_LOGS_LISTEN', '8081'],
  ['SLIPWAY_API_SOCKET', 'api.sock'],
  ['SLIPWAY_METRICS_LISTEN', '9090'],
  ['SLIPWAY_SITES_DIR', 'sites'],
  ['SLIPWAY_REALTIME_URLS', 'http://realtime-0:8080,realtime-1:8080'],
  ['SLIPWAY_STORAGE_URLS', 'storage-0:8080'],
  ['SLIPWAY_PUBLIC_URL', 'https://other.example.com'],
] as const) {
  test(`${variable}=${value} is rejected with its name`, () => {
    const environment = { SLIPWAY_SITE: site, SLIPWAY_LISTEN: '0.0.0.0:8080', [variable]: value };
    assert.throws(
      () => readSettings(environment),
      ({ message }: Error) => message.startsWith(`${variable} is `),
    );
  });
}

test.run();
