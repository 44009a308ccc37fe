/** Tests the files `_redirects` and `_headers` of a site, over HTTP. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SiteWorld } from './hosting.testing.js';

let world: SiteWorld;
test.before(async () => {
  world = await SiteWorld.open();
});
test.after(() => world.close());

const REDIRECTS = `
/home            /
/moved/          /about?from=moved       302
/about.html      /never                  301
/forced.html     /about                  307!
/blog/latest     /blog/first             303
/blog/:year/:slug /posts/:slug?year=:year 308
/out/*           https://other.test/x/:splat
/in/*            /:splat
/loop/*          /loop/*                 302
/self            /self                   301
/page/*          /about                  200
/gone/*          /gone-page.html         404
/lost/*          /no-such-file           200
/old/*           /new/:splat
/api/*           https://api.test/:splat 200
`;
const FILES = {
  _redirects: REDIRECTS,
  'index.html': 'index',
  'about.html': 'about',
  'forced.html': 'forced',
  'gone-page.html': 'gone',
  'page/real.txt': 'real',
  '404.html': 'none',
};

for (const [target, expected] of [
  ['/home', '301 /'],
  ['/home/', '301 /'],
  ['/home?a=1', '301 /?a=1'],
  ['/moved?a=1', '302 /about?from=moved'],
  ['/about.html', '200 about'],
  ['/forced.html', '307 /about'],
  ['/blog/latest', '303 /blog/first'],
  ['/blog/2024/a%20b', '308 /posts/a%20b?year=2024'],
  ['/blog/2024/%2f%2fevil', '404 none'],
  ['/blog/20%3F24/x%26y', '308 /posts/x%26y?year=20%3F24'],
  ['/blog//x', '404 none'],
  ['/out/a/b?c=%0d%0a', '301 https://other.test/x/a/b?c=%0d%0a'],
  ['/out/%0d%0aSet-Cookie:x', '301 https://other.test/x/%0D%0ASet-Cookie%3Ax'],
  ['/out', '301 https://other.test/x/'],
  ['/in//evil.test', '301 /evil.test'],
  ['/in/%2fevil.test', '301 /evil.test'],
  ['/in/%5c%5cevil.test', '301 /%5C%5Cevil.test'],
  ['/self', '404 none'],
  ['/page/any', '200 about'],
  ['/page/real.txt', '200 real'],
  ['/gone/x', '404 gone'],
  ['/lost/x', '404 none'],
  ['/old/a/b/', '301 /new/a/b'],
  ['/api/x', '404 none'],
  ['/_redirects', '404 none'],
  ['/other', '404 none'],
] as const) {
  test(`a redirect rule maps ${target} to ${expected}`, async () => {
    if ((await world.sites.liveId('rules')) === undefined) await world.deploy('rules', FILES);
    const { status, headers, text } = await world.get('rules', target);
    assert.is(`${status} ${headers.location ?? text}`, expected);
    assert.is(headers['x-content-type-options'], 'nosniff');
  });
}

test('the rule /* /index.html 200 serves every path without a file', async () => {
  await world.deploy('spa', { _redirects: '/* /index.html 200', 'index.html': 'index', 'a.js': 'a' });
  for (const [target, expected] of [
    ['/', 'index'],
    ['/a.js', 'a'],
    ['/users/42', 'index'],
    ['/no.js', 'index'],
  ] as const) {
    const { status, text } = await world.get('spa', target, { 'sec-fetch-mode': 'cors' });
    assert.equal([status, text], [200, expected], target);
  }
});

test('headers of several rules are joined or removed, and replace the defaults that a site may change', async () => {
  await world.deploy('headers', {
    _headers: [
      '/*',
      '  X-A: one',
      '  X-Frame-Options: DENY',
      '  Set-Cookie: a=1; Domain=localhost',
      '  X-Accel-Redirect: /secret',
      '/*.txt',
      '  X-A: two',
      '  cache-control: max-age=60',
      '  content-type: text/markdown',
      '/users/:id',
      '  ! X-Frame-Options',
    ].join('\n'),
    'index.html': 'index',
    'a.txt': 'a',
  });
  const index = await world.get('headers', '/');
  assert.is(index.headers['x-a'], 'one');
  assert.is(index.headers['x-frame-options'], 'DENY');
  assert.is(index.headers['content-type'], 'text/html; charset=utf-8');
  // Policy of the gateway for the origins of projects.
  assert.equal([index.headers['set-cookie'], index.headers['x-accel-redirect']], [undefined, undefined]);
  const { headers } = await world.get('headers', '/a.txt');
  assert.is(headers['x-a'], 'one, two');
  assert.is(headers['cache-control'], 'max-age=60');
  assert.is(headers['content-type'], 'text/markdown');
  const user = await world.get('headers', '/users/42');
  assert.equal([user.text, user.headers['x-frame-options'], user.headers['x-a']], ['index', undefined, 'one']);
  assert.match((await world.get('headers', '/_headers')).text, 'index');
  const part = await world.get('headers', '/a.txt', { range: 'bytes=0-0' });
  assert.equal([part.status, part.headers['x-a'], part.headers['content-range']], [206, 'one, two', 'bytes 0-0/1']);
});

test('headers of rules beyond 8 KiB are left out of a response', async () => {
  const rule = (at: number) => `/*\n  X-Header-${at}: ${'x'.repeat(1900)}`;
  await world.deploy('large-headers', {
    _headers: Array.from({ length: 100 }, (_, at) => rule(at)).join('\n'),
    'index.html': 'index',
  });
  const { status, headers } = await world.get('large-headers', '/');
  assert.is(status, 200);
  assert.is(Object.keys(headers).filter((name) => name.startsWith('x-header-')).length, 4);
});

test.run();
