/** Tests outputs of containers that arrive in pieces and are written to a real store. */
import { mkdtempSync, rmSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { markOf } from '@slipway/kaniko-build-wrapper';
import { endRequests, listen } from '@slipway/program';
import { BuildLogs, ContentStoreClient, contentStoreServer, Sites } from '@slipway/sites';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { LogFollower } from './log-follower.js';

interface World {
  folder: string;
  server: Server;
  store: ContentStoreClient;
  counted?: Pick<ContentStoreClient, 'putLog'>;
  logs: BuildLogs;
  marked: number;
}

const test = suite<World>('log of a build on a cluster');
const TOKEN = 'the token of the platform, of at least 32 characters';
const SECRET = 'a-variable-of-the-owner';
const MARK = markOf('job');

test.before.each(async (world) => {
  world.folder = mkdtempSync(path.join(tmpdir(), 'follower-'));
  world.logs = new BuildLogs(path.join(world.folder, 'logs'));
  world.marked = 0;
  world.server = await contentStoreServer({
    sites: new Sites(path.join(world.folder, 'sites')),
    logs: world.logs,
    token: () => TOKEN,
    onError: (error) => assert.unreachable(String(error)),
  });
  const origin = await listen(world.server, '127.0.0.1:0');
  world.store = new ContentStoreClient({ originOf: () => origin, token: async () => TOKEN });
});
test.after.each(async ({ server, store, folder }) => {
  await store.close();
  await endRequests(server);
  rmSync(folder, { recursive: true, force: true });
});

/** Counts the requests that a follower sends. */
function counted(world: World): { puts: number } {
  const count = { puts: 0 };
  const { store } = world;
  const putLog: ContentStoreClient['putLog'] = (...request) => {
    count.puts += 1;
    return store.putLog(...request);
  };
  world.counted = { putLog };
  return count;
}

const followerOf = (world: World, limit = 100_000, secrets = [SECRET]) =>
  new LogFollower({
    store: world.counted ?? world.store,
    ref: 'shop',
    build: 'build-1',
    secrets,
    limit,
    mark: MARK,
    now: () => new Date(5),
    onMark: () => {
      world.marked += 1;
    },
  });

async function* pieces(text: string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function shown({ logs }: World): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  let at = 0;
  for (const { section, bytes } of await logs.sections('shop', 'build-1')) {
    found[section] = (await logs.read('shop', 'build-1', at, bytes)).toString();
    at += bytes;
  }
  return found;
}

const OUTPUT =
  `INFO building\n${MARK}Installing\n$ npm install\n` + `with ${SECRET} ü\n${MARK}Building\n$ npm run build\nno end`;

for (const size of [1, 7, 10_000]) {
  test(`an output in pieces of ${size} bytes is written to its sections, without secrets and marks`, async (world) => {
    const follower = followerOf(world);
    await follower.follow('clone', pieces(`commit abc ${SECRET}\n`, size));
    await follower.follow('build', pieces(OUTPUT, size));
    await follower.follow('publish', pieces('slipway: .env is not published\n', size));
    assert.equal(await shown(world), {
      Cloning: 'commit abc [redacted]\n',
      Installing: '$ npm install\nwith [redacted] ü\n',
      Building: 'INFO building\n$ npm run build\nno endslipway: .env is not published\n',
    });
    assert.equal(follower.marks, { installingAt: new Date(5), buildingAt: new Date(5) });
    assert.is(world.marked, 2);
  });
}

test('an output that is read twice, as after a restart, is stored once', async (world) => {
  await followerOf(world).follow('build', pieces(OUTPUT, 20));
  const once = await shown(world);
  const follower = followerOf(world);
  await follower.follow('build', pieces(OUTPUT, 33));
  assert.equal(await shown(world), once);
});

test('an output is written again from its start when its stream broke', async (world) => {
  const follower = followerOf(world);
  async function* broken() {
    yield Buffer.from('one\ntwo\n');
    throw new Error('broken');
  }
  assert.match(String(await follower.follow('clone', broken()).catch(String)), /broken/);
  await follower.follow('clone', pieces('one\ntwo\nthree\n', 100));
  assert.equal(await shown(world), { Cloning: 'one\ntwo\nthree\n' });
});

test('the exit code and the reason of a rejection are read only from marks', async (world) => {
  const follower = followerOf(world);
  await follower.follow(
    'build',
    pieces(`${MARK}exit 3\n x${MARK}exit 4\n::slipway-0000:exit 5\n${MARK}refused no folder\n`, 9),
  );
  assert.equal([follower.marks.exitCode, follower.marks.refusal], [3, 'no folder']);
  assert.equal(await shown(world), { Building: ` x${MARK}exit 4\n::slipway-0000:exit 5\n` });
});

test('an exit code is read as 1 when a tenant forged it', async (world) => {
  for (const code of ['1.5', '1e3', '0x10', '-3', '4294967296', '0', '', 'Infinity']) {
    const follower = followerOf(world);
    await follower.follow('build', pieces(`${MARK}exit ${code}\n`, 9));
    assert.is(follower.marks.exitCode, 1, code);
  }
});

test('output beyond the limit is replaced by a line that names the limit', async (world) => {
  const follower = followerOf(world, 10);
  await follower.follow('clone', pieces('0123456789abcdef'.repeat(100), 50));
  await follower.follow('build', pieces('more\n', 50));
  assert.equal(await shown(world), { Cloning: '0123456789\nThe log ends here: it reached its limit of 10 bytes.\n' });
});

test('a secret that begins like a mark is redacted even at the end of the output', async (world) => {
  const secret = MARK.slice(0, 8);
  await followerOf(world, 100_000, [`1\n${secret}x`, secret]).follow('build', pieces(`log\n1\n${secret}`, 3));
  assert.equal(await shown(world), { Building: 'log\n1\n[redacted]' });
});

test('a mark beyond the limit is still read', async (world) => {
  const follower = followerOf(world, 10);
  await follower.follow('build', pieces(`${'x'.repeat(500)}\n${MARK}exit 3\n`, 50));
  assert.is(follower.marks.exitCode, 3);
});

test('output in small pieces is written to the store in few requests', async (world) => {
  const count = counted(world);
  const text = 'one line of output\n'.repeat(10_000);
  await followerOf(world, 1_000_000).follow('build', pieces(text, 100));
  assert.equal(await shown(world), { Building: text });
  assert.ok(count.puts <= 20, `${count.puts} requests`);
});

test('any number of marks changes the section, and is reported, only a few times', async (world) => {
  const count = counted(world);
  const follower = followerOf(world);
  await follower.follow('build', pieces(`x\n${MARK}Installing\ny\n${MARK}Building\n`.repeat(500), 2_000));
  await follower.follow('publish', pieces(`${MARK}exit 7\n`.repeat(50), 2_000));
  const all = Object.values(await shown(world)).join('');
  assert.is(all.length, 2_000);
  assert.ok(count.puts <= 10, `${count.puts} requests`);
  assert.ok(world.marked <= 20, `${world.marked} reports`);
  assert.is(follower.marks.exitCode, 7);
});

test('output is stored while its container is silent, also after the store was unavailable', async (world) => {
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  async function* waiting() {
    yield Buffer.from('first\n');
    await ended;
  }
  let failures = 1;
  world.counted = {
    putLog: async (...request) => {
      failures -= 1;
      if (failures >= 0) throw new Error('away');
      return world.store.putLog(...request);
    },
  };
  const following = followerOf(world).follow('build', waiting());
  await until(async () => (await shown(world)).Building === 'first\n', 'the output in the store');
  end();
  await following;
  assert.equal(await shown(world), { Building: 'first\n' });
});

test('a mark that never ends is stored as output, and delays nothing', async (world) => {
  const long = `${MARK}${'x'.repeat(2000)}`;
  await followerOf(world).follow('build', pieces(long, 100));
  assert.equal(await shown(world), { Building: long });
});

test.run();
