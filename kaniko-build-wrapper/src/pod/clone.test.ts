/**
 * Tests the clone in a build's pod: real repositories over a real egress proxy, into the folder that Kaniko builds
 * from.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import path from 'node:path';
import { Writable } from 'node:stream';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { type EgressProxy, startEgressProxy } from '../egress/proxy.js';
import { GitServer, LOOPBACK, Workshop } from '../testing.js';
import { cloneForKaniko } from './clone.js';
import { type CloneOrder, type Ending, endingText, markOf, readEnding } from './order.js';

const TOKEN = 'a-token-of-the-repository';
const TICKET = 'the-ticket-of-the-build';
const workshop = new Workshop();
const requests: { url: string; ticket: unknown }[] = [];
let server: GitServer;
let egress: EgressProxy;
/** The credentials that the API returns. */
let credentials: object;

function answer({ url = '', headers }: IncomingMessage, response: ServerResponse): void {
  requests.push({ url, ticket: headers['x-build-ticket'] });
  response.end(JSON.stringify(credentials));
}

test.before(async () => {
  server = await new GitServer(workshop, TOKEN).listen();
  egress = await startEgressProxy('127.0.0.1:0', { allowed: LOOPBACK }, () => undefined, answer);
});
test.before.each(() => {
  credentials = { github_token: TOKEN, deploy_key: null };
  requests.splice(0);
});
test.after(async () => {
  await egress.close();
  server.close();
  workshop.close();
});

interface Cloned {
  ending: Ending;
  context: string;
  log: string;
}

async function cloned(name: string, changes: Partial<CloneOrder> = {}): Promise<Cloned> {
  const context = mkdtempSync(path.join(workshop.folder, 'context-'));
  let log = '';
  const out = new Writable({
    write: (chunk, _, done) => {
      log += chunk;
      done();
    },
  });
  const order: CloneOrder = {
    ref: 'shop',
    build: 'build-7',
    source: server.source(name),
    settings: { rootDir: undefined, installCommand: undefined, buildCommand: undefined, outputDir: undefined },
    deployment: { BRANCH: 'next', SITE_URL: 'http://shop.example.com' },
    env: {},
    ticket: TICKET,
    egressUrl: egress.url,
    nodeImage: 'registry.example.com/node',
    nodeTag: '{version}-slim',
    certificates: readFileSync(workshop.certificate().file, 'utf8'),
    processes: 4096,
    logBytes: 1_000_000,
    mark: markOf('job'),
    ...changes,
  };
  return { ending: await cloneForKaniko(order, { context, out }), context, log };
}

const read = ({ context }: Cloned, file: string) => readFileSync(path.join(context, file), 'utf8');
const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => path.join(entry.parentPath, entry.name));

test('a project with commands becomes sources, scripts and a Dockerfile for its Node version', async () => {
  const commit = workshop.repository('app', {
    'package.json': { scripts: { build: 'node build.mjs' }, engines: { node: '>=22.3 <23' } },
    'pnpm-lock.yaml': "lockfileVersion: '9.0'\n",
    'build.mjs': '',
  });
  const build = await cloned('app');
  const { ending } = build;
  assert.equal(ending, {
    kind: 'cloned',
    commit,
    detected: {
      framework: 'plain',
      installCommand: 'pnpm install --frozen-lockfile',
      buildCommand: 'pnpm run build',
      nodeVersion: '22',
      packageManager: 'pnpm@^10',
    },
  });
  assert.match(read(build, 'Dockerfile'), /^FROM registry\.example\.com\/node:22-slim AS build\n/);
  assert.is(read(build, 'steps/Installing'), 'pnpm install --frozen-lockfile');
  assert.ok(existsSync(path.join(build.context, 'source/build.mjs')));
  assert.match(build.log, new RegExp(`commit ${commit}`));
  assert.equal(requests, [{ url: '/builds/shop/build-7/credentials', ticket: TICKET }]);
});

test('neither the tenant’s commands nor the log get the token or the ticket', async () => {
  workshop.repository('canary', { 'package.json': { scripts: { build: 'true' } } });
  const build = await cloned('canary');
  assert.is(build.ending.kind, 'cloned');
  const files = filesIn(build.context);
  assert.ok(files.length > 5);
  const all = files.map((file) => readFileSync(file, 'latin1')).join('\n') + build.log;
  const forms = (secret: string) => [secret, Buffer.from(secret).toString('base64').slice(0, -3)];
  for (const form of [...forms(TOKEN), ...forms(TICKET), Buffer.from(`git:${TOKEN}`).toString('base64')])
    assert.not.ok(all.includes(form), form);
  assert.ok(server.requests.some(({ authorization }) => authorization?.startsWith('Basic ')));
});

const HOSTILE = `'; touch /tmp/escaped; echo '$(id)\`id\`"\n\\ FROM evil`;

test('values of the tenant reach the shell unchanged, and are not in the Dockerfile', async () => {
  workshop.repository('hostile', { 'package.json': {}, 'sub dir/package.json': {} });
  const settings = {
    rootDir: 'sub dir',
    installCommand: HOSTILE,
    buildCommand: HOSTILE,
    outputDir: `a'b $(id)`,
  };
  const env = { NICE: HOSTILE, 'BAD NAME; id': 'x', LD_PRELOAD: '/x.so' };
  const build = await cloned('hostile', { settings, env });
  const dockerfile = read(build, 'Dockerfile');
  for (const word of ['evil', 'escaped', 'sub dir', 'LD_PRELOAD', '$(']) assert.not.ok(dockerfile.includes(word), word);
  assert.is(read(build, 'steps/Building'), HOSTILE);
  const shell = (script: string) =>
    execFileSync('/bin/sh', ['-c', script], { cwd: build.context, env: { PATH: '/usr/bin:/bin' }, encoding: 'utf8' });
  assert.is(shell('. ./steps/environment; printf %s "$NICE"'), HOSTILE);
  const facts = shell('. ./steps/environment; printf "%s|%s|%s" "$COMMIT_SHA" "$BRANCH" "$SITE_URL"');
  assert.match(facts, /^[0-9a-f]{40}\|next\|http:\/\/shop\.example\.com$/);
  assert.is(shell('. ./steps/settings; printf "%s|%s" "$ROOT" "$OUTPUT"'), `/build/source/sub dir|a'b $(id)`);
  assert.not.match(read(build, 'steps/environment'), /BAD NAME/);
  assert.not.ok(existsSync('/tmp/escaped'));
});

test('the script of a step limits its processes when it runs in the default image’s shell', async () => {
  workshop.repository('limited', { 'package.json': { scripts: { build: 'true' } } });
  const build = await cloned('limited', { processes: 321 });
  const limit = read(build, 'steps/run')
    .split('\n')
    .find((line) => line.startsWith('ulimit'));
  const script = `. ./steps/settings\n${limit}\nulimit -u 2>/dev/null || ulimit -p`;
  for (const shell of ['dash', 'bash']) {
    const options = { cwd: build.context, env: { PATH: '/usr/bin:/bin' }, encoding: 'utf8' } as const;
    assert.is(execFileSync(shell, ['-c', script], options).trim(), '321', shell);
  }
});

test('a site without commands is copied without its history, and needs no image', async () => {
  workshop.repository('plain', { 'index.html': 'plain', 'a/b.html': 'b' });
  const whole = await cloned('plain');
  assert.is(read(whole, 'Dockerfile'), 'FROM scratch\nCOPY static /site\n');
  assert.equal(readdirSync(path.join(whole.context, 'static')).sort(), ['a', 'index.html']);
  workshop.repository('public', { 'public/index.html': 'public', 'README.md': '' });
  const inner = await cloned('public');
  assert.equal(readdirSync(path.join(inner.context, 'static')), ['index.html']);
});

for (const [what, changes, message] of [
  ['a revision that does not exist', { source: { revision: 'missing' } }, /exit code 128/],
  ['a revision that is an option', { source: { revision: '--upload-pack=id' } }, /is not a valid name of a branch/],
  ['an address without TLS', { source: { repoUrl: 'http://127.0.0.1/a.git' } }, /must begin with https/],
  ['a helper in place of an address', { source: { repoUrl: 'ext::sh -c id' } }, /must begin with https/],
  ['a root_dir that leads out', { settings: { rootDir: '../..' } }, /leads out of the repository/],
] as const) {
  test(`${what} fails the clone with a message for the owner`, async () => {
    workshop.repository('plain', { 'index.html': 'plain' });
    const source = { ...server.source('plain'), ...('source' in changes ? changes.source : {}) };
    const settings = { rootDir: undefined, installCommand: undefined, buildCommand: undefined, outputDir: undefined };
    const { ending, log } = await cloned('plain', {
      source,
      settings: { ...settings, ...('settings' in changes && changes.settings) },
    });
    assert.is(ending.kind, 'failed');
    assert.match('message' in ending ? ending.message : '', message);
    assert.match(log, message);
  });
}

test('a check for missed pushes prepares nothing when the newest commit was built before', async () => {
  const commit = workshop.repository('checked', { 'package.json': { scripts: { build: 'true' } } });
  const source = { ...server.source('checked'), revision: 'main', unless: commit };
  const unneeded = await cloned('checked', { source });
  assert.equal(unneeded.ending, { kind: 'unneeded' });
  assert.equal(filesIn(unneeded.context), []);
  assert.equal(readEnding(endingText(unneeded.ending)), { kind: 'unneeded' });
  const next = workshop.repository('checked', { 'index.html': 'next' });
  const { ending } = await cloned('checked', { source });
  assert.equal([ending.kind, 'commit' in ending && ending.commit], ['cloned', next]);
});

test('a check for missed pushes logs git’s reason when the repository cannot be read', async () => {
  const source = { ...server.source('absent'), revision: 'main', unless: 'a'.repeat(40) };
  const { ending, log } = await cloned('absent', { source });
  assert.is(ending.kind, 'failed');
  assert.match(log, /fatal: /);
});

test('a clone ends with the exit code of git when access to the repository is denied', async () => {
  workshop.repository('private', { 'index.html': '' });
  credentials = { github_token: null, deploy_key: null };
  const { ending } = await cloned('private');
  assert.equal([ending.kind, 'exitCode' in ending && ending.exitCode], ['failed', 128]);
});

test('a termination message fits into the kubelet’s limit, and is parsed again', () => {
  const long = { kind: 'refused' as const, message: 'ä'.repeat(5000) };
  assert.ok(Buffer.byteLength(endingText(long)) <= 4096);
  assert.is(readEnding(endingText(long))?.kind, 'refused');
  const detected = { installCommand: 'x'.repeat(5000) };
  assert.equal(readEnding(endingText({ kind: 'cloned', commit: 'abc', detected })), {
    kind: 'cloned',
    commit: 'abc',
    detected: {},
  });
  for (const text of [undefined, '', '{', 'null', '"text"', '[]']) assert.is(readEnding(text), undefined);
});

test.run();
