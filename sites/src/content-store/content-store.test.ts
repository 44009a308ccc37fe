/**
 * Tests the store over real sockets, with real folders: requests of the platform, publications, and hostile requests.
 */
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { endRequests, listen } from '@slipway/program';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { BuildLogs } from '../build-logs.js';
import { OutputRefused } from '../output.js';
import { previewName } from '../preview-names.js';
import { SiteReader } from '../site-reader.js';
import { type KeptOutputs, Sites } from '../sites.js';
import { ContentStoreClient, publishTo } from './client.js';
import { signGrant } from './grants.js';
import { contentStoreServer } from './server.js';

interface World {
  root: string;
  output: string;
  sites: Sites;
  server: Server;
  origin: string;
  client: ContentStoreClient;
  failures: unknown[];
}

const test = suite<World>('content store');
const TOKEN = 'the token of the platform, of at least 32 characters';
const LIMITS = { files: 20, fileBytes: 1_000_000, totalBytes: 2_000_000 };
const NOW = 1_000_000;
const KEPT: KeptOutputs = { deployments: 5, previews: [], previewDeployments: 1, written: [] };

test.before.each(async (world) => {
  world.root = await mkdtemp(path.join(tmpdir(), 'content-store-'));
  world.output = path.join(world.root, 'output');
  await mkdir(path.join(world.output, 'assets'), { recursive: true });
  await writeFile(path.join(world.output, 'index.html'), '<h1>one</h1>');
  await writeFile(path.join(world.output, 'assets/ä.css'), Buffer.alloc(700_000, 'a'));
  world.sites = new Sites(path.join(world.root, 'sites'));
  world.failures = [];
  const logs = new BuildLogs(path.join(world.root, 'logs'));
  const onError = (error: unknown) => void world.failures.push(error);
  world.server = await contentStoreServer({ sites: world.sites, logs, token: () => TOKEN, now: () => NOW, onError });
  world.origin = await listen(world.server, '127.0.0.1:0');
  world.client = new ContentStoreClient({ originOf: () => world.origin, token: async () => TOKEN });
});
test.after.each(async ({ root, server, client }) => {
  await client.close();
  await endRequests(server);
  await rm(root, { recursive: true, force: true });
});

const grant = (build: string, more = {}) =>
  signGrant({ ref: 'shop', build, limits: LIMITS, expiresAt: NOW + 1, ...more }, TOKEN);
const publish = ({ origin, output }: World, build: string, token = grant(build)) =>
  publishTo({ origin, token, ref: 'shop', build }, output, LIMITS);
const put = ({ origin }: World, target: string, body: Buffer | string, token: string) =>
  fetch(`${origin}${target}`, { method: 'PUT', body, headers: { authorization: `Bearer ${token}` } });
const frame = (name: string, content: string) => {
  const head = Buffer.alloc(4);
  head.writeUInt32BE(Buffer.byteLength(name));
  const size = Buffer.alloc(8);
  size.writeBigUInt64BE(BigInt(content.length));
  return Buffer.concat([head, Buffer.from(name), size, Buffer.from(content)]);
};
const END = Buffer.alloc(4);

test('a published output goes live only on the platform’s request, and can be rolled back', async (world) => {
  const { client, sites } = world;
  assert.is(await client.goLive('shop', 'build-1'), false);
  const published = await publish(world, 'build-1');
  assert.equal(published, { id: 'build-1', files: 2, bytes: 700_012, warnings: [] });
  assert.is(await client.liveId('shop'), undefined);
  assert.is(await client.goLive('shop', 'build-1'), true);
  await writeFile(path.join(world.output, 'index.html'), '<h1>two</h1>');
  await publish(world, 'build-2');
  assert.is(await client.goLive('shop', 'build-2'), true);
  assert.is(await client.liveId('shop'), 'build-2');
  const files = path.join(sites.folder, 'shop/deployments/build-2/files');
  assert.is(await readFile(path.join(files, 'index.html'), 'utf8'), '<h1>two</h1>');
  assert.is((await readFile(path.join(files, 'assets/ä.css'))).length, 700_000);
  assert.is(await client.goLive('shop', 'build-1'), true);
  assert.is(await client.liveId('shop'), 'build-1');
});

test('a client reads its token once for many requests, and again after the store rejects it', async (world) => {
  let reads = 0;
  const tokens = [async () => Promise.reject(new Error('no Secret')), async () => 'an old token', async () => TOKEN];
  const token = () => (tokens[Math.min(reads++, 2)] as () => Promise<string>)();
  const client = new ContentStoreClient({ originOf: () => world.origin, token });
  assert.match(String(await client.liveId('shop').catch(String)), /no Secret/);
  assert.match(String(await client.liveId('shop').catch(String)), /answered GET with the status 401/);
  for (let each = 0; each < 50; each += 1) assert.is(await client.liveId('shop'), undefined);
  assert.is(reads, 3);
  await client.close();
});

test('discarding a build deletes its log, and deletes its deployment unless the deployment is live', async (world) => {
  const { client, sites } = world;
  for (const build of ['build-1', 'build-2']) {
    await publish(world, build);
    await client.putLog('shop', build, { number: 1, section: 'Cloning' }, { at: 0, bytes: Buffer.from('x') });
  }
  await client.goLive('shop', 'build-1');
  for (const build of ['build-1', 'build-2']) await client.discard('shop', build);
  assert.equal(
    (await sites.deployments('shop')).map(({ id }) => id),
    ['build-1'],
  );
  assert.equal(await client.sections('shop', 'build-2'), []);
});

test('a log is unchanged when its writer writes the same text again from the start', async ({ client }) => {
  const long = Buffer.alloc(600_000, 'b');
  for (let attempt = 1; attempt <= 2; attempt += 1) {
    await client.putLog('shop', 'build-1', { number: 1, section: 'Cloning' }, { at: 0, bytes: Buffer.from('one\n') });
    await client.putLog('shop', 'build-1', { number: 2, section: 'Building' }, { at: 0, bytes: long });
    await client.putLog(
      'shop',
      'build-1',
      { number: 2, section: 'Building' },
      { at: 600_000, bytes: Buffer.from('c') },
    );
  }
  assert.equal(await client.sections('shop', 'build-1'), [
    { section: 'Cloning', bytes: 4 },
    { section: 'Building', bytes: 600_001 },
  ]);
  assert.is((await client.read('shop', 'build-1', 2, 4)).toString(), 'e\n');
  assert.is((await client.read('shop', 'build-1', 600_003, 4)).toString(), 'bc');
  assert.is(await client.bytes('shop'), 600_005);
  await client.keepOnly('shop', ['build-2'], KEPT);
  assert.equal(await client.sections('shop', 'build-1'), []);
  assert.is(await client.bytes('shop'), 0);
});

const NEXT = previewName('shop', 'next');

async function deployPreview(world: World, preview: string, build: string): Promise<void> {
  const { origin, output, client } = world;
  const token = grant(build, { ref: preview });
  await publishTo({ origin, token, ref: preview, build }, output, LIMITS);
  assert.is(await client.goLive(preview, build), true);
}

test('a preview goes live beside its site, with the log at its project', async (world) => {
  const { client } = world;
  await publish(world, 'build-1');
  await client.goLive('shop', 'build-1');
  await deployPreview(world, NEXT, 'build-2');
  assert.equal([await client.liveId('shop'), await client.liveId(NEXT)], ['build-1', 'build-2']);
  await client.putLog('shop', 'build-3', { number: 1, section: 'Cloning' }, { at: 0, bytes: Buffer.from('x') });
  await client.discard(NEXT, 'build-3');
  assert.equal(await client.sections('shop', 'build-3'), []);
  await client.remove('shop');
  assert.is(await client.liveId(NEXT), undefined);
});

test('a client finds a preview in the store of its project', async ({ origin }) => {
  const refs: string[] = [];
  const originOf = (ref: string) => {
    refs.push(ref);
    return origin;
  };
  const client = new ContentStoreClient({ originOf, token: async () => TOKEN });
  await client.liveId(NEXT);
  await client.goLive(NEXT, 'build-1');
  assert.equal(refs, ['shop', 'shop']);
  await client.close();
});

test('previews that are not kept are removed, except those that a build may write to', async (world) => {
  const { client, sites } = world;
  const [gone, written] = [previewName('shop', 'gone'), previewName('shop', 'written')];
  await publish(world, 'build-1');
  await client.goLive('shop', 'build-1');
  for (const preview of [gone, written, NEXT]) await deployPreview(world, preview, 'build-2');
  for (const build of ['build-3', 'build-4']) await deployPreview(world, NEXT, build);
  await client.keepOnly('shop', [], { ...KEPT, previews: [NEXT], written: [written] });
  assert.equal((await sites.previews('shop')).sort(), [NEXT, written].sort());
  assert.equal([await client.liveId('shop'), await client.liveId(NEXT)], ['build-1', 'build-4']);
  assert.is((await sites.deployments(NEXT)).length, 1);
});

test('an operator that sends nothing about previews still prunes a site', async ({ origin, client, ...world }) => {
  for (const build of ['build-1', 'build-2']) await publish({ origin, client, ...world }, build);
  await client.goLive('shop', 'build-1');
  const answer = await fetch(`${origin}/sites/shop/kept`, {
    method: 'POST',
    body: JSON.stringify({ builds: [], deployments: 0 }),
    headers: { authorization: `Bearer ${TOKEN}` },
  });
  assert.is(answer.status, 204);
  assert.equal(
    (await world.sites.deployments('shop')).map(({ id }) => id),
    ['build-1'],
  );
});

test('removing a site deletes all its files', async (world) => {
  const { client, sites } = world;
  await publish(world, 'build-1');
  await client.goLive('shop', 'build-1');
  await client.remove('shop');
  assert.is(await client.liveId('shop'), undefined);
  assert.equal(await sites.deployments('shop'), []);
});

for (const [what, token] of [
  ['of another build', grant('build-2')],
  ['of another project', grant('build-1', { ref: 'other' })],
  ['of a preview of the project', grant('build-1', { ref: previewName('shop', 'next') })],
  ['that has expired', grant('build-1', { expiresAt: NOW })],
  ['that another secret signed', signGrant({ ref: 'shop', build: 'build-1', limits: LIMITS, expiresAt: NOW + 1 }, 'x')],
  ['without a signature', grant('build-1').split('.')[0] as string],
  ['of the platform', TOKEN],
] as const) {
  test(`a publication with a token ${what} is rejected, and leaves no file`, async (world) => {
    const answer = await put(
      world,
      '/sites/shop/builds/build-1/deployment',
      Buffer.concat([frame('a', 'a'), END]),
      token,
    );
    assert.is(answer.status, 401);
    assert.equal(await world.sites.deployments('shop'), []);
  });
}

test('the token of a build allows neither going live nor reading a log', async (world) => {
  const token = grant('build-1');
  await publish(world, 'build-1', token);
  assert.is((await put(world, '/sites/shop/live', '{"build":"build-1"}', token)).status, 401);
  assert.is((await put(world, '/sites/shop/builds/build-1/log/1-Cloning?at=0', 'x', token)).status, 401);
  const headers = { authorization: `Bearer ${token}` };
  for (const target of ['/sites/shop', '/sites/shop/builds/build-1/log'])
    assert.is((await fetch(`${world.origin}${target}`, { headers })).status, 401);
  assert.is(await world.client.liveId('shop'), undefined);
});

for (const [what, body] of [
  ['a step to the parent folder', Buffer.concat([frame('../../escaped', 'x'), END])],
  ['an absolute path', Buffer.concat([frame('/tmp/escaped', 'x'), END])],
  ['an empty step', Buffer.concat([frame('a//b', 'x'), END])],
  ['a NUL', Buffer.concat([frame('a\0b', 'x'), END])],
  ['a name twice', Buffer.concat([frame('a', 'x'), frame('a', 'y'), END])],
  ['a file above a file', Buffer.concat([frame('a', 'x'), frame('a/b', 'y'), END])],
  ['a step of 300 bytes', Buffer.concat([frame('n'.repeat(300), 'x'), END])],
  ['folders nested too deep', Buffer.concat([frame(`${'a/'.repeat(40)}a`, 'x'), END])],
  ['a path of 4 GiB', Buffer.from('ffffffff', 'hex')],
  ['no end', frame('a', 'x')],
  ['half a file', frame('a', 'xyz').subarray(0, -1)],
] as const) {
  test(`a publication with ${what} is rejected, and leaves no file`, async (world) => {
    const answer = await put(world, '/sites/shop/builds/build-1/deployment', body, grant('build-1'));
    assert.is(answer.status, 400);
    assert.equal(await world.sites.deployments('shop'), []);
    assert.equal(world.failures, []);
  });
}

test('a publication above the limits of its grant is rejected with a message for the owner', async (world) => {
  const small = { ...LIMITS, totalBytes: 1000 };
  const refused = publish(world, 'build-1', grant('build-1', { limits: small }));
  assert.instance(await refused.catch((error: unknown) => error), OutputRefused);
  const folders = Buffer.concat([...Array.from({ length: 30 }, (_, n) => frame(`d${n}/f`, 'x')), END]);
  const answer = await put(world, '/sites/shop/builds/build-1/deployment', folders, grant('build-1'));
  assert.equal(
    [answer.status, await answer.json()],
    [422, { message: 'the output has more than 20 files and folders' }],
  );
  const huge = frame('a', '');
  huge.writeBigUInt64BE(2n ** 60n, huge.length - 8);
  const sized = await put(world, '/sites/shop/builds/build-1/deployment', huge, grant('build-1'));
  assert.is(sized.status, 422);
});

test('a link of the output is not sent to the store, and the log names it', async (world) => {
  await symlink('/etc/passwd', path.join(world.output, 'passwd'));
  const { warnings } = await publish(world, 'build-1');
  assert.equal(warnings, ['passwd is not published: it is a symbolic link. Publish the file itself']);
  const found = await new SiteReader(world.sites.folder).manifest('shop', 'build-1');
  assert.not.ok(Object.keys(found?.manifest.files ?? {}).includes('passwd'));
});

test('an unknown path responds 404, or 401 if the token is wrong', async (world) => {
  for (const target of ['/', '//', '/sites/..%2f..%2fetc', '/sites/shop/builds/%2e%2e', '/sites/shop/else']) {
    const answer = await put(world, target, '{}', TOKEN);
    assert.is(answer.status, 404, target);
    assert.is((await put(world, target, '{}', 'wrong')).status, 401, target);
  }
});

test('a write to a log is rejected when it is too large', async (world) => {
  const answer = await put(world, '/sites/shop/builds/b/log/1-Cloning?at=0', 'x'.repeat(300_000), TOKEN);
  assert.is(answer.status, 400);
  assert.is((await put(world, '/sites/shop/builds/b/log/1-Cloning?at=-1', 'x', TOKEN)).status, 400);
});

test.run();
