/** Tests the settings of a project's auth over REST, with kubectl as the other client of the same Secret. */
import { spawnSync } from 'node:child_process';
import { LABEL_PROJECT, namespaceOf, SECRETS } from '@slipway/installation';
import type { KubeClient, Secret } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Kubernetes } from '../kubernetes/client.js';
import { type Answer, register, secretsOf, startTestApi, type TestApi } from '../testing.js';

let api: TestApi;
let person: Awaited<ReturnType<typeof register>>;
let projects = 0;

test.before(async () => {
  api = await startTestApi();
  person = await register(api);
});
test.after(() => api?.close());

type Change = Record<string, unknown>;

async function makeProject(type: 'app' | 'shared' = 'shared') {
  const ref = `project-${++projects}`;
  await api.operator.apply(ref, { owner: person.email, type });
  await api.operator.client.create<object>('/api/v1/namespaces', { metadata: { name: namespaceOf(ref) } });
  const { body } = await until(
    () => api.call('GET', `/projects?name=${ref}`, { token: person.token }),
    (answer) => answer.body.length === 1,
  );
  const { id } = body[0] as { id: number };
  const url = `/projects/${id}/config/auth`;
  const path = `${secretsOf(ref)}/${SECRETS.auth.name}`;
  return {
    id,
    ref,
    url,
    read: async () => (await api.call('GET', url, { token: person.token })).body,
    change: (json: Change) => api.call('PATCH', url, { token: person.token, json }),
    /** The Secret's content, as kubectl shows it. */
    stored: async () => {
      const { data = {} } = await api.operator.client.get<Secret>(path);
      return Object.fromEntries(
        Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
      );
    },
    exists: async () => {
      const { items } = await api.operator.client.get<{ items: Secret[] }>(secretsOf(ref));
      return items.some(({ metadata }) => metadata.name === SECRETS.auth.name);
    },
    kubectl: (stringData: Record<string, string>, method: 'create' | 'patch' = 'patch') =>
      method === 'patch'
        ? api.operator.client.patch<Secret>(path, { stringData })
        : api.operator.client.create<Secret>(secretsOf(ref), { metadata: { name: SECRETS.auth.name }, stringData }),
    secret: () => api.operator.client.get<Secret>(path),
  };
}

const fieldsOf = ({ body }: Answer) => (body.errors as { field: string }[])?.map(({ field }) => field);

test('a change sets, keeps and removes settings, with the types of JSON', async () => {
  const { change, read, stored, secret, ref, exists } = await makeProject();
  const empty = await read();
  assert.equal(
    [empty.version, empty.problems, empty.site_url, empty.smtp_port, empty.smtp_pass],
    ['0', [], null, null, null],
  );
  assert.not.ok('external_google_enabled' in empty);
  assert.not.ok(await exists());
  const set = { site_url: 'https://a.example', smtp_port: 465, disable_signup: true, smtp_pass: 'the pass word' };
  const { status, body } = await change(set);
  assert.is(status, 200, JSON.stringify(body));
  assert.equal(
    [body.site_url, body.smtp_port, body.disable_signup, body.smtp_pass],
    ['https://a.example', 465, true, true],
  );
  assert.equal(await stored(), {
    GOTRUE_SITE_URL: 'https://a.example',
    GOTRUE_SMTP_PORT: '465',
    GOTRUE_DISABLE_SIGNUP: 'true',
    GOTRUE_SMTP_PASS: 'the pass word',
  });
  assert.is((await secret()).metadata.labels?.[LABEL_PROJECT], ref);
  assert.equal(await read(), body);
  const next = await change({ smtp_port: null, site_url: '', disable_signup: false });
  assert.equal([next.body.smtp_port, next.body.site_url, next.body.disable_signup], [null, null, false]);
  assert.not.equal(next.body.version, body.version);
  assert.equal(await stored(), { GOTRUE_DISABLE_SIGNUP: 'false', GOTRUE_SMTP_PASS: 'the pass word' });
});

test('a secret is never shown, and its presence is', async () => {
  const { change, read } = await makeProject();
  const pass = 'hunter2hunter2hunter2hunter2';
  const hook = `v1,whsec_${Buffer.from(pass).toString('base64')}`;
  const { status, body } = await change({
    smtp_pass: pass,
    external_google_secret: pass,
    sms_test_otp: '4912345:987654',
    hook_send_email_secrets: hook,
  });
  assert.is(status, 200, JSON.stringify(body));
  const shown = await read();
  for (const name of ['smtp_pass', 'external_google_secret', 'sms_test_otp', 'hook_send_email_secrets'])
    assert.is(shown[name], true, name);
  assert.is(shown.jwt_keys, null);
  for (const text of [pass, hook, '987654']) assert.not.match(JSON.stringify([body, shown]), text);
});

test('an invalid or unknown member is named, and nothing is written', async () => {
  const { change, exists, read, stored } = await makeProject();
  const wrong: [string, unknown][] = [
    ['smtp_port', 65_536],
    ['smtp_port', '465'],
    ['smtp_port', 1.5],
    ['smtp_port', -1],
    ['smtp_port', 1e300],
    ['smtp_port', true],
    ['disable_signup', 'true'],
    ['disable_signup', 1],
    ['site_url', 'nowhere'],
    ['site_url', 5],
    ['site_url', false],
    ['site_url', { toString: 'x' }],
    ['site_url', ['https://a.example']],
    ['smtp_max_frequency', '1 minute'],
    ['smtp_host', 'a\r\nb'],
    ['smtp_pass', 'a\0b'],
    ['smtp_sender_name', 'a\nBcc: x@example.com'],
    ['smtp_pass', '\ud800'],
    ['smtp_pass', true],
    ['mailer_templates_invite', 'https://a.example/invite.html'],
    ['mailer_templates_invite', 'x'.repeat(64 * 1024 + 1)],
    ['mailer_templates_invite', 'ä'.repeat(32 * 1024 + 1)],
    ['external_google_enabled', 'true'],
    ['external_google_enabled', 1],
    ['external_google_client_id', true],
    ['external_google_url', 'http://10.0.0.1'],
    ['external_email_url', 'https://a.example'],
    [`external_${'a'.repeat(51)}_enabled`, false],
    [`external_${'a'.repeat(300)}_enabled`, false],
    ['jwt_keys', '[{"kty":"EC"}]'],
    ['nothing', 'x'],
    ['nothing', null],
    ['GOTRUE_SITE_URL', 'https://a.example'],
    ['SITE_URL', 'https://a.example'],
    ['gotrue_site_url', 'https://a.example'],
    ['site_url\n', 'https://a.example'],
    ['ſite_url', 'https://a.example'],
    ['', 'x'],
    ['constructor', 'x'],
    ['constructor', null],
    ['toString', 'x'],
    ['hasOwnProperty', 'x'],
    ['problems', []],
    ['version', 7],
  ];
  for (const [name, value] of wrong) {
    const refused = await change({ site_url: 'https://b.example', [name]: value });
    assert.is(refused.status, 400, `${name} ${JSON.stringify(value)?.slice(0, 80)}`);
    assert.equal(refused.body.code, 'validation_failed', name);
    assert.match(fieldsOf(refused)?.join() ?? '', name.slice(0, 100), JSON.stringify(value)?.slice(0, 80));
  }
  for (const body of [
    '{"__proto__":"x"}',
    '{"__proto__":{"site_url":"https://a.example"}}',
    '[]',
    '"x"',
    'null',
    '{}',
  ]) {
    const { status } = await api.call('PATCH', `/projects/${(await makeProject()).id}/config/auth`, {
      token: person.token,
      body,
    });
    assert.is(status, 400, body);
  }
  assert.not.ok(await exists());
  await change({ site_url: 'https://a.example' });
  const before = await read();
  const two = await change({ site_url: 'https://c.example', smtp_port: 0, nothing: 1 });
  assert.is(two.status, 400);
  assert.equal([await read(), await stored()], [before, { GOTRUE_SITE_URL: 'https://a.example' }]);
});

test('a change that would make another setting invalid names that setting', async () => {
  const { change, read } = await makeProject();
  const enabled = await change({ external_google_enabled: true });
  assert.equal([enabled.status, fieldsOf(enabled)], [400, ['external_google_client_id']]);
  assert.is((await change({ external_google_client_id: 'x', external_google_secret: 'y' })).status, 200);
  assert.is((await change({ external_google_enabled: true })).status, 200);
  const removed = await change({ external_google_client_id: null });
  assert.equal([removed.status, fieldsOf(removed)], [400, ['external_google_client_id']]);
  assert.equal(fieldsOf(await change({ hook_send_sms_enabled: true })), ['hook_send_sms_uri']);
  assert.is((await read()).external_google_enabled, true);
});

test('settings that kubectl wrote stay, byte for byte, and the unknown and invalid ones are listed', async () => {
  const { change, read, kubectl, secret, ref } = await makeProject();
  const values = {
    GOTRUE_SITE_URL: 'nowhere',
    GOTRUE_SAML_ENABLED: 'secret of it',
    other: 'x',
    GOTRUE_SMTP_HOST: 'a.example',
  };
  await kubectl(values, 'create');
  const binary = Buffer.from([0, 255, 128]).toString('base64');
  await api.operator.client.patch<Secret>(`${secretsOf(ref)}/${SECRETS.auth.name}`, { data: { 'binary.bin': binary } });
  const shown = await read();
  assert.equal([shown.site_url, shown.smtp_host], [null, 'a.example']);
  assert.equal((shown.problems as { field: string }[]).map(({ field }) => field).sort(), [
    'binary.bin',
    'other',
    'saml_enabled',
    'site_url',
  ]);
  assert.not.match(JSON.stringify(shown), 'secret of it');
  assert.is((await change({ smtp_port: 25 })).status, 200, 'an invalid setting affects no other');
  const { data = {}, metadata } = await secret();
  assert.is(data['binary.bin'], binary);
  assert.equal(Object.keys(data).sort(), [
    'GOTRUE_SAML_ENABLED',
    'GOTRUE_SITE_URL',
    'GOTRUE_SMTP_HOST',
    'GOTRUE_SMTP_PORT',
    'binary.bin',
    'other',
  ]);
  assert.is(metadata.labels?.[LABEL_PROJECT], ref, 'the label by which the data plane finds it');
  assert.is((await change({ site_url: 'https://a.example' })).body.problems.length, 3);
});

test('a version that is no longer current is a 409 that writes nothing', async () => {
  const { change, kubectl, read } = await makeProject();
  const { version } = await read();
  const first = await change({ version, smtp_port: 25 });
  assert.is(first.status, 200);
  const late = await change({ version, smtp_port: 26 });
  assert.equal([late.status, late.body.code, fieldsOf(late)], [409, 'conflict', ['version']]);
  await kubectl({ GOTRUE_SMTP_PORT: '27' });
  assert.is((await change({ version: first.body.version, smtp_port: 28 })).status, 409);
  const current = await read();
  assert.is(current.smtp_port, 27);
  assert.is((await change({ version: current.version, smtp_port: 29 })).body.smtp_port, 29);
  const { version: same } = await read();
  assert.is((await change({ version: same })).body.version, same, 'a change of nothing writes nothing');
  assert.is((await change({ version: '0', smtp_port: 1 })).status, 409);
});

test('concurrent changes by REST and kubectl lose no write', async () => {
  const { change, kubectl, stored } = await makeProject();
  const names = [
    'smtp_host',
    'smtp_user',
    'smtp_pass',
    'smtp_sender_name',
    'password_required_characters',
    'uri_allow_list',
  ];
  const byRest = names.map((name) => change({ [name]: 'by-rest' }));
  const byKubectl = kubectl({ GOTRUE_A: '0' }, 'create')
    .catch(() => undefined)
    .then(async () => {
      for (let at = 1; at <= 20; at++) await kubectl({ [`GOTRUE_K${at}`]: 'by-kubectl' });
    });
  const [answers] = await Promise.all([Promise.all(byRest), byKubectl]);
  assert.equal(
    answers.map(({ status }) => status),
    names.map(() => 200),
  );
  const content = await stored();
  for (const name of names) assert.is(content[`GOTRUE_${name.toUpperCase()}`], 'by-rest', name);
  for (let at = 1; at <= 20; at++) assert.is(content[`GOTRUE_K${at}`], 'by-kubectl');
});

test('a change is decided again if kubectl changes the Secret between the read and the write', async () => {
  const { change, kubectl, stored, ref } = await makeProject();
  await change({ smtp_port: 25 });
  const { client } = api.operator;
  const races = [() => kubectl({ GOTRUE_SMTP_PORT: '26' }), () => client.delete(`${secretsOf(ref)}/auth-config`)];
  const racing = {
    get: async (path: string) => {
      const found = await client.get(path).catch((error) => error);
      await races.shift()?.();
      if (found instanceof Error) throw found;
      return found;
    },
    patch: (path: string, body: object) => client.patch(path, body),
    create: (path: string, body: object) => client.create(path, body as never),
  };
  const seen: unknown[] = [];
  const kubernetes = new Kubernetes(racing as unknown as KubeClient);
  await kubernetes.changeSecret(ref, { name: SECRETS.auth.name, labels: {} }, ({ content }) => {
    seen.push(content.GOTRUE_SMTP_PORT);
    return { GOTRUE_SMTP_HOST: 'a.example', GOTRUE_SMTP_USER: null };
  });
  assert.equal(seen, ['25', '26', undefined]);
  assert.equal(await stored(), { GOTRUE_SMTP_HOST: 'a.example' });
});

test('only one of concurrent changes with the same version succeeds', async () => {
  const { change, read } = await makeProject();
  const { version } = await read();
  const answers = await Promise.all([1, 2, 3, 4].map((port) => change({ version, smtp_port: port })));
  assert.equal(answers.map(({ status }) => status).sort(), [200, 409, 409, 409]);
  const winner = answers.find(({ status }) => status === 200);
  assert.is((await read()).smtp_port, winner?.body.smtp_port);
});

test('settings that are too large or too many together are rejected, and can be made smaller', async () => {
  const { change, kubectl } = await makeProject();
  const html = 'x'.repeat(64 * 1024);
  const mails = ['invite', 'confirmation', 'recovery'].map((mail) => [`mailer_templates_${mail}`, html]);
  assert.is((await change(Object.fromEntries(mails))).status, 200);
  const refused = await change({ mailer_templates_magic_link: html });
  assert.is(refused.status, 400);
  assert.match(refused.body.detail, /The settings have \d+ bytes together; the limit is 262144\./);
  await kubectl({ GOTRUE_MAILER_TEMPLATES_MAGIC_LINK: html.repeat(2) });
  assert.is((await change({ smtp_port: 25 })).status, 400);
  assert.is((await change({ mailer_templates_invite: null })).status, 200);
  const many = Object.fromEntries(Array.from({ length: 400 }, (_, at) => [`external_p${at}_enabled`, false]));
  const other = await makeProject();
  await other.change({ site_url: 'https://a.example' });
  assert.match((await other.change(many)).body.detail, 'would have 401 settings; the limit is 400');
  assert.not.ok('external_p0_enabled' in (await other.read()));
});

test('only the owner, and tokens with the scope, may read and change the settings', async () => {
  const { id, url, change, read } = await makeProject();
  await change({ site_url: 'https://a.example' });
  const before = await read();
  const json = { site_url: 'https://evil.example' };
  const other = await register(api);
  for (const method of ['GET', 'PATCH'])
    assert.is(
      (await api.call(method, url, { token: other.token, ...(method === 'PATCH' ? { json } : {}) })).status,
      404,
    );
  assert.is((await api.call('PATCH', url, { json })).status, 401);
  const by = async (token: object) => {
    const { body } = await api.call('POST', '/tokens', { token: person.token, json: { name: 'narrow', ...token } });
    const read = await api.call('GET', url, { token: body.token });
    return [read.status, (await api.call('PATCH', url, { token: body.token, json: { smtp_port: 25 } })).status];
  };
  assert.equal(await by({ scopes: ['projects:read', 'projects:write', 'secrets:read'] }), [403, 403]);
  assert.equal(await by({ scopes: ['config:read'] }), [200, 403]);
  assert.equal(await by({ scopes: ['config:write'], project_ids: [(await makeProject()).id] }), [403, 404]);
  assert.equal(await read(), before);
  assert.equal(await by({ scopes: ['config:read', 'config:write'], project_ids: [id] }), [200, 200]);
});

test('a project without a database has no settings of auth, and a deleted one cannot be changed', async () => {
  const { change, url } = await makeProject('app');
  for (const answer of [await api.call('GET', url, { token: person.token }), await change({ smtp_port: 25 })])
    assert.equal([answer.status, answer.body.code], [400, 'no_database']);
  const deleted = await makeProject();
  await api.operator.patch(deleted.ref, { metadata: { finalizers: ['slipway.dev/test'] } });
  await api.call('DELETE', `/projects/${deleted.id}`, { token: person.token });
  assert.is((await deleted.change({ smtp_port: 25 })).body.code, 'project_deleting');
  await api.operator.patch(deleted.ref, { metadata: { finalizers: null } });
});

test('the log has the names of changed settings and no value, even at the lowest log level', () => {
  const script = `
    const { register, startTestApi } = await import(${JSON.stringify(new URL('../testing.js', import.meta.url).href)});
    const api = await startTestApi({ logLevel: 'trace' });
    const { token } = await register(api);
    const { id } = (await api.call('POST', '/projects', { token, json: { name: 'logged' } })).body;
    const settings = { smtp_pass: 'hunter2', smtp_host: 'private.example' };
    for (const more of [{}, { smtp_port: 0 }, { nothing: 'hunter2' }, { version: '0' }])
      await api.call('PATCH', '/projects/' + id + '/config/auth', { token, json: { ...settings, ...more } });
    await api.close();`;
  const child = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  assert.is(child.status, 0, child.stderr);
  const log = child.stdout + child.stderr;
  assert.match(log, /"settings":\["GOTRUE_SMTP_PASS","GOTRUE_SMTP_HOST"\]/);
  for (const status of [200, 400, 409]) assert.match(log, new RegExp(`config/auth","status":${status}`));
  for (const value of ['hunter2', 'private.example']) assert.not.match(log, value);
});

test.run();
