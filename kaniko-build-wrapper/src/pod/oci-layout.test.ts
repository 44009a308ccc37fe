/** Tests publications of image layouts to a real store: layouts as Kaniko writes them, and hostile ones. */
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Writable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { endRequests, listen } from '@slipway/program';
import { BuildLogs, contentStoreServer, Sites, signGrant } from '@slipway/sites';
import { type Header, pack } from 'tar-stream';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { Refused } from '../request.js';
import { unpackOutput } from './oci-layout.js';
import { publishImage } from './publish.js';

const folder = mkdtempSync(path.join(tmpdir(), 'layout-'));
test.after(() => rmSync(folder, { recursive: true, force: true }));
const LIMITS = { files: 10, fileBytes: 1000, totalBytes: 2000 };

type Entry = Partial<Header> & { name: string; content?: string };

/** Writes an image of one layer. Returns the folder. */
async function layoutOf(entries: readonly Entry[], { gzip = true } = {}): Promise<string> {
  const layout = mkdtempSync(path.join(folder, 'image-'));
  const blobs = path.join(layout, 'blobs/sha256');
  mkdirSync(blobs, { recursive: true });
  const put = (bytes: Buffer, mediaType: string) => {
    const hash = createHash('sha256').update(bytes).digest('hex');
    writeFileSync(path.join(blobs, hash), bytes);
    return { mediaType, digest: `sha256:${hash}`, size: bytes.length };
  };
  const tar = pack();
  for (const { content = '', ...header } of entries)
    tar.entry(header, header.type === undefined ? content : (undefined as never));
  tar.finalize();
  const bytes = await buffer(tar as never);
  const layer = gzip
    ? put(gzipSync(bytes), 'application/vnd.docker.image.rootfs.diff.tar.gzip')
    : put(bytes, 'application/vnd.oci.image.layer.v1.tar');
  const manifest = put(Buffer.from(JSON.stringify({ layers: [layer] })), 'application/vnd.oci.image.manifest.v1+json');
  writeFileSync(path.join(layout, 'index.json'), JSON.stringify({ manifests: [manifest] }));
  return layout;
}

const unpacked = async (entries: readonly Entry[], options = {}) => {
  const target = path.join(mkdtempSync(path.join(folder, 'target-')), 'out');
  await unpackOutput(await layoutOf(entries, options), target, LIMITS);
  return target;
};

for (const gzip of [true, false]) {
  test(`only the output of an image ${gzip ? 'with' : 'without'} compression is unpacked`, async () => {
    const target = await unpacked(
      [
        { name: 'site/', type: 'directory' },
        { name: 'site/index.html', content: 'hello' },
        { name: '/site/a/b.txt', content: 'b' },
        { name: 'etc/passwd', content: 'root' },
        { name: 'sitemap.xml', content: 'x' },
      ],
      { gzip },
    );
    assert.equal(readdirSync(target).sort(), ['a', 'index.html']);
    assert.is(readFileSync(path.join(target, 'a/b.txt'), 'utf8'), 'b');
  });
}

for (const [what, entry, message] of [
  ['a hard link', { name: 'site/x', type: 'link', linkname: 'site/index.html' }, /^x is a hard link/],
  ['a device', { name: 'site/x', type: 'block-device' }, /no regular file/],
  ['a pipe', { name: 'site/x', type: 'fifo' }, /no regular file/],
  ['a step to the parent folder', { name: 'site/../../escaped', content: 'x' }, /leads out/],
  ['too many bytes', { name: 'site/x', content: 'x'.repeat(3000) }, /more bytes than its plan/],
] as const) {
  test(`an output with ${what} is rejected with a message for its owner`, async () => {
    const target = unpacked([{ name: 'site/index.html', content: 'hello' }, entry as Entry]);
    const error = await target.catch((refusal: Error) => refusal);
    assert.instance(error, Refused);
    assert.match(String((error as Error).message), message);
    assert.not.ok(existsSync(path.join(folder, 'escaped')));
  });
}

test('a symbolic link is left out, and a file below it cannot leave the folder', async () => {
  const layout = await layoutOf([
    { name: 'site/index.html', content: 'hello' },
    { name: 'site/up', type: 'symlink', linkname: '../..' },
    { name: 'site/up/inner.txt', content: 'x' },
  ]);
  const target = path.join(folder, 'linked');
  const leftOut = await unpackOutput(layout, target, LIMITS);
  assert.equal(leftOut, ['up is not published: it is a symbolic link. Publish the file itself']);
  assert.equal(readdirSync(target).sort(), ['index.html', 'up']);
  assert.is(readFileSync(path.join(target, 'up/inner.txt'), 'utf8'), 'x');
});

test('an output with too many files is rejected, and so is a layout without exactly one image', async () => {
  const many = Array.from({ length: 12 }, (_, n) => ({ name: `site/${n}`, content: 'x' }));
  assert.match(String(await unpacked(many).catch(String)), /more than 10 files/);
  const layout = await layoutOf([]);
  writeFileSync(path.join(layout, 'index.json'), '{"manifests":[{"digest":"sha256:../../etc/passwd"}]}');
  assert.match(String(await unpackOutput(layout, path.join(folder, 'no'), LIMITS).catch(String)), /no SHA-256 digest/);
  writeFileSync(path.join(layout, 'index.json'), '{}');
  assert.match(String(await unpackOutput(layout, path.join(folder, 'no'), LIMITS).catch(String)), /exactly one image/);
});

test('an image is published with its build’s token, and a rejection is in the termination message', async () => {
  const secret = 'the token of the platform, of at least 32 characters';
  const sites = new Sites(path.join(folder, 'sites'));
  const logs = new BuildLogs(path.join(folder, 'logs'));
  const server = await contentStoreServer({
    sites,
    logs,
    token: () => secret,
    onError: (error) => assert.unreachable(String(error)),
  });
  const egressUrl = await listen(server, '127.0.0.1:0');
  try {
    const grant = { ref: 'shop', build: 'build-1', limits: LIMITS, expiresAt: Date.now() + 60_000 };
    const order = { ref: 'shop', build: 'build-1', egressUrl, token: signGrant(grant, secret), limits: LIMITS };
    let log = '';
    const out = new Writable({ write: (chunk, _, done) => done(void (log += chunk)) });
    const image = await layoutOf([
      { name: 'site/index.html', content: 'hello' },
      { name: 'site/.env', content: 'x' },
    ]);
    assert.equal(await publishImage(order, { image, out }), { kind: 'published', bytes: 5 });
    assert.match(log, /\.env is not published/);
    assert.equal(
      (await sites.deployments('shop')).map(({ id }) => id),
      ['build-1'],
    );
    const linked = await layoutOf([{ name: 'site/x', type: 'symlink', linkname: '/' }]);
    assert.equal(await publishImage(order, { image: linked, out }), {
      kind: 'refused',
      message: 'the output has no file to publish: set output_dir to a folder that the build makes',
    });
    assert.match(log, 'x is not published: it is a symbolic link');
    const stranger = { ...order, build: 'build-2' };
    assert.match(String(await publishImage(stranger, { image, out }).catch(String)), /answered 401/);
  } finally {
    await endRequests(server);
  }
});

test.run();
