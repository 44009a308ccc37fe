import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { commandsOf } from '../frameworks.js';
import { planOf } from './plan.js';

const root = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
test.after(() => rmSync(root, { recursive: true }));
let count = 0;

function folderWith(files: Readonly<Record<string, string | object>>): string {
  const folder = path.join(root, String(++count));
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(folder, name)), { recursive: true });
    writeFileSync(path.join(folder, name), typeof content === 'string' ? content : JSON.stringify(content));
  }
  return folder;
}
const plan = (files: Readonly<Record<string, string | object>>) => planOf([folderWith(files)]);

test('the version of Node comes from .nvmrc, or else .node-version, or else engines', () => {
  assert.is(plan({ '.nvmrc': 'v22.3.0\n', 'package.json': { engines: { node: '20' } } }).node, '22.3.0');
  assert.is(plan({ '.nvmrc': '# comment\n20\n' }).node, '>=20.0.0 <21.0.0-0');
  assert.is(plan({ '.nvmrc': 'lts/jod' }).node, '>=22.0.0 <23.0.0-0');
  assert.is(plan({ '.node-version': '20.1' }).node, '>=20.1.0 <20.2.0-0');
  assert.is(plan({ 'package.json': { engines: { node: '>=18 <23' } } }).node, '>=18.0.0 <23.0.0-0');
  for (const alias of ['node', 'lts/*', 'stable', '']) assert.is(plan({ '.nvmrc': alias }).node, undefined, alias);
  assert.is(plan({ 'package.json': { engines: { node: 20 } } }).node, undefined);
});

test('an invalid or too old version of Node is rejected with an error that names its file', () => {
  for (const version of ['--help', '22 --registry=x', 'file:../x', 'https://example.org/x.tgz', '$(id)', 'npm:other@1'])
    assert.throws(() => plan({ '.nvmrc': version }), /\.nvmrc has .*, which is not a version of Node/, version);
  assert.throws(() => plan({ '.nvmrc': '16' }), /no longer gets fixes/);
  assert.throws(() => plan({ 'package.json': { engines: { node: 'x y' } } }), /engines\.node of package\.json/);
});

test('the package manager comes from packageManager, or else from the lockfile', () => {
  const manager = (files: Readonly<Record<string, string | object>>) => {
    const { name, version, install } = plan(files).manager;
    return [name, version, install];
  };
  assert.equal(manager({ 'package.json': {} }), ['npm', undefined, 'npm install']);
  assert.equal(manager({ 'package-lock.json': {} }), ['npm', undefined, 'npm install']);
  const frozen = '--frozen-lockfile';
  assert.equal(manager({ 'pnpm-lock.yaml': "lockfileVersion: '9.0'\n" }), ['pnpm', '^10', `pnpm install ${frozen}`]);
  assert.equal(manager({ 'pnpm-lock.yaml': "lockfileVersion: '6.0'\n" }), ['pnpm', '^8', `pnpm install ${frozen}`]);
  assert.equal(manager({ 'pnpm-lock.yaml': 'lockfileVersion: 5.4\n' }), ['pnpm', '^7', `pnpm install ${frozen}`]);
  assert.equal(manager({ 'yarn.lock': '# yarn lockfile v1\n' }), ['yarn', '^1.22', `yarn install ${frozen}`]);
  assert.equal(manager({ 'yarn.lock': '__metadata:\n  version: 8\n' }), ['yarn', '^4', 'yarn install --immutable']);
  const named = { packageManager: 'pnpm@9.1.0+sha512.abc' };
  assert.equal(manager({ 'package.json': named, 'package-lock.json': {} }), ['pnpm', '9.1.0', 'pnpm install']);
  for (const packageManager of ['pnpm@file:../x', 'pnpm@^9', '--x@1.0.0', 'bun@1.0.0', 7])
    assert.is(plan({ 'package.json': { packageManager } }).manager.name, 'npm', String(packageManager));
});

test('a project below a workspace has the lockfile and versions of the workspace', () => {
  const top = folderWith({ 'pnpm-lock.yaml': "lockfileVersion: '9.0'", '.nvmrc': '22', 'apps/web/package.json': {} });
  const { node, manager, lockfile } = planOf([path.join(top, 'apps/web'), path.join(top, 'apps'), top]);
  assert.equal([node, manager.name, lockfile], ['>=22.0.0 <23.0.0-0', 'pnpm', "lockfileVersion: '9.0'"]);
});

test('a plan ignores links, and rejects files that are too large or invalid JSON', () => {
  const linked = folderWith({ 'index.html': '' });
  symlinkSync('/etc/hostname', path.join(linked, '.nvmrc'));
  assert.is(planOf([linked]).node, undefined);
  assert.throws(() => plan({ 'package.json': '{' }), /package\.json cannot be read: the text is not valid JSON/);
  assert.throws(() => plan({ 'package.json': '[]' }), /package\.json is not a JSON object/);
  assert.throws(() => plan({ 'package.json': `[${'['.repeat(50_000)}` }), /levels deep/);
});

const unset = {
  rootDir: undefined,
  framework: undefined,
  installCommand: undefined,
  buildCommand: undefined,
  outputDir: undefined,
};
const npm = { name: 'npm', version: undefined, install: 'npm install' } as const;

test('a framework is detected by the project’s packages, and settings take precedence', () => {
  const commands = (files: Readonly<Record<string, string | object>>, settings = {}) => {
    const { framework, installCommand, buildCommand, outputDir } = commandsOf(
      folderWith(files),
      { ...unset, ...settings },
      npm,
    );
    return [framework, installCommand, buildCommand, outputDir];
  };
  const project = (dependencies: object, scripts = { build: 'x' }) => ({ 'package.json': { dependencies, scripts } });
  assert.equal(commands(project({ vite: '1' })), ['vite', 'npm install', 'npm run build', 'dist']);
  assert.equal(commands(project({ astro: '1', vite: '1' })), ['astro', 'npm install', 'npm run build', 'dist']);
  assert.equal(commands(project({ '@sveltejs/kit': '1', vite: '1' })), [
    'sveltekit',
    'npm install',
    'npm run build',
    'build',
  ]);
  assert.equal(commands(project({ next: '1' })), ['next', 'npm install', 'npm run build', 'out']);
  assert.equal(commands({ 'package.json': { devDependencies: { vite: '1' } } })[2], 'npx vite build');
  assert.equal(commands(project({ other: '1' })), ['plain', 'npm install', 'npm run build', undefined]);
  assert.equal(commands({ 'package.json': {} }), ['plain', 'npm install', '', undefined]);
  assert.equal(commands({ 'index.html': '' }), ['plain', '', '', '.']);
  assert.equal(commands({ 'public/index.html': '' }), ['plain', '', '', 'public']);
  const set = { installCommand: '', buildCommand: 'make', outputDir: 'here' };
  assert.equal(commands(project({ vite: '1' }), set), ['vite', '', 'make', 'here']);
});

test('a Next.js project gets a warning when it has no export', () => {
  const manifest = { dependencies: { next: '1' } };
  const warnings = (config: string) =>
    commandsOf(folderWith({ 'package.json': manifest, 'next.config.mjs': config }), unset, npm).warnings.length;
  assert.is(warnings("export default { output: 'export' };"), 0);
  assert.is(warnings('export default {};'), 1);
});

test.run();
