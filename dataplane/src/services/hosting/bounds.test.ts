/** Tests the memory limits of hosting, with real files, sockets and responses. */
import { once } from 'node:events';
import { mkdtemp, open, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { previewName, SiteReader } from '@slipway/sites';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type Content, FileContents } from './file-contents.js';
import { SiteWorld } from './hosting.testing.js';
import { LiveDeployments } from './live-deployments.js';

interface World {
  folder: string;
  server: Server;
  /** Started responses, in their order. */
  responses: ServerResponse[];
}

const test = suite<World>('bounds of hosting');

test.before.each(async (world) => {
  world.folder = await mkdtemp(path.join(tmpdir(), 'hosting-bounds-'));
  world.responses = [];
  world.server = createServer((_, outgoing) => void world.responses.push(outgoing));
  await new Promise<void>((resolve) => world.server.listen(0, '127.0.0.1', resolve));
});
test.after.each(async ({ folder, server }) => {
  server.closeAllConnections();
  server.close();
  await rm(folder, { recursive: true, force: true });
});

const MIB = 1024 * 1024;

async function readFileOf(contents: FileContents, { folder }: World, name: string, bytes: number) {
  const file = path.join(folder, name);
  await writeFile(file, Buffer.alloc(bytes, name));
  return await contents.read(name, bytes, () => open(file));
}

/** Sends requests on one connection, and reads no responses. */
async function stalledClient({ server, responses }: World, requests: number): Promise<Socket> {
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').pause();
  await once(socket, 'connect');
  socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(requests));
  await until(() => responses.length === requests, `${requests} requests`);
  return socket;
}

test('the cache of files evicts the least recently used content', async (world) => {
  const contents = new FileContents({ bytes: 1000, fileBytes: 600, files: 10 });
  await readFileOf(contents, world, 'a', 400);
  await readFileOf(contents, world, 'b', 400);
  assert.ok(contents.find('a'));
  await readFileOf(contents, world, 'c', 400);
  assert.equal([!!contents.find('a'), !!contents.find('b'), !!contents.find('c')], [true, false, true]);
  assert.is(contents.bytes, 800);
  assert.is(await readFileOf(contents, world, 'large', 601), undefined);
});

test('the cache of files has a maximum number of contents', async (world) => {
  const contents = new FileContents({ bytes: 1000, fileBytes: 600, files: 2 });
  for (const name of ['a', 'b', 'c']) await readFileOf(contents, world, name, 1);
  assert.equal([!!contents.find('a'), !!contents.find('b'), !!contents.find('c')], [false, true, true]);
});

test('concurrent reads of a file are merged, and a missing or truncated file reserves no memory', async (world) => {
  const contents = new FileContents();
  const file = path.join(world.folder, 'a');
  await writeFile(file, 'abc');
  let opened = 0;
  const counted = () => {
    opened += 1;
    return open(file);
  };
  const both = await Promise.all([contents.read('a', 3, counted), contents.read('a', 3, counted)]);
  assert.equal([opened, both[0] === both[1], `${both[0]?.bytes}`], [1, true, 'abc']);
  assert.is(await contents.read('missing', 5, async () => undefined), undefined);
  const failure = await contents.read('short', 4, counted)?.catch(String);
  assert.match(String(failure), 'shorter than its manifest says');
  assert.is(contents.bytes, 3);
});

test('content in the response to a slow client counts until the connection ends', async (world) => {
  const contents = new FileContents({ bytes: 20 * MIB, fileBytes: 16 * MIB, files: 10 });
  const content = (await readFileOf(contents, world, 'a', 16 * MIB)) as Content;
  const client = await stalledClient(world, 1);
  contents.send(content, undefined, world.responses[0] as ServerResponse);
  assert.is(await readFileOf(contents, world, 'b', 8 * MIB), undefined, 'there is no room while it is being sent');
  client.destroy();
  await until(() => content.users === 0, 'the response is closed');
  assert.ok(await readFileOf(contents, world, 'b', 8 * MIB));
  assert.is(contents.bytes, 8 * MIB);
});

test('a response that waits behind another response counts at most until its connection ends', async (world) => {
  const contents = new FileContents({ bytes: 40 * MIB, fileBytes: 16 * MIB, files: 10 });
  const content = (await readFileOf(contents, world, 'a', 16 * MIB)) as Content;
  const client = await stalledClient(world, 2);
  for (const response of world.responses) contents.send(content, undefined, response);
  assert.is(content.users, 2);
  client.destroy();
  await until(() => content.users === 0, 'both responses are released', 5_000);
});

test('a response whose client has already disconnected is not counted', async (world) => {
  const contents = new FileContents();
  const content = (await readFileOf(contents, world, 'a', 10)) as Content;
  const client = await stalledClient(world, 1);
  const [response] = world.responses as [ServerResponse];
  client.destroy();
  await until(() => response.destroyed, 'the response is closed');
  contents.send(content, undefined, response);
  assert.is(content.users, 0);
});

test('the cache of sites evicts the least recently read sites, by number and by bytes', async () => {
  const world = await SiteWorld.open();
  try {
    for (const ref of ['one', 'two', 'three']) await world.deploy(ref, { 'index.html': ref });
    const reader = new SiteReader(world.sites.folder);
    const byNumber = new LiveDeployments(reader, { sites: 2, pointerMilliseconds: 60_000 });
    for (const ref of ['one', 'two', 'three']) assert.is((await byNumber.find(ref))?.files.size, 1);
    assert.equal(
      ['one', 'two', 'three'].map((ref) => byNumber.current(ref)?.ref),
      [undefined, 'two', 'three'],
    );
    const byBytes = new LiveDeployments(reader, { bytes: 2000, pointerMilliseconds: 60_000 });
    for (const ref of ['one', 'two']) assert.ok(await byBytes.find(ref));
    assert.equal([byBytes.current('one'), byBytes.current('two')?.ref], [undefined, 'two']);
    // A site larger than the bound is served, and read again for each request.
    const none = new LiveDeployments(reader, { bytes: 100, pointerMilliseconds: 60_000 });
    assert.is((await none.find('one'))?.ref, 'one');
    assert.is(none.current('one'), undefined);
  } finally {
    await world.close();
  }
});

test('refs without a site use a limited amount of memory', async () => {
  const live = new LiveDeployments(new SiteReader(tmpdir()), { sites: 10, pointerMilliseconds: 60_000 });
  for (let at = 0; at < 100; at += 1) assert.is(await live.find(`none-${at}`), undefined);
  assert.is(live.size, 10);
});

test('names of previews that do not exist use no memory', async () => {
  const live = new LiveDeployments(new SiteReader(tmpdir()), { sites: 10, pointerMilliseconds: 60_000 });
  for (let at = 0; at < 100; at += 1) assert.is(await live.find(previewName('shop', `branch-${at}`)), undefined);
  assert.is(live.size, 0);
});

test.run();
