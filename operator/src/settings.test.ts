import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { readSettings } from './settings.js';

const good = {
  KUBECONFIG: '/home/me/.kube/config',
  SLIPWAY_PUBLIC_URL: 'http://localhost:4000',
  SLIPWAY_LISTEN: '/run/operator.sock',
  SLIPWAY_ADMIN_DATABASE_URL: 'postgresql://slipway:s3cret@/postgres?host=/run/postgres&port=4002',
  SLIPWAY_DATABASE_PUBLIC_ADDRESS: '127.0.0.1:4002',
  SLIPWAY_DATAPLANE_URL: 'http://127.0.0.1:4000',
};

test('settings that are right are taken, with info as the level of logs', () => {
  const settings = readSettings(good);
  assert.is(settings.listen, '/run/operator.sock');
  assert.is(settings.logLevel, 'info');
});

// What is said of the public address is @slipway/crds' to test.
for (const name of Object.keys(good).filter((name) => !['KUBECONFIG', 'SLIPWAY_PUBLIC_URL'].includes(name))) {
  for (const value of ['', 'wrong s3cret']) {
    test(`${name} that is ${value === '' ? 'missing' : 'wrong'} is named, and what it held is not repeated`, () => {
      try {
        readSettings({ ...good, [name]: value });
        assert.unreachable();
      } catch (error) {
        assert.match((error as Error).message, new RegExp(`^${name} is not `));
        assert.not.match((error as Error).message, /s3cret/);
      }
    });
  }
}

test('on a cluster the site says all that one machine is told by variables', () => {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'site-')), 'site.yaml');
  writeFileSync(file, 'publicUrl: https://slipway.example.com\n');
  const settings = readSettings({
    SLIPWAY_SITE: file,
    SLIPWAY_LISTEN: '0.0.0.0:8080',
    SLIPWAY_DATAPLANE_URL: 'http://slipway-dataplane',
  });
  assert.is('site' in settings && settings.site.publicUrl, 'https://slipway.example.com');
  assert.not('adminDatabaseUrl' in settings);
});

test('a level of logs that does not exist is refused with the list of those that do', () => {
  assert.throws(() => readSettings({ ...good, SLIPWAY_LOG_LEVEL: 'loud' }), /SLIPWAY_LOG_LEVEL is one of fatal, error/);
});

test.run();
