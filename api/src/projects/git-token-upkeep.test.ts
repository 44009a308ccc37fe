/**
 * Tests the rotation of the encryption key while Git tokens are stored: after a start with the new key, only that key
 * is needed.
 */

import { LABEL_PROJECT, LABEL_RETAINED, namespaceOf, SECRETS } from '@slipway/installation';
import type { Secret } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, secretsOf, startTestApi } from '../testing.js';
import { Keyring } from './keyring.js';

const api = await startTestApi();
test.after(() => api.close());

const { name, token, deployKey } = SECRETS.git;
const keyOf = (fill: number) => Buffer.alloc(32, fill).toString('base64');
const placeOf = (ref: string) => `${ref}/${name}`;
const { client } = api.operator;

async function sealedOf(ref: string, key: string = token): Promise<string> {
  const { data = {} } = await client.get<Secret>(`${secretsOf(ref)}/${name}`);
  return Buffer.from(data[key] ?? '', 'base64').toString();
}

test('stored tokens are encrypted with the current key, even if one of them can’t be decrypted', async () => {
  const { token: session } = await register(api);
  const call = (method: string, path: string, json: unknown) => api.call(method, path, { token: session, json });
  const refs: string[] = [];
  for (const project of ['first', 'damaged', 'last']) {
    const { id, ref } = (await call('POST', '/projects', { name: project })).body;
    await call('PATCH', `/projects/${id}`, { github_token: `ghp_${project}` });
    refs.push(ref);
  }
  const [first, damaged, last] = refs as [string, string, string];
  const stringData = { [token]: 'v1:lost:AAAA:AAAA' };
  const body = { metadata: { name }, stringData };
  await client.request({ method: 'PUT', path: `${secretsOf(damaged)}/${name}`, body });
  const retained = 'retained-with-token';
  const labels = { [LABEL_RETAINED]: 'true', [LABEL_PROJECT]: retained };
  await client.create<object>('/api/v1/namespaces', { metadata: { name: namespaceOf(retained), labels } });
  const old = new Keyring(api.settings.encryptionKeys);
  const deployKeyPlace = `${placeOf(retained)}/${deployKey}`;
  const content = {
    [token]: old.seal('ghp_retained', placeOf(retained)),
    [deployKey]: old.seal('private', deployKeyPlace),
  };
  const secret = { metadata: { name }, stringData: content };
  await client.create<object>(secretsOf(retained), secret);

  api.settings.encryptionKeys = { current: 'b', keys: { a: keyOf(1), b: keyOf(2) } };
  await api.restart();
  const renewed = new Keyring({ current: 'b', keys: { b: keyOf(2) } });
  for (const [ref, plain] of [
    [first, 'ghp_first'],
    [last, 'ghp_last'],
    [retained, 'ghp_retained'],
  ] as const) {
    const sealed = await until(() => sealedOf(ref), renewed.isCurrent.bind(renewed));
    assert.is(renewed.open(sealed, placeOf(ref)), plain);
  }
  assert.is(renewed.open(await sealedOf(retained, deployKey), deployKeyPlace), 'private');
  assert.is(await sealedOf(damaged), 'v1:lost:AAAA:AAAA');
  const { metadata } = await client.get<Secret>(`${secretsOf(first)}/${name}`);
  assert.is(metadata?.labels?.[LABEL_PROJECT], first);
});

test.run();
