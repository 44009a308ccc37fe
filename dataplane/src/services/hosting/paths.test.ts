/** Tests which file is returned for each path over HTTP, for outputs of bundlers and paths of attackers. */
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { SiteWorld } from './hosting.testing.js';

let world: SiteWorld;
test.before(async () => {
  world = await SiteWorld.open();
});
test.after(() => world.close());

/** Files whose content is their own path. */
const filesOf = (...paths: string[]) => Object.fromEntries(paths.map((each) => [each, each]));

/** Path of a request, and the file of the response, with a status other than 200 before it. */
type Row = [target: string, answer: string];

const OUTPUTS: Record<string, { files: string[]; rows: Row[] }> = {
  vite: {
    files: ['index.html', 'vite.svg', 'assets/index-DiwrgTda.js', 'assets/index-n_ryQ3BS.css'],
    rows: [
      ['/', 'index.html'],
      ['/index.html', 'index.html'],
      ['/?utm=1', 'index.html'],
      ['/assets/index-DiwrgTda.js', 'assets/index-DiwrgTda.js'],
      ['/assets/index-DiwrgTda.js?v=2', 'assets/index-DiwrgTda.js'],
      ['/vite.svg', 'vite.svg'],
      ['/users/42', 'index.html'],
      ['/users/42/', 'index.html'],
      ['/assets/index-00000000.js', '404'],
      ['/missing.png', '404'],
    ],
  },
  astro: {
    files: ['index.html', '404.html', 'about/index.html', 'blog/first/index.html', '_astro/page.CnVmLbEk.css'],
    rows: [
      ['/', 'index.html'],
      ['/about/', 'about/index.html'],
      ['/about', '308 /about/'],
      ['/about?a=%2F&b', '308 /about/?a=%2F&b'],
      ['/blog/first', '308 /blog/first/'],
      ['/blog/', '404 404.html'],
      ['/_astro/page.CnVmLbEk.css', '_astro/page.CnVmLbEk.css'],
      ['/nothing/here', '404 404.html'],
    ],
  },
  'next export': {
    files: [
      'index.html',
      '404.html',
      'about.html',
      'about.txt',
      'docs/intro.html',
      'docs/404.html',
      '_next/static/chunks/app/page-0a1b2c3d4e5f6a7b.js',
      '_next/static/AbCdEf/_buildManifest.js',
    ],
    rows: [
      ['/about', 'about.html'],
      ['/about.html', 'about.html'],
      ['/about.txt', 'about.txt'],
      ['/about/', '404 404.html'],
      ['/docs/intro', 'docs/intro.html'],
      ['/docs/x/y', '404 docs/404.html'],
      ['/docs', '404 404.html'],
      ['/_next/static/chunks/app/page-0a1b2c3d4e5f6a7b.js', '_next/static/chunks/app/page-0a1b2c3d4e5f6a7b.js'],
    ],
  },
  sveltekit: {
    files: [
      'index.html',
      'about.html',
      'about/team.html',
      '_app/immutable/entry/start.B1x2y3Z4.js',
      '_app/version.json',
    ],
    rows: [
      ['/about', 'about.html'],
      ['/about/team', 'about/team.html'],
      ['/_app/immutable/entry/start.B1x2y3Z4.js', '_app/immutable/entry/start.B1x2y3Z4.js'],
      ['/_app/version.json', '_app/version.json'],
      ['/app/route', 'index.html'],
    ],
  },
  plain: {
    files: [
      'index.html',
      'LICENSE',
      'LICENSE.html',
      'ä b/ü.html',
      'a%20b.txt',
      '.well-known/security.txt',
      'c+d.txt',
      '#x',
    ],
    rows: [
      ['/LICENSE', 'LICENSE'],
      ['/%C3%A4%20b/%C3%BC', 'ä b/ü.html'],
      ['/%C3%A4%20b/%C3%BC.html', 'ä b/ü.html'],
      ['/a%2520b.txt', 'a%20b.txt'],
      ['/a%20b.txt', '404'],
      ['/c+d.txt', 'c+d.txt'],
      ['/%23x', '#x'],
      ['/.well-known/security.txt', '.well-known/security.txt'],
      ['/%4CICENSE', 'LICENSE'],
    ],
  },
  'a folder with a name to encode': {
    files: ['ä/?/index.html', '404.html'],
    rows: [['/%C3%A4/%3F', '308 /%C3%A4/%3F/']],
  },
};

for (const [name, { files, rows }] of Object.entries(OUTPUTS)) {
  test(`each path of an output of ${name} returns its file`, async () => {
    const ref = `site-${name.replaceAll(' ', '-')}`;
    await world.deploy(ref, filesOf(...files));
    for (const [target, expected] of rows) {
      const { status, headers, text } = await world.get(ref, target);
      const answer = status === 308 ? headers.location : text.startsWith('{') ? '' : text;
      assert.is([...(status === 200 ? [] : [status]), answer].join(' ').trim(), expected, target);
    }
  });
}

test('a browser gets the fallback page only for navigations', async () => {
  await world.deploy('fallback', filesOf('index.html'));
  const status = async (target: string, mode: string) =>
    (await world.get('fallback', target, { 'sec-fetch-mode': mode })).status;
  assert.is(await status('/a/b', 'navigate'), 200);
  assert.is(await status('/v1.2', 'navigate'), 200);
  assert.is(await status('/a/b', 'cors'), 404);
  assert.is(await status('/a.js', 'no-cors'), 404);
  assert.is((await world.get('fallback', '/a/b')).headers.vary, 'Sec-Fetch-Mode');
});

for (const target of [
  '/../../live',
  '/..%2f..%2f..%2flive',
  '/%2e%2e/%2e%2e/manifest.json',
  '/assets/../../manifest.json',
  '/..%5c..%5clive',
  '/%252e%252e%252fmanifest.json',
  '//etc/passwd',
  '/%2Fetc%2Fpasswd',
  '/a%00.html',
  '/index.html%00',
  '/index.html/',
  '/index.html/.',
  '/./index.html',
  '/assets//app.js',
  '/.env',
  '/manifest.json',
  '/files/index.html',
  '/constructor',
  '/__proto__',
  '/assets',
  '/assets/',
  '/INDEX.HTML',
  `/${'a/'.repeat(6000)}`,
]) {
  test(`the path ${target.slice(0, 40)} returns 404`, async () => {
    await world.deploy('attacked', filesOf('index.html', 'assets/app.js', '404.html'));
    const { status, text } = await world.get('attacked', target);
    assert.equal([status, text], [404, '404.html']);
  });
}

for (const target of ['/%', '/%zz', '/%ff', '/%c0%af', '/%u002e']) {
  test(`the path ${target} returns 400, because it is no UTF-8 in percent-encoding`, async () => {
    await world.deploy('attacked', filesOf('index.html'));
    const { status, text } = await world.get('attacked', target);
    assert.is(status, 400);
    assert.match(JSON.parse(text).message, /^The path of the URL is not UTF-8/);
  });
}

test('a redirect never leads to another host', async () => {
  await world.deploy('redirects', filesOf('evil.test/index.html', '404.html'));
  for (const target of ['//evil.test', '/%2Fevil.test', '/%5Cevil.test', '///evil.test', '/\\evil.test']) {
    const { status, headers } = await world.get('redirects', target);
    assert.equal([status, headers.location], [404, undefined], target);
  }
  const { headers } = await world.get('redirects', '/evil.test?x=//other.test');
  assert.is(headers.location, '/evil.test/?x=//other.test');
});

test.run();
