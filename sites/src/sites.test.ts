/** Tests deployments on a real disk, made from ordinary and from hostile outputs. */
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { link, mkdir, mkdtemp, readdir, readFile, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { OutputRefused, previewName, refOfPreview, SiteReader, Sites } from './index.js';
import { Output } from './output.js';

interface World {
  root: string;
  sites: Sites;
  output: string;
}

const test = suite<World>('deployments of sites');
const LIMITS = { files: 50, fileBytes: 1_000_000, totalBytes: 2_000_000 };

test.before.each(async (world) => {
  world.root = await mkdtemp(path.join(tmpdir(), 'sites-'));
  world.sites = new Sites(path.join(world.root, 'sites'));
  world.output = path.join(world.root, 'output');
  await mkdir(path.join(world.output, 'assets'), { recursive: true });
  await writeFile(path.join(world.output, 'index.html'), '<h1>one</h1>');
  await writeFile(path.join(world.output, 'assets/ä b.css'), 'a{}');
});
test.after.each(({ root }) => rm(root, { recursive: true, force: true }));

const all = async (files: AsyncIterable<unknown>): Promise<void> => {
  for await (const _ of files);
};

const served = async ({ sites }: World, file = 'index.html') => {
  const id = await sites.liveId('shop');
  return id && (await readFile(path.join(sites.folder, 'shop/deployments', id, 'files', file), 'utf8'));
};

test('a published output becomes a deployment, and is served once it goes live', async (world) => {
  const { sites, output } = world;
  const published = await sites.publish('shop', 'build-1', output, LIMITS);
  assert.equal(published, { id: 'build-1', files: 2, bytes: 15, warnings: [] });
  assert.is(await sites.liveId('shop'), undefined);
  await sites.goLive('shop', 'build-1');
  assert.is(await served(world), '<h1>one</h1>');
  assert.is(await served(world, 'assets/ä b.css'), 'a{}');
  await writeFile(path.join(output, 'index.html'), '<h1>two</h1>');
  assert.is((await sites.publish('shop', 'build-1', output, LIMITS)).bytes, 15);
  assert.is(await served(world), '<h1>one</h1>', 'publishing an id again changes nothing');
  await sites.publish('shop', 'build-2', output, LIMITS);
  assert.is(await served(world), '<h1>one</h1>', 'publishing alone does not go live');
  await sites.goLive('shop', 'build-2');
  assert.is(await served(world), '<h1>two</h1>');
  await sites.goLive('shop', 'build-1');
  assert.is(await served(world), '<h1>one</h1>');
  assert.equal((await sites.deployments('shop')).map(({ id }) => id).sort(), ['build-1', 'build-2']);
});

test('a preview is a site that can be removed alone or with its project', async ({ sites, output }) => {
  const [next, other] = [previewName('shop', 'next'), previewName('shop', 'other')];
  for (const site of ['shop', next, other]) {
    await sites.publish(site, 'build-1', output, LIMITS);
    await sites.goLive(site, 'build-1');
  }
  const reader = new SiteReader(sites.folder);
  assert.is((await reader.live(next))?.id, 'build-1');
  assert.equal((await sites.previews('shop')).sort(), [next, other].sort());
  await sites.remove(next);
  assert.is(await reader.live(next), undefined);
  assert.equal(await sites.previews('shop'), [other]);
  assert.equal([await sites.liveId('shop'), await sites.liveId(other)], ['build-1', 'build-1']);
  await sites.remove('shop');
  assert.is(await reader.live(other), undefined);
  assert.equal(await readdir(sites.folder), []);
});

test('a preview name is a DNS label that differs from any ref and contains its ref', () => {
  for (const ref of ['a', 'xn', 'my--shop', 'x'.repeat(20), `x${'-'.repeat(37)}x`, 'r'.repeat(39)]) {
    for (const branch of ['main', 'Main', 'feature/x', 'feature-x', 'b'.repeat(244)]) {
      const name = previewName(ref, branch);
      assert.match(name, /^[a-z0-9][a-z0-9-]{38,61}[a-z0-9]$/);
      assert.is(refOfPreview(name), ref);
    }
  }
  const names = ['main', 'Main', 'feature/x', 'feature-x'].map((branch) => previewName('shop', branch));
  assert.is(new Set(names).size, 4);
  for (const none of ['shop', 'r'.repeat(39), 'r'.repeat(63), `${'a'.repeat(40)}--`, `${'a'.repeat(25)}--../../x`]) {
    assert.is(refOfPreview(none), undefined, none);
  }
});

test('a file can have the name of an inherited object property', async ({ sites, output }) => {
  for (const name of ['__proto__', 'constructor']) await writeFile(path.join(output, name), 'x');
  assert.is((await sites.publish('shop', 'build-1', output, LIMITS)).files, 4);
  const found = await new SiteReader(sites.folder).manifest('shop', 'build-1');
  assert.is(Object.keys(found?.manifest.files ?? {}).length, 4);
});

test('going live fails when the deployment is not published', async ({ sites, output }) => {
  await sites.publish('shop', 'build-1', output, LIMITS);
  await sites.goLive('shop', 'build-1');
  const failure = await sites.goLive('shop', 'build-2').catch((error: Error) => error.message);
  assert.is(failure, 'shop has no deployment build-2');
  assert.is(await sites.liveId('shop'), 'build-1');
});

test('publishing leaves out links and dotfiles except .well-known, and warns of all but .git', async ({
  sites,
  output,
}) => {
  for (const name of ['.env', '.git/config', '.well-known/security.txt']) {
    await mkdir(path.join(output, path.dirname(name)), { recursive: true });
    await writeFile(path.join(output, name), 'x');
  }
  await symlink('/etc/passwd', path.join(output, 'passwd'));
  await symlink('/etc', path.join(output, 'assets/etc'));
  await symlink('index.html', path.join(output, 'within.html'));
  const { files, warnings } = await sites.publish('shop', 'build-1', output, LIMITS);
  assert.is(files, 3);
  assert.equal(warnings.sort(), [
    '.env is not published: its name begins with a dot',
    'assets/etc is not published: it is a symbolic link. Publish the file itself',
    'passwd is not published: it is a symbolic link. Publish the file itself',
    'within.html is not published: it is a symbolic link. Publish the file itself',
  ]);
});

test('publishing warns of an output without index.html unless it has _redirects', async ({ sites, output }) => {
  const warningsOf = async (id: string) => (await sites.publish('shop', id, output, LIMITS)).warnings;
  await rm(path.join(output, 'index.html'));
  await writeFile(path.join(output, 'about.html'), 'x');
  const [warning, ...others] = await warningsOf('build-1');
  assert.match(warning ?? '', 'the output folder has no index.html, so / responds with 404');
  assert.equal(others, []);
  await writeFile(path.join(output, '_redirects'), '/ /about.html 302\n');
  assert.equal(await warningsOf('build-2'), []);
});

test('an output is rejected when all its paths have more than 4 MiB', async ({ output }) => {
  const folder = path.join(output, Array(4).fill('d'.repeat(200)).join('/'));
  await mkdir(folder, { recursive: true });
  for (let made = 0; made < 4300; made += 1) await writeFile(path.join(folder, `${'f'.repeat(190)}${made}`), '');
  const reading = all(new Output(output, { ...LIMITS, files: 20_000 }).files());
  const refusal = await reading.catch((error) => error);
  assert.instance(refusal, OutputRefused);
  assert.is(refusal.message, 'the paths of the output have more than 4 MiB together');
});

async function onlyLink(output: string): Promise<void> {
  await rm(output, { recursive: true });
  await mkdir(output);
  await symlink('/etc/passwd', path.join(output, 'x'));
}
const mkfifo = async (file: string) => void spawnSync('mkfifo', [file]);
const HOSTILE: [string, (output: string) => Promise<unknown>, RegExp][] = [
  ['nothing but a link', onlyLink, /^the output has no file to publish/],
  ['a hard link', (output) => link(path.join(output, 'index.html'), path.join(output, 'x')), /is a hard link/],
  ['a pipe', (output) => mkfifo(path.join(output, 'x')), /^x is neither a file nor a folder/],
  ['a socket', socketIn, /^x cannot be read/],
  [
    'a file that is too large',
    (output) => sparse(path.join(output, 'x'), 1_000_001),
    /^x has 1 MiB, and a file may have/,
  ],
  ['files that are too large together', threeLarge, /^the output has more than 2 MiB/],
  ['too many files', manyFiles, /^the output has more than 50 files and folders/],
  ['too many folders', manyFolders, /^the output has more than 50 files and folders/],
  ['folders that are too deep', deep, /is deeper than 32 folders/],
  ['a path that is too long', longPath, /has a path of more than 1024 bytes/],
  ['a name with a line break', (output) => writeFile(path.join(output, 'a\nb'), 'x'), /^a\?b has a name/],
  [
    'a name that is no UTF-8',
    (output) => writeFile(Buffer.concat([Buffer.from(`${output}/`), Buffer.from([0xff])]), 'x'),
    /has a name/,
  ],
  ['no folder', (output) => rm(output, { recursive: true }), /^the output folder does not exist/],
  ['a file in its place', fileInPlace, /^the output folder is not a folder/],
  ['a link in its place', linkInPlace, /^the output folder is not a folder/],
];

for (const [what, make, message] of HOSTILE) {
  test(`an output with ${what} is rejected with a reason, and leaves no file`, async (world) => {
    const { sites, output } = world;
    await sites.publish('shop', 'build-1', output, LIMITS);
    await sites.goLive('shop', 'build-1');
    await make(output);
    const refusal = await sites.publish('shop', 'build-2', output, LIMITS).catch((error: unknown) => error);
    assert.instance(refusal, OutputRefused);
    assert.match((refusal as Error).message, message);
    assert.equal(await readdir(path.join(sites.folder, 'shop/incoming')), []);
    assert.equal((await sites.deployments('shop')).length, 1);
    assert.is(await served(world), '<h1>one</h1>');
  });
}

async function socketIn(output: string): Promise<void> {
  const server = createServer().listen(path.join(output, 'x'));
  await once(server, 'listening');
  // A killed process leaves its socket behind.
  server.unref();
}
async function sparse(file: string, bytes: number): Promise<void> {
  await writeFile(file, '');
  await truncate(file, bytes);
}
async function threeLarge(output: string): Promise<void> {
  for (const name of ['x', 'y', 'z']) await sparse(path.join(output, name), 900_000);
}
async function manyFiles(output: string): Promise<void> {
  for (let made = 0; made < 50; made += 1) await writeFile(path.join(output, `f${made}`), '');
}
async function manyFolders(output: string): Promise<void> {
  for (let made = 0; made < 50; made += 1) await mkdir(path.join(output, `f${made}`));
}
async function deep(output: string): Promise<void> {
  await mkdir(path.join(output, Array(34).fill('d').join('/')), { recursive: true });
}
async function longPath(output: string): Promise<void> {
  await mkdir(path.join(output, Array(6).fill('d'.repeat(200)).join('/')), { recursive: true });
}
async function fileInPlace(output: string): Promise<void> {
  await rm(output, { recursive: true });
  await writeFile(output, 'x');
}
async function linkInPlace(output: string): Promise<void> {
  await rm(output, { recursive: true });
  await symlink('/etc', output);
}

test('pruning keeps the live and the newest deployments, and removes unfinished ones', async ({ sites, output }) => {
  for (let number = 1; number <= 4; number += 1) await sites.publish('shop', `build-${number}`, output, LIMITS);
  await sites.goLive('shop', 'build-1');
  await mkdir(path.join(sites.folder, 'shop/incoming/build-9/files'), { recursive: true });
  await sites.prune('shop', 2);
  assert.equal((await sites.deployments('shop')).map(({ id }) => id).sort(), ['build-1', 'build-3', 'build-4']);
  assert.not((await readdir(path.join(sites.folder, 'shop'))).includes('incoming'));
  await sites.remove('shop');
  assert.equal(await readdir(sites.folder), []);
});

test('the bytes of a site are those of all its deployments and previews, on the disk', async ({ sites, output }) => {
  assert.is(await sites.bytes('shop'), 0);
  await writeFile(path.join(output, 'page.html'), 'a'.repeat(10_000));
  await sites.publish('shop', 'build-1', output, LIMITS);
  // Two files of a block; one of three blocks, with two encodings of a block each.
  const one = (2 + 3 + 2) * 4096;
  assert.is(await sites.bytes('shop'), one);
  await sites.publish('shop', 'build-2', output, LIMITS);
  await sites.publish(previewName('shop', 'next'), 'build-1', output, LIMITS);
  assert.is(await sites.bytes('shop'), 3 * one);
  const size = path.join(sites.folder, 'shop/deployments/build-2/size');
  await rm(size);
  assert.is(await sites.bytes('shop'), 3 * one, 'an earlier release wrote no size');
  assert.is(await readFile(size, 'utf8'), `${one}`);
  await sites.discard('shop', 'build-2');
  assert.is(await sites.bytes('shop'), 2 * one);
});

test('text files are also stored in brotli and gzip when these are smaller', async ({ sites, output }) => {
  const page = '<p>hello</p>\n'.repeat(500);
  await writeFile(path.join(output, 'page.html'), page);
  await writeFile(path.join(output, 'noise.txt'), randomBytes(4000));
  await writeFile(path.join(output, 'photo.jpg'), page);
  await sites.publish('shop', 'build-1', output, LIMITS);
  const reader = new SiteReader(sites.folder);
  const files = (await reader.manifest('shop', 'build-1'))?.manifest.files ?? {};
  for (const [encoding, decode] of [
    ['br', brotliDecompressSync],
    ['gzip', gunzipSync],
  ] as const) {
    const file = await reader.open('shop', 'build-1', 'page.html', encoding);
    const encoded = await file?.readFile();
    await file?.close();
    assert.is(encoded?.length, files['page.html']?.[encoding]);
    assert.is(decode(encoded as Buffer).toString(), page);
    for (const name of ['index.html', 'noise.txt', 'photo.jpg']) {
      assert.is(files[name]?.[encoding], undefined);
      assert.is(await reader.open('shop', 'build-1', name, encoding), undefined);
    }
  }
});

for (const name of ['..', '.', 'a/b', '', 'A', '../shop', 'a\0b', 'x'.repeat(300)]) {
  test(`${JSON.stringify(name.slice(0, 20))} is rejected as the name of a site or build`, async ({ sites, output }) => {
    for (const call of [
      () => sites.publish(name, 'build-1', output, LIMITS),
      () => sites.publish('shop', name, output, LIMITS),
      () => sites.remove(name),
      () => sites.goLive('shop', name),
    ]) {
      assert.match(
        await call().then(String, (error: Error) => error.message),
        /is not a valid name of a project or a build/,
      );
    }
  });
}

test('killing a publisher at any moment keeps the live deployment, and the next succeeds', async (world) => {
  const { sites, output } = world;
  for (let made = 0; made < 40; made += 1) await writeFile(path.join(output, `f${made}`), 'x'.repeat(20_000));
  await sites.publish('shop', 'build-1', output, LIMITS);
  await sites.goLive('shop', 'build-1');
  const code = `
    import { Sites } from ${JSON.stringify(new URL('./index.js', import.meta.url).href)};
    const sites = new Sites(${JSON.stringify(sites.folder)});
    process.stdout.write('begun');
    for (let number = 2; ; number += 1) {
      await sites.publish('shop', 'build-' + number, ${JSON.stringify(output)}, ${JSON.stringify(LIMITS)});
      await sites.goLive('shop', 'build-' + number);
      await sites.prune('shop', 2);
    }`;
  for (let kill = 0; kill < 8; kill += 1) {
    const child = spawn(process.execPath, ['--input-type=module', '-e', code], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    await once(child.stdout, 'data');
    await new Promise((resolve) => setTimeout(resolve, 20 + kill * 37));
    child.kill('SIGKILL');
    await once(child, 'exit');
    assert.is(await served(world), '<h1>one</h1>');
    await rm(path.join(sites.folder, 'shop/deployments'), { recursive: true, force: true });
    await sites.publish('shop', 'build-1', output, LIMITS);
    await sites.goLive('shop', 'build-1');
  }
});

test.run();
