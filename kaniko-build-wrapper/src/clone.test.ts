/** Tests clones over ssh from a real sshd, with and without submodules. */
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type BuildFailed, missingWall } from './index.js';
import { moveInto, submodulesOf } from './submodules.js';
import { GitServer, NOTHING_SET, type RecordedBuild, SshServer, Workshop } from './testing.js';

const MODE = '160000';
const TOKEN = 'a-token-of-the-repository';
const workshop = new Workshop();
let server: GitServer;
let others: GitServer;
test.before(async () => {
  server = await new GitServer(workshop, TOKEN).listen();
  others = await new GitServer(workshop).listen();
});
test.after(() => {
  for (const each of [server, others]) each.close();
  workshop.close();
});
const withToken = { token: TOKEN, deployKey: null };
const isSealed = missingWall() === undefined;
if (!isSealed) console.log(`# skipped: this machine cannot isolate builds: ${missingWall()}`);
const sealedTest = isSealed ? test : test.skip;
const hasSshd = existsSync('/usr/sbin/sshd') && process.getuid?.() === 0;
if (!hasSshd) console.log('# skipped: no sshd is installed, or the tests do not run as root');
const sshTest = isSealed && hasSshd ? test : test.skip;

sshTest('a clone over ssh can read the deploy key, and the commands of the build cannot', async () => {
  const sshd = await new SshServer(workshop).listen();
  try {
    workshop.repository('by-ssh', { 'index.html': 'by ssh' });
    const secret = sshd.key.split('\n')[2] as string;
    const settings = { ...NOTHING_SET, buildCommand: 'env; grep -rs "PRIVATE KE[Y]" "$HOME" .. || true; whoami' };
    const source = sshd.source('by-ssh');
    const build = (deployKey: string | null) =>
      workshop.build({ source, settings, credentials: { token: null, deployKey } });
    const recorded = await build(sshd.key);
    assert.is(recorded.file('index.html'), 'by ssh');
    assert.not.match(recorded.text, /PRIVATE KEY|\[redacted\]/);
    assert.not.ok(recorded.text.includes(secret));
    assert.match(recorded.text, /^build$/m);
    const without = await build(null);
    assert.is((without.error as BuildFailed).exitCode, 128);
    assert.match(without.text, /Permission denied \(publickey/);
    await sshd.changeHostKey();
    const changed = await build(sshd.key);
    assert.is((changed.error as BuildFailed).exitCode, 128);
    // ssh looks the host up with its port, so it does not find the key of the same host with another port.
    const known = readFileSync(path.join(workshop.folder, 'cache-test/ssh/known_hosts'), 'utf8');
    assert.match(known, /^\[127\.0\.0\.1\]:\d+ ssh-ed25519 /);
  } finally {
    sshd.close();
  }
});

const buildWithSubmodules = (name: string): Promise<RecordedBuild> =>
  workshop.build({ source: { ...server.source(name), submodules: true }, credentials: withToken });

sealedTest(
  'submodules are fetched when the settings say so, by relative and by ssh URLs of the same host',
  async () => {
    const leaf = workshop.repository('leaf', { 'leaf.txt': 'leaf' });
    workshop.repository('branch', { 'branch.txt': 'branch' });
    const branch = workshop.link('branch', 'deep/leaf', '../leaf.git', leaf);
    workshop.repository('trunk', { 'index.html': 'trunk' });
    workshop.link('trunk', 'libs/branch', '../branch.git', branch);
    workshop.link('trunk', 'other', `${server.origin}/leaf.git`, leaf);
    const recorded = await buildWithSubmodules('trunk');
    assert.is(recorded.file('libs/branch/deep/leaf/leaf.txt'), 'leaf');
    assert.is(recorded.file('libs/branch/branch.txt'), 'branch');
    assert.is(recorded.file('other/leaf.txt'), 'leaf');
    const without = await workshop.build({ source: server.source('trunk'), credentials: withToken });
    assert.not.ok(existsSync(path.join(without.result?.output ?? '', 'other/leaf.txt')));
    assert.is(without.file('index.html'), 'trunk');
  },
);

sealedTest('the token is sent to no other server, not even for a submodule', async () => {
  const leaf = workshop.repository('stranger', { 'leaf.txt': 'leaf' });
  workshop.repository('host', { 'index.html': 'host' });
  workshop.link('host', 'stranger', `${others.origin}/stranger.git`, leaf);
  const recorded = await buildWithSubmodules('host');
  assert.is(recorded.file('stranger/leaf.txt'), 'leaf');
  assert.ok(others.requests.length > 0);
  assert.equal(
    others.requests.filter(({ authorization }) => authorization !== undefined),
    [],
  );
});

test('submodules are rejected when their name, path or URL is hostile', () => {
  const commit = 'a'.repeat(40);
  const listing = (place: string, url: string) =>
    `submodule.x.path\n${place}\0submodule.x.url\n${url}\0\0\0${MODE} commit ${commit}\t${place}\n`;
  const parent = 'https://example.org/team/app.git';
  const found = (url: string, from = parent) => submodulesOf(listing('lib', url), from)[0]?.repoUrl;
  assert.is(found('https://example.org/lib.git'), 'https://example.org/lib.git');
  assert.is(found('../lib.git'), 'https://example.org/team/lib.git');
  assert.is(found('git@example.org:team/lib.git'), 'https://example.org/team/lib.git');
  assert.is(found('git@example.com:team/lib.git'), 'git@example.com:team/lib.git');
  assert.is(found('../lib.git', 'git@example.org:team/app.git'), 'git@example.org:team/lib.git');
  assert.is(found('../lib.git', 'ssh://git@example.org:22/team/app.git'), 'ssh://git@example.org:22/team/lib.git');
  const addresses = ['ext::sh -c id', 'file:///etc', '/etc', '-oProxyCommand=id', '--upload-pack=id', 'http://x/y', ''];
  for (const url of addresses) assert.throws(() => found(url), /submodule address .* is not allowed/, url);
  const places = ['..', '../x', 'a/../../x', '/etc', '.git', '.git/hooks', 'a/.GIT/hooks', 'a//b', 'a/', 'a\\b'];
  for (const place of places)
    assert.throws(() => submodulesOf(listing(place, '../lib.git'), parent), /submodule path .* is not allowed/, place);
  // When git reads the configuration, it drops the last character of this name (CVE-2025-48384).
  assert.equal(submodulesOf(listing('lib\r', '../lib.git'), parent), []);
});

test('a submodule is not moved when its path leads through a link or to a file', () => {
  const tree = path.join(workshop.folder, 'moved');
  for (const name of ['clone', 'tree/full/inner', 'tree/empty', 'outside/place'])
    mkdirSync(path.join(tree, name), { recursive: true });
  symlinkSync('../outside', path.join(tree, 'tree/link'));
  const move = (place: string) => moveInto(path.join(tree, 'tree'), place, path.join(tree, 'clone'));
  for (const place of ['link', 'link/place', 'missing'])
    assert.throws(() => move(place), /is not a folder of the repository/);
  assert.throws(() => move('full'), /is not empty/);
  move('empty');
  assert.not.ok(existsSync(path.join(tree, 'clone')));
});

test.run();
