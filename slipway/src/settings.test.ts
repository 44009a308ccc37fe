import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readSettings } from './settings.js';

test('with nothing set, everything is on loopback from port 4000 on, in .slipway', () => {
  assert.equal(readSettings({}, '/repo'), {
    home: '/repo/.slipway',
    host: '127.0.0.1',
    ports: { people: 4000, kubernetes: 4001, postgres: 4002 },
    publicUrl: 'http://localhost:4000',
    passedOn: {},
    logLevel: 'info',
  });
});

test('what people type follows from the address that is listened at, unless it is said', () => {
  const url = (environment: Record<string, string>) => readSettings(environment, '/').publicUrl;
  assert.is(url({ SLIPWAY_HOST: '192.168.1.5', SLIPWAY_PORT: '5000' }), 'http://192.168.1.5:5000');
  assert.is(url({ SLIPWAY_HOST: '0.0.0.0' }), 'http://127.0.0.1:4000');
  assert.is(url({ SLIPWAY_HOST: '::' }), 'http://[::1]:4000');
  assert.is(url({ SLIPWAY_PUBLIC_URL: 'https://backend.example.com/' }), 'https://backend.example.com');
});

for (const [variable, value] of [
  ['SLIPWAY_PORT', 'http'],
  ['SLIPWAY_PORT', '0'],
  ['SLIPWAY_PORT', '65534'],
  ['SLIPWAY_HOST', 'everywhere'],
  ['SLIPWAY_PUBLIC_URL', 'backend.example.com'],
  ['SLIPWAY_PUBLIC_URL', 'https://user:word@example.com'],
  ['SLIPWAY_LOG_LEVEL', 'loud'],
  ['SLIPWAY_RATE_LIMIT', 'many'],
  ['SLIPWAY_RATE_LIMIT', '-1'],
  ['SLIPWAY_RATE_LIMIT', '1.5'],
  ['SLIPWAY_STORAGE_DIR', 'files'],
  ['SLIPWAY_STORAGE_S3', '/nowhere/s3.json'],
  ['SLIPWAY_STORAGE_S3', '/'],
] as const) {
  test(`${variable}=${value} is refused by name, with what it may be`, () => {
    assert.throws(
      () => readSettings({ [variable]: value }, '/'),
      (error: Error) => error.message.startsWith(`${variable} is "${value}": it must be`),
    );
  });
}

test('what opens services to shared projects is handed on as it is, and a name that is no service refused', () => {
  const shared = (value: string) => readSettings({ SLIPWAY_SERVICES_SHARED: value }, '/').passedOn;
  assert.equal(shared('storage,functions'), { SLIPWAY_SERVICES_SHARED: 'storage,functions' });
  assert.throws(() => shared('disk'), /SLIPWAY_SERVICES_SHARED names "disk"/);
});

test('a limit of requests and the file of a bucket are handed on as they are, the file found from where one stands', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-settings-'));
  try {
    writeFileSync(path.join(folder, 's3.json'), '{"bucket":"files"}');
    const set = { SLIPWAY_RATE_LIMIT: '0', SLIPWAY_STORAGE_S3: 's3.json' };
    assert.equal(readSettings(set, folder).passedOn, set);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('of a file that is not JSON, its name is said and nothing that it holds', () => {
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
