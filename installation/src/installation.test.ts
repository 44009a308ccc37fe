import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { projectUrlOf, readInstallation } from './installation.js';
import { siteUrlOf } from './web-addresses.js';

const folder = mkdtempSync(path.join(tmpdir(), 'slipway-site-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));

function siteFile(yaml: string): string {
  const file = path.join(mkdtempSync(path.join(folder, 'at-')), 'site.yaml');
  writeFileSync(file, yaml);
  return file;
}

const SITE = 'publicUrl: https://slipway.example.com:8443\nopenedServices: [storage]\n';

test('a project on one machine is at a path of the public address', () => {
  const installation = readInstallation({
    SLIPWAY_PUBLIC_URL: 'http://localhost:4000/',
    SLIPWAY_SERVICES_SHARED: 'storage',
  });
  assert.is(projectUrlOf(installation, 'shop'), 'http://localhost:4000/p/shop');
  assert.equal(installation.openedServices, { shared: ['storage'] });
});

test('a project on a cluster has its own host name, and the site’s settings open services', () => {
  const installation = readInstallation({ SLIPWAY_SITE: siteFile(SITE) });
  assert.is(projectUrlOf(installation, 'shop'), 'https://shop.slipway.example.com:8443');
  assert.equal(installation.openedServices, { shared: ['storage'] });
});

for (const [what, settings, url] of [
  ['one machine', { SLIPWAY_PUBLIC_URL: 'http://localhost:4000' }, 'http://shop.projects.example.net:4000'],
  ['an address without a port', { SLIPWAY_PUBLIC_URL: 'https://a.example' }, 'https://shop.projects.example.net'],
] as const) {
  test(`a project is below the domain of projects on ${what}`, () => {
    const installation = readInstallation({ ...settings, SLIPWAY_PROJECTS_DOMAIN: 'projects.example.net' });
    assert.is(projectUrlOf(installation, 'shop'), url);
  });
}

test('a project on a cluster is below the domain in the site’s settings', () => {
  const installation = readInstallation({
    SLIPWAY_SITE: siteFile(`${SITE}projectsDomain: projects.example.net:443\n`),
  });
  assert.is(projectUrlOf(installation, 'shop'), 'https://shop.projects.example.net:443');
});

for (const [what, environment, words] of [
  ['no address', {}, /^SLIPWAY_PUBLIC_URL is not set: it is like http/],
  ['a malformed address', { SLIPWAY_PUBLIC_URL: 'localhost' }, /^SLIPWAY_PUBLIC_URL is "localhost": it is like http/],
  ['a path in the address', { SLIPWAY_PUBLIC_URL: 'http://x/y' }, /^SLIPWAY_PUBLIC_URL is "http:\/\/x\/y"/],
  [
    'a platform below the domain of projects',
    { SLIPWAY_PUBLIC_URL: 'https://app.example.net', SLIPWAY_PROJECTS_DOMAIN: 'example.net:8443' },
    /app\.example\.net is below .* example\.net .*SLIPWAY_PROJECTS_DOMAIN.* such as projects\.example\.net$/,
  ],
  [
    'a site below the domain of projects',
    { SLIPWAY_SITE: siteFile(`${SITE}projectsDomain: example.com\n`) },
    /slipway\.example\.com is below .* projectsDomain of a site/,
  ],
  [
    'a site that is not there',
    { SLIPWAY_SITE: '/nonexistent/site.yaml' },
    /^SLIPWAY_SITE: .* can not be read \(ENOENT\)$/,
  ],
  ['a site that is wrong', { SLIPWAY_SITE: siteFile('publicUrl: x\n') }, /^SLIPWAY_SITE: .*publicUrl/s],
] as const) {
  test(`${what} is rejected with the variable's name`, () => {
    assert.throws(
      () => readInstallation(environment),
      ({ message }: Error) => words.test(message),
    );
  });
}

for (const setting of ['SLIPWAY_PUBLIC_URL', 'SLIPWAY_SERVICES_SHARED']) {
  test(`${setting} beside the site's settings is rejected, because one of the two would be ignored`, () => {
    const environment = { SLIPWAY_SITE: siteFile(SITE), [setting]: 'http://localhost' };
    assert.throws(
      () => readInstallation(environment),
      ({ message }: Error) => message.startsWith(`${setting} is set beside`),
    );
  });
}

test('a site has a host name of the projects’ domain, or of this machine alone', () => {
  const at = (publicUrl: string, projectsDomain?: string) => siteUrlOf({ publicUrl, projectsDomain }, 'blog');
  assert.is(at('http://localhost:4000'), 'http://blog.localhost:4000');
  assert.is(at('https://backend.example.com', 'pages.example.net'), 'https://blog.pages.example.net');
  assert.is(at('http://localhost:4000', 'pages.example.net'), 'http://blog.pages.example.net:4000');
  for (const publicUrl of ['https://backend.example.com', 'http://127.0.0.1:4000', 'https://localhost.example.com'])
    assert.is(at(publicUrl), undefined, publicUrl);
  assert.is(at('https://backend.example.com', 'backend.example.com:8443'), undefined, 'the domain of the platform');
});

test.run();
