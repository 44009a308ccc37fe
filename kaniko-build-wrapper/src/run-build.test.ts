/** Tests builds of repositories that a real git server serves over https. */
import { existsSync, mkdirSync, readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { BuildFailed, missingWall } from './index.js';
import { GitServer, NOTHING_SET, Workshop } from './testing.js';

const TOKEN = 'a-token-of-the-repository';
const workshop = new Workshop();
let server: GitServer;
test.before(async () => {
  server = await new GitServer(workshop, TOKEN).listen();
});
test.after(() => {
  server.close();
  workshop.close();
});
const credentials = { token: TOKEN, deployKey: null };
const isSealed = missingWall() === undefined;
if (!isSealed) console.log(`# skipped: this machine cannot isolate builds: ${missingWall()}`);
const sealedTest = isSealed ? test : test.skip;

sealedTest('a build publishes the repository unchanged when it has no package.json', async () => {
  const commit = workshop.repository('static', { 'index.html': '<h1>static</h1>' });
  const recorded = await workshop.build({ source: server.source('static'), credentials });
  assert.is(recorded.file('index.html'), '<h1>static</h1>');
  assert.equal(recorded.commits, [commit]);
  assert.equal(recorded.steps, ['Cloning']);
  assert.is(recorded.result?.commit, commit);
  assert.ok(server.requests.some(({ authorization }) => authorization?.startsWith('Basic ')));
});

sealedTest('a build runs the script of a package without dependencies', async () => {
  const script = `mkdir dist && echo "<h1>$GREETING</h1>" >dist/index.html && echo built`;
  workshop.repository('script', { 'package.json': { name: 'script', version: '1.0.0', scripts: { build: script } } });
  const env = { GREETING: 'built' };
  const recorded = await workshop.build({ source: server.source('script'), credentials, env });
  assert.is(recorded.file('index.html'), '<h1>built</h1>\n');
  assert.equal(recorded.steps, ['Cloning', 'Installing', 'Building']);
  assert.match(recorded.logs.Building ?? '', /^\$ npm run build\n/);
});

sealedTest('a build with a configured command publishes the configured output folder', async () => {
  workshop.repository('inner', { 'web/page.txt': 'inner page' });
  const settings = {
    ...NOTHING_SET,
    rootDir: 'web',
    buildCommand: 'mkdir -p out && cp page.txt out',
    outputDir: 'out',
  };
  const recorded = await workshop.build({ source: server.source('inner'), credentials, settings });
  assert.is(recorded.file('page.txt'), 'inner page');
  assert.equal(recorded.steps, ['Cloning', 'Building']);
});

sealedTest('a build that replaces its folder by a link adds no packages of others to its cache', async () => {
  const victim = path.join(workshop.folder, 'victim/node_modules');
  mkdirSync(victim, { recursive: true });
  workshop.repository('linking', { 'web/package.json': { name: 'web' }, 'web/package-lock.json': {} });
  const buildCommand = `cd .. && rm -r web && ln -s ${path.dirname(victim)} web`;
  const settings = { ...NOTHING_SET, rootDir: 'web', installCommand: '', buildCommand, outputDir: '.' };
  const recorded = await workshop.build({ source: server.source('linking'), credentials, settings });
  assert.ok(existsSync(victim), recorded.text);
  assert.instance(recorded.error, BuildFailed);
});

sealedTest('a clone fails with exit code 128 when access is denied, and shows no token', async () => {
  workshop.repository('private', { 'index.html': '' });
  for (const token of [null, 'another-token-than-the-one']) {
    const credentials = { token, deployKey: null };
    const recorded = await workshop.build({ source: server.source('private'), credentials });
    assert.instance(recorded.error, BuildFailed);
    const { step, exitCode } = recorded.error as BuildFailed;
    assert.equal({ step, exitCode }, { step: 'Cloning', exitCode: 128 });
    assert.match(recorded.text, /fatal: .*(could not read|Authentication failed)/);
    assert.not.match(recorded.text, /another-token/);
  }
});

sealedTest('the log of a build names a host that the platform can not reach', async () => {
  const source = { repoUrl: 'https://git.name.invalid/site.git', revision: 'main', submodules: false };
  const recorded = await workshop.build({ source, credentials });
  assert.is((recorded.error as BuildFailed).exitCode, 128);
  assert.match(recorded.text, /^Slipway can not reach "git\.name\.invalid:443": .*name\.invalid\.$/m);
});

sealedTest('a build finds a tag and a commit, and reports a revision that does not exist', async () => {
  const first = workshop.repository('tags', { 'index.html': 'first' });
  const tree = path.join(workshop.folder, 'trees/tags');
  workshop.git(tree, 'tag', 'v1');
  workshop.commit('tags');
  for (const revision of ['v1', first]) {
    const recorded = await workshop.build({ source: server.source('tags', revision), credentials });
    assert.is(recorded.result?.commit, first, recorded.text);
  }
  const recorded = await workshop.build({ source: server.source('tags', 'nowhere'), credentials });
  assert.is((recorded.error as BuildFailed).exitCode, 128);
  assert.match(recorded.text, /couldn't find remote ref refs\/tags\/nowhere/);
});

sealedTest('the commands of a build see neither token nor key, and no process of the platform', async () => {
  workshop.repository('snoop', { 'index.html': '' });
  const look =
    'env; cat /proc/*/environ | tr "\\0" "\\n"; cat /proc/*/cmdline; grep -r token "$HOME" .git || true; ls /proc';
  const settings = { ...NOTHING_SET, buildCommand: look };
  const recorded = await workshop.build({ source: server.source('snoop'), credentials, settings });
  assert.ok(recorded.result, recorded.error?.message);
  assert.not.match(recorded.text, new RegExp(TOKEN));
  assert.not.match(recorded.text, /\[redacted\]/, 'the token was printed');
  const processes = recorded.text.match(/^\d+$/gm) ?? [];
  assert.ok(processes.length > 0 && processes.length < 10, processes.join());
});

sealedTest('a failed command ends the build with its exit code', async () => {
  workshop.repository('fails', { 'index.html': '' });
  const settings = { ...NOTHING_SET, buildCommand: 'echo the reason >&2; exit 7' };
  const recorded = await workshop.build({ source: server.source('fails'), credentials, settings });
  assert.equal({ ...(recorded.error as BuildFailed) }, { step: 'Building', exitCode: 7 });
  assert.match(recorded.logs.Building ?? '', /^the reason$/m);
});

sealedTest('aborting a build ends all its processes at once', async () => {
  workshop.repository('endless', { 'index.html': '' });
  const mark = `9${process.pid}1`;
  const settings = { ...NOTHING_SET, buildCommand: `setsid sleep ${mark} & echo begun; sleep ${mark}` };
  const stop = new AbortController();
  const ended = workshop.build({ source: server.source('endless'), credentials, settings }, stop.signal);
  const processes = () => sleeping(mark);
  const began = performance.now();
  while (processes() < 2 && performance.now() - began < 20_000) await new Promise((resolve) => setTimeout(resolve, 50));
  assert.is(processes(), 2);
  stop.abort(new Error('cancelled'));
  const recorded = await ended;
  assert.is(recorded.error?.message, 'cancelled');
  assert.is(processes(), 0);
});

test('a build is rejected when its folder setting leads out of the repository', async () => {
  if (!isSealed) return;
  workshop.repository('outside', { 'index.html': '' });
  for (const outputDir of ['..', '/etc', '../../home', 'link']) {
    const settings = { ...NOTHING_SET, buildCommand: 'ln -sfn /etc link', outputDir };
    const recorded = await workshop.build({ source: server.source('outside'), credentials, settings });
    assert.match(recorded.error?.message ?? '', /output_dir .* leads out of the repository/, outputDir);
  }
  assert.ok(existsSync('/etc'));
});

function sleeping(mark: string): number {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => commandOf(pid) === `sleep\0${mark}\0`).length;
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

test.run();
