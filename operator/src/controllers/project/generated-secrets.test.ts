import { ANNOTATION_ADDRESS, DATA_NAMESPACE, LABEL_PROJECT, SECRETS } from '@slipway/installation';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { comparedSecrets } from '../../engines/kubernetes/compared-secrets.js';
import { isSettingsMap } from '../../engines/kubernetes/postgres-cluster/settings-map.js';
import { keepOfSecrets } from './generated-secrets.js';

const test = suite('the Secrets in memory');

const images = { pullSecrets: ['registry'] } as unknown as Parameters<typeof comparedSecrets>[0]['images'];
const keep = keepOfSecrets(comparedSecrets({ images }));
const secret = (name: string, namespace = 'p-shop') => ({
  metadata: {
    name,
    namespace,
    uid: 'one',
    resourceVersion: '7',
    labels: { [LABEL_PROJECT]: 'shop', note: 'x' },
    annotations: { [ANNOTATION_ADDRESS]: 'here', note: 'x'.repeat(1000) },
  },
  type: 'Opaque',
  data: { large: 'eA=='.repeat(1000) },
});

const read = [SECRETS.keys.name, SECRETS.database.name, SECRETS.auth.name];
const compared = ['auth-environment', 'rest-environment', 'postgres-superuser', 'registry'];
for (const name of [...read, ...compared]) {
  test(`the cache has the values of ${name}`, () => assert.equal(keep(secret(name)), secret(name)));
}

test('the cache has all Secrets in the namespace of shared Postgres clusters', () => {
  const shared = secret('shared-eu-central-superuser', DATA_NAMESPACE);
  assert.equal(keep(shared), shared);
});

const others = [SECRETS.env.name, SECRETS.git.name, SECRETS.jwt.name, SECRETS.notifications.name, 'made-by-somebody'];
for (const name of others) {
  test(`the cache has only the existence and owner of ${name}`, () => {
    const metadata = {
      name,
      namespace: 'p-shop',
      uid: 'one',
      resourceVersion: '7',
      labels: { [LABEL_PROJECT]: 'shop' },
    };
    assert.equal(keep(secret(name)), { metadata });
  });
}

test('the engine of one machine compares no Secret', () => {
  assert.is(keepOfSecrets(() => false)(secret('auth-environment')).data, undefined);
});

test('the cache has ConfigMaps with the settings of a Postgres, but no versions of functions', () => {
  assert.ok(isSettingsMap({ metadata: { name: 'postgres-settings', namespace: 'p-shop' } }));
  assert.ok(isSettingsMap({ metadata: { name: 'shared-eu-central-settings', namespace: DATA_NAMESPACE } }));
  assert.not(isSettingsMap({ metadata: { name: 'hello-v1', namespace: 'p-shop' } }));
});

test.run();
