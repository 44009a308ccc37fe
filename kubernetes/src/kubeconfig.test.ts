/**
 * Tests all forms of kubeconfigs, by the requests that a real server receives. The usual forms must not load
 * client-node.
 */
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TLSSocket } from 'node:tls';
import { makeCertificates } from '@slipway/apiserver';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { stringify } from 'yaml';
import { KubeClient } from './client.js';
import { loadKubeConfig } from './kubeconfig.js';
import { kubeconfigWith } from './testing.js';

interface Context {
  folder: string;
  url: string;
  ca: string;
  cert: string;
  key: string;
  close(): void;
}

const test = suite<Context>('kubeconfig');

test.before(async (context) => {
  const { ca, cert, key } = await makeCertificates(['127.0.0.1']);
  const server = createServer({ cert, key, requestCert: true, rejectUnauthorized: false }, (request, response) =>
    response.end(JSON.stringify(seenIn(request))),
  ).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-kubeconfig-'));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  Object.assign(context, { folder, url, ca, cert, key, close: () => server.close() });
});
test.after(({ folder, close }) => {
  close();
  rmSync(folder, { recursive: true });
});

function seenIn({ url, headers, socket }: IncomingMessage) {
  const { subject } = (socket as TLSSocket).getPeerCertificate();
  return { url, authorization: headers.authorization, user: headers['impersonate-user'], certificate: subject?.CN };
}

/** Writes a kubeconfig for `user`, and returns its path. */
function written({ folder, url, ca }: Context, user: object, cluster: object = {}): string {
  const file = path.join(folder, 'kubeconfig');
  const authority = { 'certificate-authority-data': Buffer.from(ca).toString('base64') };
  const document = {
    'current-context': 'chosen',
    contexts: [
      { name: 'other', context: { cluster: 'elsewhere', user: 'other' } },
      { name: 'chosen', context: { cluster: 'here', user: 'me' } },
    ],
    clusters: [
      { name: 'elsewhere', cluster: { server: 'https://127.0.0.1:1' } },
      { name: 'here', cluster: { server: url, ...authority, ...cluster } },
    ],
    users: [
      { name: 'other', user: { token: 'of-another' } },
      { name: 'me', user },
    ],
  };
  writeFileSync(file, stringify(document));
  return file;
}

interface Seen {
  url?: string;
  authorization?: string;
  user?: string;
  certificate?: string;
}

async function seenWith(file: string): Promise<Seen> {
  const client = await KubeClient.connect(await loadKubeConfig(file));
  try {
    return await client.get<Seen>('/version');
  } finally {
    await client.close();
  }
}

test('a kubeconfig authenticates by a token, by a name with a password, or not at all', async (context) => {
  assert.equal(await seenWith(written(context, { token: 'mine' })), { url: '/version', authorization: 'Bearer mine' });
  const basic = `Basic ${Buffer.from('ann:pass').toString('base64')}`;
  const named = written(context, { username: 'ann', password: 'pass' });
  assert.equal(await seenWith(named), { url: '/version', authorization: basic });
  assert.equal(await seenWith(written(context, {})), { url: '/version' });
});

test('a token file of a kubeconfig is read again when the token was renewed', async (context) => {
  const token = path.join(context.folder, 'token');
  writeFileSync(token, 'first\n');
  const { headers } = await loadKubeConfig(written(context, { tokenFile: 'token' }));
  assert.equal(await headers(), { authorization: 'Bearer first' });
  writeFileSync(token, 'second\n');
  assert.equal(await headers(), { authorization: 'Bearer second' });
});

test('a client certificate is sent when it is given as data or as files', async (context) => {
  const { cert, key, folder } = context;
  const data = (text: string) => Buffer.from(text).toString('base64');
  const own = { 'client-certificate-data': data(cert), 'client-key-data': data(key) };
  const { certificate } = await seenWith(written(context, own));
  assert.ok(certificate);
  writeFileSync(path.join(folder, 'cert.pem'), cert);
  writeFileSync(path.join(folder, 'key.pem'), key, { mode: 0o600 });
  const files = { 'client-certificate': 'cert.pem', 'client-key': 'key.pem' };
  assert.is((await seenWith(written(context, files))).certificate, certificate);
});

test('the server’s certificate is verified unless the kubeconfig disables that', async (context) => {
  const { ca: other } = await makeCertificates(['127.0.0.1']);
  const wrong = { 'certificate-authority-data': Buffer.from(other).toString('base64') };
  const refused = await seenWith(written(context, {}, wrong)).catch((error: Error) => error);
  assert.instance(refused, Error);
  const open = { 'certificate-authority-data': undefined, 'insecure-skip-tls-verify': true };
  assert.equal(await seenWith(written(context, {}, open)), { url: '/version' });
});

test('a path in the server’s address is put before the path of each request', async (context) => {
  const seen = await seenWith(written(context, {}, { server: `${context.url}/clusters/one/` }));
  assert.is(seen.url, '/clusters/one/version');
});

test('a kubeconfig can use a credential plugin, and impersonate another user', async (context) => {
  const plugin = path.join(context.folder, 'plugin');
  const credential = {
    apiVersion: 'client.authentication.k8s.io/v1',
    kind: 'ExecCredential',
    status: { token: 'lent' },
  };
  writeFileSync(plugin, `#!/bin/sh\ncat <<'END'\n${JSON.stringify(credential)}\nEND\n`);
  chmodSync(plugin, 0o700);
  const exec = { apiVersion: credential.apiVersion, command: plugin, interactiveMode: 'Never' };
  assert.is((await seenWith(written(context, { exec }))).authorization, 'Bearer lent');
  const seen = await seenWith(written(context, { token: 'mine', as: 'ann' }));
  assert.equal([seen.authorization, seen.user], ['Bearer mine', 'ann']);
});

test('loadKubeConfig reports the mistake when a file is no kubeconfig', async (context) => {
  const refusal = async (file: string) => (await loadKubeConfig(file).catch((error: Error) => error)) as Error;
  const { folder } = context;
  const empty = path.join(folder, 'empty');
  writeFileSync(empty, '');
  assert.match((await refusal(empty)).message, /names no cluster: set its current-context/);
  assert.match((await refusal(path.join(folder, 'nowhere'))).message, /ENOENT.*nowhere/);
  const socks = written(context, {}, { 'proxy-url': 'socks5://127.0.0.1:1080' });
  assert.match((await refusal(socks)).message, /SOCKS proxy, which is not supported/);
  const plain = written(context, { token: 'mine' }, { server: 'http://127.0.0.1:1' });
  assert.match((await refusal(plain)).message, /without TLS: use https/);
});

test('kubeconfigWith writes a kubeconfig with the server of another one and a new token', async (context) => {
  const config = await loadKubeConfig(written(context, { token: 'mine' }));
  const made = path.join(context.folder, 'made');
  writeFileSync(made, kubeconfigWith(config, 'its own'));
  assert.equal(await seenWith(made), { url: '/version', authorization: 'Bearer its own' });
});

test('client-node is loaded only for kubeconfigs that need it', (context) => {
  const program = `
    import { registerHooks } from 'node:module';
    let loaded = 0;
    registerHooks({
      load: (url, context, next) => {
        if (url.includes('client-node')) loaded++;
        return next(url, context);
      },
    });
    const { loadKubeConfig } = await import(${JSON.stringify(import.meta.resolve('./index.js'))});
    await loadKubeConfig(process.argv[1]);
    console.log(loaded > 0);`;
  const isLoadedFor = (user: object) => {
    const args = ['--input-type=module', '-e', program, written(context, user)];
    return execFileSync(process.execPath, args, { encoding: 'utf8' }).trim();
  };
  assert.is(isLoadedFor({ token: 'mine' }), 'false');
  assert.is(isLoadedFor({ token: 'mine', as: 'ann' }), 'true');
});

test.run();
