/** Tests sites over HTTP: headers, validators, switches of the live deployment, and missing files. */
import { randomBytes } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { previewName } from '@slipway/sites';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { SiteWorld } from './hosting.testing.js';

const test = suite<{ world: SiteWorld }>('hosting');
test.before(async (context) => {
  context.world = await SiteWorld.open();
});
test.after(({ world }) => world.close());

test('a file has type, length, validator and nosniff, and HEAD returns the same without a body', async ({ world }) => {
  await world.deploy('shop', { 'index.html': '<h1>hällo</h1>' });
  const { status, headers, text } = await world.get('shop', '/');
  assert.equal([status, text], [200, '<h1>hällo</h1>']);
  assert.is(headers['content-type'], 'text/html; charset=utf-8');
  assert.is(headers['content-length'], '15');
  assert.is(headers['x-content-type-options'], 'nosniff');
  assert.is(headers['cache-control'], 'public, max-age=0, must-revalidate');
  assert.match(headers.etag as string, /^"[\w-]{43}"$/);
  const head = await world.get('shop', '/', {}, 'HEAD');
  assert.equal([head.status, head.text], [200, '']);
  for (const name of ['content-type', 'content-length', 'etag', 'cache-control'] as const) {
    assert.is(head.headers[name], headers[name]);
  }
});

const TYPES = [
  ['a.css', 'text/css; charset=utf-8'],
  ['a.js', 'text/javascript; charset=utf-8'],
  ['a.mjs', 'text/javascript; charset=utf-8'],
  ['a.json', 'application/json; charset=utf-8'],
  ['a.webmanifest', 'application/manifest+json; charset=utf-8'],
  ['a.svg', 'image/svg+xml'],
  ['a.wasm', 'application/wasm'],
  ['a.woff2', 'font/woff2'],
  ['a.avif', 'image/avif'],
  ['a.PNG', 'image/png'],
  ['a.txt', 'text/plain; charset=utf-8'],
  ['a.unknown', 'application/octet-stream'],
  ['noextension', 'application/octet-stream'],
] as const;

test('each file extension has its content type', async ({ world }) => {
  await world.deploy('types', Object.fromEntries(TYPES.map(([file]) => [file, 'x'])));
  for (const [file, type] of TYPES) {
    assert.is((await world.get('types', `/${file}`)).headers['content-type'], type, file);
  }
});

/** Waits until a switch of the live deployment takes effect, which takes at most a second. */
async function sees(world: SiteWorld, ref: string, target: string, text: string): Promise<void> {
  await until(async () => (await world.get(ref, target)).text === text, `the text ${text}`, 1_000);
}

test('a client that has the current file gets 304 without a body', async ({ world }) => {
  await world.deploy('cached', { 'index.html': 'x', '404.html': 'none' });
  const { headers } = await world.get('cached', '/');
  const etag = headers.etag as string;
  for (const known of [etag, `W/${etag}`, `"other", ${etag}`, '*']) {
    for (const method of ['GET', 'HEAD']) {
      const answer = await world.get('cached', '/', { 'if-none-match': known }, method);
      assert.equal([answer.status, answer.text, answer.headers.etag], [304, '', etag], known);
      assert.is(answer.headers['content-type'], undefined);
      assert.is(answer.headers['cache-control'], headers['cache-control']);
    }
  }
  assert.is((await world.get('cached', '/', { 'if-none-match': '"other"' })).status, 200);
  assert.is((await world.get('cached', '/none', { 'if-none-match': '*' })).status, 404);
});

const HASHES = [
  ['assets/index-DiwrgTda.js', true],
  ['assets/index-n_ryQ3BS.css', true],
  ['app/assets/deep/index-n_ryQ3BS.css', true],
  ['_next/static/chunks/app/page.js', true],
  ['_app/immutable/entry/start.js', true],
  ['_astro/page.CnVmLbEk.css', true],
  ['static/js/main.8f3b2c1d.chunk.js', true],
  ['index.html', false],
  ['assets/logo-n_ryQ3BS.svg', true],
  ['assets/logo.svg', false],
  ['assets/my-LongName.svg', false],
  ['assets/my-Version2.svg', false],
  ['assets/holiday-IMG_2024.jpg', false],
  ['assets/my-component.js', false],
  ['photos/summer-20240817.jpg', false],
  ['report.deadbeef.pdf', false],
  ['_app/version.json', false],
] as const;

test('only files whose name has a hash are immutable', async ({ world }) => {
  await world.deploy('hashes', Object.fromEntries(HASHES.map(([file]) => [file, file])));
  for (const [file, isImmutable] of HASHES) {
    const expected = isImmutable ? 'public, max-age=31536000, immutable' : 'public, max-age=0, must-revalidate';
    assert.is((await world.get('hashes', `/${file}`)).headers['cache-control'], expected, file);
  }
});

test('a missing file is never immutable', async ({ world }) => {
  await world.deploy('missing', { 'index.html': 'x' });
  const { status, headers } = await world.get('missing', '/assets/index-DiwrgTda.js');
  assert.equal([status, headers['cache-control']], [404, 'no-store']);
});

test('empty files, files beyond the memory and binary files arrive completely', async ({ world }) => {
  const [small, large] = [randomBytes(200_000), randomBytes(3_000_001)];
  await world.deploy('sizes', { empty: '', small, large });
  for (let repeat = 0; repeat < 2; repeat += 1) {
    assert.is((await world.get('sizes', '/empty')).body.length, 0);
    assert.equal((await world.get('sizes', '/small')).body, small);
    assert.equal((await world.get('sizes', '/large')).body, large);
  }
});

test('text is sent in brotli or gzip to clients that accept it, each encoding with its own ETag', async ({ world }) => {
  const page = '<p>hello</p>\n'.repeat(1000);
  await world.deploy('encoded', { 'index.html': page, 'small.txt': 'small', 'noise.js': randomBytes(5000) });
  const tags = new Set();
  for (const [accepted, expected] of [
    ['gzip, deflate, br, zstd', 'br'],
    ['br;q=0.1', 'br'],
    ['gzip', 'gzip'],
    ['x-gzip', 'gzip'],
    ['GZIP;q=1.0, br;q=0', 'gzip'],
    ['*', 'br'],
    ['*, br;q=0.000', 'gzip'],
    ['deflate', undefined],
    ['identity, *;q=0', undefined],
    ['', undefined],
  ] as const) {
    const { headers, body, status } = await world.get('encoded', '/', { 'accept-encoding': accepted });
    assert.is(headers['content-encoding'], expected, accepted);
    assert.is(headers['content-type'], 'text/html; charset=utf-8');
    assert.is(headers.vary, 'Accept-Encoding');
    assert.is(headers['content-length'], `${body.length}`);
    const decoded = expected === undefined ? body : expected === 'br' ? brotliDecompressSync(body) : gunzipSync(body);
    assert.is(decoded.toString(), page);
    assert.is(status, 200);
    tags.add(headers.etag);
    const again = { 'accept-encoding': accepted, 'if-none-match': headers.etag as string };
    const unchanged = await world.get('encoded', '/', again);
    assert.equal([unchanged.status, unchanged.headers['content-encoding'], unchanged.text], [304, undefined, '']);
    assert.is(unchanged.headers.vary, 'Accept-Encoding');
  }
  assert.is(tags.size, 3);
  for (const target of ['/small.txt', '/noise.js']) {
    const { headers } = await world.get('encoded', target, { 'accept-encoding': 'br' });
    assert.equal([headers['content-encoding'], headers.vary], [undefined, undefined], target);
  }
});

test('a range request gets 206 with the bytes of the uncompressed file, from memory and from disk', async ({
  world,
}) => {
  const [small, large] = [Buffer.from('0123456789'.repeat(500)), randomBytes(2_000_000)];
  await world.deploy('ranges', { 'small.txt': small, large, empty: '' });
  for (const [target, file] of [
    ['/small.txt', small],
    ['/large', large],
  ] as const) {
    const last = file.length - 1;
    for (const [range, start, end] of [
      ['bytes=0-0', 0, 0],
      ['bytes=10-19', 10, 19],
      ['bytes=100-', 100, last],
      ['bytes=-5', last - 4, last],
      [`bytes=-${file.length + 5}`, 0, last],
      [`bytes=1-${file.length + 5}`, 1, last],
    ] as const) {
      const { status, headers, body } = await world.get('ranges', target, { range, 'accept-encoding': 'br' });
      assert.is(status, 206, range);
      assert.equal(body, file.subarray(start, end + 1));
      assert.is(headers['content-range'], `bytes ${start}-${end}/${file.length}`);
      assert.is(headers['content-length'], `${end - start + 1}`);
      assert.is(headers['content-encoding'], undefined);
    }
    for (const range of [
      'bytes=5-2',
      'bytes=-',
      'bytes=a-b',
      'bytes=0-1,3-4',
      'lines=0-1',
      `bytes=${'9'.repeat(30)}-`,
    ]) {
      const { status, body } = await world.get('ranges', target, { range });
      assert.is(status, 200, range);
      assert.equal(body, file);
    }
  }
  for (const [target, range, length] of [
    ['/small.txt', 'bytes=5000-', 5000],
    ['/small.txt', 'bytes=-0', 5000],
    ['/empty', 'bytes=0-', 0],
    ['/empty', 'bytes=-1', 0],
  ] as const) {
    const { status, headers, text } = await world.get('ranges', target, { range });
    assert.equal([status, headers['content-range'], text], [416, `bytes */${length}`, ''], range);
  }
});

test('a request with If-Range gets a range only of the same version', async ({ world }) => {
  await world.deploy('if-range', { 'a.txt': '0123456789', '404.html': 'none' });
  const { headers } = await world.get('if-range', '/a.txt');
  const get = async (ifRange: string) => {
    const { status, text } = await world.get('if-range', '/a.txt', { range: 'bytes=2-3', 'if-range': ifRange });
    return [status, text];
  };
  assert.equal(await get(headers.etag as string), [206, '23']);
  for (const other of ['"other"', `W/${headers.etag}`, 'Wed, 21 Oct 2015 07:28:00 GMT']) {
    assert.equal(await get(other), [200, '0123456789'], other);
  }
  const head = await world.get('if-range', '/a.txt', { range: 'bytes=2-3' }, 'HEAD');
  assert.equal([head.status, head.headers['content-length']], [200, '10']);
  assert.is((await world.get('if-range', '/none', { range: 'bytes=0-1' })).status, 404);
});

test('a deployment whose manifest names no encodings is served uncompressed', async ({ world }) => {
  const page = '<p>hello</p>'.repeat(1000);
  const id = await world.publish('former', { 'index.html': page });
  const folder = path.join(world.sites.folder, 'former/deployments', id);
  const manifest = JSON.parse(await readFile(path.join(folder, 'manifest.json'), 'utf8'));
  const { bytes, hash } = manifest.files['index.html'];
  manifest.files['index.html'] = { bytes, hash };
  await writeFile(path.join(folder, 'manifest.json'), JSON.stringify(manifest));
  await world.sites.goLive('former', id);
  const { status, headers, text } = await world.get('former', '/', { 'accept-encoding': 'br' });
  assert.equal([status, headers['content-encoding'], text], [200, undefined, page]);
});

test('a switch of the live deployment takes effect within a second, without a restart', async ({ world }) => {
  assert.match((await world.get('turns', '/')).text, /Nothing is deployed yet/);
  const first = await world.deploy('turns', { 'index.html': 'first' });
  await sees(world, 'turns', '/', 'first');
  await world.deploy('turns', { 'index.html': 'second' });
  await sees(world, 'turns', '/', 'second');
  await world.sites.goLive('turns', first);
  await sees(world, 'turns', '/', 'first');
  await world.sites.remove('turns');
  await until(async () => (await world.get('turns', '/')).status === 404, 'status 404', 1_000);
});

test('a site that was removed and created again under its name serves its new files', async ({ world }) => {
  const deploy = async (text: string) => {
    const id = await world.publish('anew', { 'index.html': text });
    await world.sites.goLive('anew', id);
  };
  await deploy('old');
  await sees(world, 'anew', '/', 'old');
  await world.sites.remove('anew');
  await deploy('new');
  await sees(world, 'anew', '/', 'new');
});

test('a request whose deployment is pruned gets the live deployment', async ({ world }) => {
  const first = await world.deploy('pruned', { 'index.html': 'first', 'a.txt': 'one' });
  await sees(world, 'pruned', '/', 'first');
  await world.deploy('pruned', { 'index.html': 'second', 'a.txt': 'two' });
  await rm(path.join(world.sites.folder, 'pruned/deployments', first), { recursive: true });
  assert.is((await world.get('pruned', '/a.txt')).text, 'two');
});

test('a request gets files of only one deployment while other deployments go live', async ({ world }) => {
  const of = (number: number) => ({ 'index.html': `${number}`, 'large.bin': Buffer.alloc(2_000_000, number) });
  const ids = [await world.publish('switches', of(1)), await world.publish('switches', of(2))];
  await world.sites.goLive('switches', ids[0] as string);
  let goes = true;
  const switching = (async () => {
    for (let turn = 0; goes; turn += 1) await world.sites.goLive('switches', ids[turn % 2] as string);
  })();
  for (let tries = 0; tries < 40; tries += 1) {
    const { status, body } = await world.get('switches', '/large.bin');
    assert.is(status, 200);
    assert.is(body.length, 2_000_000);
    assert.equal(body, Buffer.alloc(body.length, body[0]));
  }
  goes = false;
  await switching;
});

test('an open page still gets the hashed files of its deployment after a switch, and no other files', async ({
  world,
}) => {
  const files = (name: string, text: string) => ({
    'index.html': text,
    [`assets/${name}.js`]: text.repeat(1000),
    [`${text}.txt`]: text,
    _redirects: '/* /index.html 200',
  });
  const first = await world.deploy('tabs', files('index-DiwrgTda', 'first'));
  await sees(world, 'tabs', '/', 'first');
  await world.deploy('tabs', files('index-Bx1_GTdb', 'second'));
  await sees(world, 'tabs', '/', 'second');
  const { status, headers, text } = await world.get('tabs', '/assets/index-DiwrgTda.js', { 'accept-encoding': 'br' });
  assert.equal([status, headers['content-encoding']], [200, 'br'], text);
  assert.is((await world.get('tabs', '/assets/index-DiwrgTda.js')).text, 'first'.repeat(1000));
  assert.is(headers['cache-control'], 'public, max-age=31536000, immutable');
  assert.is((await world.get('tabs', '/assets/index-Bx1_GTdb.js')).text, 'second'.repeat(1000));
  assert.is((await world.get('tabs', '/first.txt')).text, 'second');
  await rm(path.join(world.sites.folder, 'tabs/deployments', first), { recursive: true });
  const large = await world.get('tabs', '/assets/index-DiwrgTda.js', { 'accept-encoding': 'gzip' });
  assert.equal([large.status, large.text], [200, 'second'], 'pruned since');
});

test('a deployment that never went live is not served, whatever the names of its files', async ({ world }) => {
  await world.deploy('secretive', { 'index.html': 'live' });
  await world.publish('secretive', { 'index.html': 'draft', 'assets/index-DiwrgTda.js': 'draft' });
  assert.is((await world.get('secretive', '/assets/index-DiwrgTda.js')).status, 404);
});

test('a preview is served only at its own host name, and with the header noindex', async ({ world }) => {
  const preview = previewName('previewed', 'feature/x');
  await world.deploy('previewed', { 'index.html': 'the site', 'old.txt': 'x' });
  await world.deploy(preview, {
    'index.html': 'the preview',
    _headers: '/*\n  x-robots-tag: all\n  X-Own: 1',
    _redirects: '/old /new',
  });
  const { status, text, headers } = await world.get(preview, '/');
  assert.equal([status, text, headers['x-robots-tag'], headers['x-own']], [200, 'the preview', 'noindex', '1']);
  for (const [target, method, expected] of [
    ['/old', 'GET', 301],
    ['/none.txt', 'GET', 404],
    ['/%', 'GET', 400],
    ['/', 'POST', 405],
  ] as const) {
    const answer = await world.get(preview, target, {}, method);
    assert.equal([answer.status, answer.headers['x-robots-tag']], [expected, 'noindex'], target);
  }
  const site = await world.get('previewed', '/');
  assert.equal([site.text, site.headers['x-robots-tag']], ['the site', undefined]);
  const unknown = await world.get(previewName('previewed', 'other'), '/');
  assert.equal([unknown.status, unknown.headers['x-robots-tag']], [404, 'noindex']);
  assert.is((await world.get(previewName('suspended', 'x'), '/')).status, 503);
  const byPath = await world.get('previewed', `/p/${preview}/`);
  assert.not.match(byPath.text, /the preview/);
});

test('a removed preview returns 404', async ({ world }) => {
  const preview = previewName('removed', 'next');
  await world.deploy(preview, { 'index.html': 'x' });
  assert.is((await world.get(preview, '/')).status, 200);
  await world.sites.remove(preview);
  await until(async () => (await world.get(preview, '/')).status === 404, 'status 404', 1_000);
});

test('each response of a site has a unique id', async ({ world }) => {
  await world.deploy('ids', { 'index.html': 'x', 'a/index.html': 'a', '404.html': 'none' });
  const ids = new Set<unknown>();
  for (const target of ['/', '/', '/a', '/none', '/%'])
    ids.add((await world.get('ids', target)).headers['x-request-id']);
  ids.add((await world.get('ids', '/', {}, 'POST')).headers['x-request-id']);
  ids.add((await world.get('nothing-deployed', '/')).headers['x-request-id']);
  assert.is(ids.has(undefined), false);
  assert.is(ids.size, 7);
});

test('a request to one site cannot read files of another site', async ({ world }) => {
  await world.deploy('one', { 'index.html': 'one', 'secret.txt': 'of one' });
  await world.deploy('two', { 'index.html': 'two', '404.html': 'none' });
  assert.is((await world.get('one', '/secret.txt')).text, 'of one');
  for (const target of ['/secret.txt', '/../one/secret.txt', '/%2e%2e/%2e%2e/%2e%2e/%2e%2e/one/live']) {
    assert.is((await world.get('two', target)).text, 'none', target);
  }
});

for (const ref of ['..', 'a%2fb', 'x'.repeat(70)]) {
  test(`the ref ${ref.slice(0, 8)} reads no file outside of the folder`, async ({ world }) => {
    const { status } = await world.get(ref, '/');
    assert.ok(status === 404 || status === 500 || status === 400, `${status}`);
  });
}

test.run();
