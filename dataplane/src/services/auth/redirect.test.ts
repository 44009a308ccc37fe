import { readAuthConfig } from '@slipway/installation/auth-settings.js';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { globMatcher } from './policy/glob.js';
import { allowedRedirect } from './policy/redirect.js';

const SITE = 'https://app.example.com';

function isAllowed(address: string, allowList: string): boolean {
  const { config } = readAuthConfig({ GOTRUE_SITE_URL: SITE, GOTRUE_URI_ALLOW_LIST: allowList });
  return allowedRedirect(address, config, 'http://localhost:4000/p/shop') === address;
}

for (const [glob, allowed, refused] of [
  ['https://*.example.com/*', ['https://a.example.com/', 'https://a.example.com/b'], ['https://a.b.example.com/']],
  ['https://a.example/?x?', ['https://a.example/1x2'], ['https://a.example/x', 'https://a.example/.x2']],
  ['https://a.example/**', ['https://a.example/', 'https://a.example/b/c.d'], ['https://a.example.com/']],
  ['https://**/end', ['https://a.example/b/end'], ['https://a.example/b/end/']],
  ['https://a.example/***.x', ['https://a.example/b/c.x'], ['https://a.example/b/c.y']],
  ['https://a.example/(b|c)+$', ['https://a.example/(b|c)+$'], ['https://a.example/b']],
] as const) {
  test(`${glob} matches exactly the expected URLs`, () => {
    for (const address of allowed) assert.ok(isAllowed(address, glob), address);
    for (const address of refused) assert.not(isAllowed(address, glob), address);
  });
}

test('braces in a glob list alternatives, and an unclosed brace is a literal character', () => {
  for (const [glob, text, expected] of [
    ['{a,b}c', 'bc', true],
    ['{a,b}c', 'abc', false],
    ['a{}b', 'ab', true],
    ['a{b', 'a{b', true],
    ['a}b', 'a}b', true],
    ['{a{b,c}', '{ac', true],
    ['{a*,b}', 'a*', true],
    ['{a*,b}', 'axx', false],
    ['', '', true],
    ['', 'a', false],
    ['*', '', true],
    ['?', '', false],
  ] as const) {
    assert.is(globMatcher(glob)(text), expected, `${glob} ${text}`);
  }
});

test('a URL that almost matches a glob in many ways is rejected in linear time', () => {
  const glob = `https://${'**a'.repeat(30)}.example/`;
  assert.not(isAllowed(`https://${'a'.repeat(200)}.example/${'a'.repeat(1700)}`, glob));
});

test('a redirect URL beyond the length limit is rejected', () => {
  assert.ok(isAllowed(`${SITE}/${'a'.repeat(1500)}`, ''));
  assert.not(isAllowed(`${SITE}/${'a'.repeat(2048)}`, ''));
});

test.run();
