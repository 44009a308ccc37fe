/** Tests deploy keys: their formats, as OpenSSH's own program reads them, and where the private half is stored. */
import { spawnSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { SECRETS } from '@slipway/installation';
import type { Secret } from '@slipway/kubernetes';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Keyring } from '../projects/keyring.js';
import { register, secretsOf } from '../testing.js';
import { newDeployKey } from './deploy-key.js';
import { type Deploys, startDeploys } from './testing.js';

const hasSshKeygen = spawnSync('ssh-keygen', ['-?']).error === undefined;
const { name: secretName, token: tokenKey, deployKey } = SECRETS.git;
let api: Deploys['api'];
let owner: Deploys['owner'];
let makeSite: Deploys['applySite'];

test.before(async () => {
  ({ api, owner, applySite: makeSite } = await startDeploys());
});
test.after(() => api?.close());

const makeKey = (id: number, token = owner.token) => api.call('POST', `/projects/${id}/deploy-key`, { token });
async function storedIn(ref: string): Promise<Record<string, string>> {
  const { data = {} } = await api.operator.client.get<Secret>(`${secretsOf(ref)}/${secretName}`);
  return Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));
}
const opened = async (ref: string) =>
  new Keyring(api.settings.encryptionKeys).open(
    (await storedIn(ref))[deployKey] as string,
    `${ref}/${secretName}/${deployKey}`,
  );

if (!hasSshKeygen) console.log('# skipped: ssh-keygen is not installed');
if (hasSshKeygen) {
  test('ssh-keygen reads both halves of a key, and prints the fingerprint that the API returns', async () => {
    const folder = await mkdtemp(path.join(tmpdir(), 'slipway-key-'));
    try {
      const sshKeygen = (...args: string[]) => {
        const { status, stdout, stderr } = spawnSync('ssh-keygen', args, { encoding: 'utf8' });
        assert.is(status, 0, stderr);
        return stdout.trim();
      };
      const { id, ref } = await makeSite();
      const { public_key, fingerprint } = (await makeKey(id)).body;
      await writeFile(path.join(folder, 'key.pub'), `${public_key}\n`);
      await writeFile(path.join(folder, 'key'), await opened(ref), { mode: 0o600 });
      assert.is(sshKeygen('-lf', path.join(folder, 'key.pub')), `256 ${fingerprint} slipway-${ref} (ED25519)`);
      assert.is(sshKeygen('-yf', path.join(folder, 'key')), public_key);
      // The length of the comment decides the padding of the private half.
      for (let length = 1; length <= 8; length += 1) {
        const { publicKey, privateKey } = newDeployKey('c'.repeat(length));
        await writeFile(path.join(folder, 'padded'), privateKey, { mode: 0o600 });
        assert.is(sshKeygen('-yf', path.join(folder, 'padded')), publicKey);
      }
    } finally {
      await rm(folder, { recursive: true });
    }
  });
}

test('a deploy key is returned without its private half, which is stored encrypted', async () => {
  const { id, ref } = await makeSite();
  const answer = await makeKey(id);
  assert.is(answer.status, 200);
  assert.equal(Object.keys(answer.body).sort(), ['fingerprint', 'note', 'public_key']);
  assert.match(answer.body.public_key, /^ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAA[A-Za-z0-9+/]{44} slipway-site-\d+$/);
  assert.match(answer.body.fingerprint, /^SHA256:[A-Za-z0-9+/]{43}$/);
  const privateKey = await opened(ref);
  assert.match(privateKey, /^-----BEGIN OPENSSH PRIVATE KEY-----\n/);
  const [, first = ''] = privateKey.split('\n');
  const project = JSON.stringify(await api.operator.get(ref));
  for (const place of [JSON.stringify(answer.body), JSON.stringify(await storedIn(ref)), project])
    assert.not.ok(place.includes(first));
  assert.equal((await api.operator.get(ref)).spec.source?.deployKeySecretRef, { name: secretName, key: deployKey });
});

test('a new deploy key replaces the earlier one, also for simultaneous requests', async () => {
  const { id, ref } = await makeSite();
  const first = (await makeKey(id)).body;
  const before = await storedIn(ref);
  const answers = await Promise.all([makeKey(id), makeKey(id), makeKey(id)]);
  const after = await storedIn(ref);
  assert.equal(Object.keys(after), [deployKey]);
  assert.is.not(after[deployKey], before[deployKey]);
  const keys = [first, ...answers.map(({ body }) => body)].map(({ public_key }) => public_key);
  assert.is(new Set(keys).size, 4);
});

test('a deploy key and a Git token are stored together, and removed separately', async () => {
  const { id, ref } = await makeSite();
  const change = (github_token: string | null) =>
    api.call('PATCH', `/projects/${id}`, { token: owner.token, json: { github_token } });
  await change('ghp_1');
  await makeKey(id);
  await change('ghp_2');
  assert.equal(Object.keys(await storedIn(ref)).sort(), [deployKey, tokenKey]);
  const key = await opened(ref);
  await change(null);
  assert.equal(Object.keys(await storedIn(ref)), [deployKey]);
  assert.is(await opened(ref), key);
});

test('a deploy key returns 400 for a project of another type, and 404 for a project of another owner', async () => {
  const { body: shared } = await api.call('POST', '/projects', { token: owner.token, json: { name: 'with-database' } });
  const refused = await makeKey(shared.id);
  assert.equal([refused.status, refused.body.code], [400, 'wrong_type']);
  assert.match(refused.body.detail, /this is a shared project/);
  const { id } = await makeSite();
  assert.is((await makeKey(id, (await register(api)).token)).status, 404);
  assert.is((await api.call('POST', `/projects/${id}/deploy-key`)).status, 401);
});

test.run();
