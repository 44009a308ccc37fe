/** Keys are rotated while Git tokens are stored: once the API has started with a new key, that key alone opens them. */
import { LABEL_PROJECT, LABEL_RETAINED, namespaceOf, SECRETS } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { register, startTestApi, until } from '../testing.js';
import { Keyring } from './keyring.js';

const api = await startTestApi();
test.after(() => api.close());

const { name, token } = SECRETS.git;
const keyOf = (fill: number) => Buffer.alloc(32, fill).toString('base64');
const placeOf = (ref: string) => `${ref}/${name}`;
const { core } = api.operator;

async function sealedOf(ref: string): Promise<string> {
  const { data = {} } = await core.readNamespacedSecret({ namespace: namespaceOf(ref), name });
  return Buffer.from(data[token] ?? '', 'base64').toString();
}

test('stored tokens need the current key alone, and one that can’t be opened holds up no other', async () => {
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
  await core.replaceNamespacedSecret({
    name,
    namespace: namespaceOf(damaged),
    body: { metadata: { name }, stringData },
  });
  const retained = 'retained-with-token';
  const labels = { [LABEL_RETAINED]: 'true', [LABEL_PROJECT]: retained };
  await core.createNamespace({ body: { metadata: { name: namespaceOf(retained), labels } } });
  const old = new Keyring(api.settings.encryptionKeys);
  const kept = { metadata: { name }, stringData: { [token]: old.seal('ghp_retained', placeOf(retained)) } };
  await core.createNamespacedSecret({ namespace: namespaceOf(retained), body: kept });

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
  assert.is(await sealedOf(damaged), 'v1:lost:AAAA:AAAA');
  const { metadata } = await core.readNamespacedSecret({ namespace: namespaceOf(first), name });
  assert.is(metadata?.labels?.[LABEL_PROJECT], first);
});

test.run();
