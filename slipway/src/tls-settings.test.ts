/** Tests the settings of HTTPS, and the fixes in the errors for wrong ones. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { serverCertificate } from './certificate.js';
import { expectDistinctPorts } from './ports.js';
import { StartProblem } from './problem.js';
import { readSettings } from './settings.js';
import { readTlsSettings } from './tls-settings.js';

const PUBLIC_URL = 'https://slipway.example.com';
const folder = mkdtempSync(path.join(tmpdir(), 'slipway-tls-settings-'));
test.after(() => rmSync(folder, { recursive: true }));

const read = (environment: Record<string, string>, publicUrl = PUBLIC_URL) =>
  readTlsSettings(environment, { folder, publicUrl });

test('the other settings of HTTPS are rejected when the HTTPS port is not set', () => {
  assert.is(read({}), undefined);
  for (const name of ['SLIPWAY_HTTP_PORT', 'SLIPWAY_CERTIFICATE', 'SLIPWAY_CERTIFICATE_KEY', 'SLIPWAY_ACME_EMAIL'])
    assert.throws(() => read({ [name]: '80' }), /set SLIPWAY_HTTPS_PORT too/);
});

test('the two ports alone enable HTTPS on all addresses, with certificates from Let’s Encrypt', () => {
  assert.equal(read({ SLIPWAY_HTTPS_PORT: '443', SLIPWAY_HTTP_PORT: '80' }), {
    https: '[::]:443',
    http: '[::]:80',
    files: {},
    acme: { SLIPWAY_ACME_DIRECTORY: 'https://acme-v02.api.letsencrypt.org/directory' },
  });
});

test('the ports can have an address, and the certificate authority can be chosen', () => {
  const trusted = path.join(folder, 'ca.pem');
  writeFileSync(trusted, 'a certificate');
  const settings = read({
    SLIPWAY_HTTPS_PORT: '127.0.0.1:8443',
    SLIPWAY_HTTP_PORT: '[::1]:8080',
    SLIPWAY_ACME_DIRECTORY: 'https://ca.internal/acme/directory',
    SLIPWAY_ACME_EMAIL: 'ann@example.com',
    SLIPWAY_ACME_CERTIFICATES: 'ca.pem',
  });
  assert.equal([settings?.https, settings?.http], ['127.0.0.1:8443', '[::1]:8080']);
  assert.equal(settings?.acme, {
    SLIPWAY_ACME_DIRECTORY: 'https://ca.internal/acme/directory',
    SLIPWAY_ACME_EMAIL: 'ann@example.com',
    SLIPWAY_ACME_CERTIFICATES: trusted,
  });
});

test('a certificate in files needs neither an HTTP port nor an authority', async () => {
  const { certificateFile, keyFile } = await serverCertificate(folder, ['slipway.example.com']);
  const files = { SLIPWAY_CERTIFICATE: certificateFile, SLIPWAY_CERTIFICATE_KEY: keyFile };
  const settings = read({ SLIPWAY_HTTPS_PORT: '443', ...files });
  assert.equal([settings?.http, settings?.files, settings?.acme], [undefined, files, undefined]);
  const other = await serverCertificate(mkdtempSync(path.join(folder, 'other-')), ['slipway.example.com']);
  assert.throws(
    () => read({ SLIPWAY_HTTPS_PORT: '443', ...files, SLIPWAY_CERTIFICATE_KEY: other.keyFile }),
    /must be a certificate and its key/,
  );
});

for (const [what, environment, url, fix] of [
  ['an invalid port', { SLIPWAY_HTTPS_PORT: '70000' }, PUBLIC_URL, /SLIPWAY_HTTPS_PORT is "70000".*such as 443/],
  ['a name in place of an address', { SLIPWAY_HTTPS_PORT: 'localhost:443' }, PUBLIC_URL, /an address with one/],
  ['a public URL with http://', { SLIPWAY_HTTPS_PORT: '443' }, 'http://localhost:4000', /SLIPWAY_PUBLIC_URL/],
  ['no port for the authority', { SLIPWAY_HTTPS_PORT: '443' }, PUBLIC_URL, /SLIPWAY_HTTP_PORT=80/],
  [
    'a host that no authority certifies',
    { SLIPWAY_HTTPS_PORT: '443', SLIPWAY_HTTP_PORT: '80' },
    'https://192.0.2.7',
    /SLIPWAY_PUBLIC_URL has the host 192\.0\.2\.7/,
  ],
  [
    'a name of this machine',
    { SLIPWAY_HTTPS_PORT: '443', SLIPWAY_HTTP_PORT: '80' },
    'https://slipway.localhost',
    /SLIPWAY_CERTIFICATE/,
  ],
  [
    'a certificate without its key',
    { SLIPWAY_HTTPS_PORT: '443', SLIPWAY_CERTIFICATE: 'a.pem' },
    PUBLIC_URL,
    /set both/,
  ],
  [
    'a file that is missing',
    { SLIPWAY_HTTPS_PORT: '443', SLIPWAY_CERTIFICATE: 'a.pem', SLIPWAY_CERTIFICATE_KEY: 'b.pem' },
    PUBLIC_URL,
    /ENOENT/,
  ],
  [
    'an authority over plain HTTP',
    { SLIPWAY_HTTPS_PORT: '443', SLIPWAY_HTTP_PORT: '80', SLIPWAY_ACME_DIRECTORY: 'http://ca.internal/directory' },
    PUBLIC_URL,
    /SLIPWAY_ACME_DIRECTORY/,
  ],
] as [string, Record<string, string>, string, RegExp][]) {
  test(`the settings of HTTPS are rejected with ${what}`, () => {
    try {
      read(environment, url);
      assert.unreachable(what);
    } catch (error) {
      assert.instance(error, StartProblem);
      assert.match((error as Error).message, fix);
    }
  });
}

test('registration needs an invitation by default when HTTPS has a port', () => {
  const environment = { SLIPWAY_HTTPS_PORT: '443', SLIPWAY_HTTP_PORT: '80', SLIPWAY_PUBLIC_URL: PUBLIC_URL };
  assert.is(readSettings(environment, folder).registration, 'invite');
});

test('a start is rejected if a port of HTTPS is also another port of the platform', () => {
  const https = (own: Record<string, string>) =>
    expectDistinctPorts(
      readSettings(
        { SLIPWAY_PUBLIC_URL: PUBLIC_URL, SLIPWAY_HTTPS_PORT: '443', SLIPWAY_HTTP_PORT: '80', ...own },
        folder,
      ),
    );
  https({});
  https({ SLIPWAY_HTTP_PORT: '192.0.2.7:8443', SLIPWAY_HTTPS_PORT: '192.0.2.8:8443' });
  assert.throws(() => https({ SLIPWAY_HTTP_PORT: '443' }), /SLIPWAY_HTTP_PORT is the same port as SLIPWAY_HTTPS_PORT/);
  assert.throws(
    () => https({ SLIPWAY_HTTPS_PORT: '4000' }),
    /SLIPWAY_HTTPS_PORT is the same port as SLIPWAY_PORT, 4000/,
  );
  assert.throws(() => https({ SLIPWAY_HTTP_PORT: '127.0.0.1:4002' }), /SLIPWAY_PORT \+ 2/);
});

test.run();
