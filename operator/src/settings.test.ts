import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
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

test('readSettings accepts valid settings, with info as the default log level', () => {
  const settings = readSettings(good);
  assert.is(settings.listen, '/run/operator.sock');
  assert.is(settings.logLevel, 'info');
});

// The tests of @slipway/installation cover the public address.
for (const name of Object.keys(good).filter((name) => !['KUBECONFIG', 'SLIPWAY_PUBLIC_URL'].includes(name))) {
  for (const value of ['', 'wrong s3cret']) {
    test(`the error for a ${value === '' ? 'missing' : 'wrong'} ${name} names the variable, not its value`, () => {
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

test('the site settings on a cluster replace the variables of one machine', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'site-'));
  const file = path.join(folder, 'site.yaml');
  writeFileSync(file, 'publicUrl: https://slipway.example.com\n');
  const settings = readSettings({
    SLIPWAY_SITE: file,
    SLIPWAY_LISTEN: '0.0.0.0:8080',
    SLIPWAY_DATAPLANE_URL: 'http://slipway-dataplane',
  });
  rmSync(folder, { recursive: true });
  assert.is('site' in settings && settings.site.publicUrl, 'https://slipway.example.com');
  assert.not('adminDatabaseUrl' in settings);
});

test('an unknown log level is rejected with the list of levels', () => {
  assert.throws(
    () => readSettings({ ...good, SLIPWAY_LOG_LEVEL: 'loud' }),
    /SLIPWAY_LOG_LEVEL is "loud": it must be one of fatal, error/,
  );
});

test.run();
