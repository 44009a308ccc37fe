/** Tests which test files a change can reach, on the sources of this checkout and on a small repository. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { changedFiles, sourceFiles, UseGraph } = await import(`${root}scripts/test/changed.mjs`);

interface Reached {
  tests?: string[];
  everything?: string;
}

const graph = new UseGraph(sourceFiles(root), (file: string) => readFileSync(path.join(root, file), 'utf8'));
const reachedBy = (...changed: string[]): Reached => graph.testsFor(changed);
const isReached = (test: string, ...changed: string[]) => reachedBy(...changed).tests?.includes(test) ?? false;

const REACHED: [string, string, string][] = [
  ['an import', 'dataplane/src/services/rest/compile.ts', 'dataplane/src/services/rest/compile.test.ts'],
  ['a module of another package', 'project-database/src/inventory.testing.ts', 'operator/src/kill.long.test.ts'],
  ['the import of another package', 'installation/src/names.ts', 'api/src/projects/projects.test.ts'],
  ['the helper of a test', 'api/src/mail/mailbox.testing.ts', 'api/src/accounts/registration.test.ts'],
  ['a program that is started by path', 'dataplane/src/services/rest/compile.ts', 'e2e/src/one-machine.test.ts'],
  ['a program beside the test', 'apiserver/src/settings.ts', 'apiserver/src/durability.long.test.ts'],
  ['a program of the one-machine platform', 'api/src/admin.ts', 'e2e/src/registration.long.test.ts'],
  ['code of the images', 'kubernetes/src/informer.ts', 'e2e/src/reach.cluster.test.ts'],
  ['the images', 'images/Dockerfile', 'e2e/src/clients.cluster.test.ts'],
  ['the manifests', 'manifests/base/kustomization.yaml', 'cdk8s/src/files.test.ts'],
  ['a page that a test reads', 'docs/compatibility/rest.md', 'dataplane/src/services/rest/compatibility.test.ts'],
  ['a page of a folder that a test reads', 'docs/compatibility/rest.md', 'e2e/src/compatibility/index-page.test.ts'],
  ['the README', 'README.md', 'slipway/src/fresh/fresh.long.test.ts'],
  ['a script', 'scripts/start.mjs', 'slipway/src/fresh/fresh.long.test.ts'],
  ['a stored home', 'e2e/fixtures/0.1.0/home.tar.zst', 'e2e/src/upgrade.long.test.ts'],
  ['a setting of schemathesis', 'e2e/schemathesis/schemathesis.toml', 'e2e/src/schemathesis.long.test.ts'],
  [
    'a test that another one runs',
    'dataplane/src/services/functions/pods.test.ts',
    'dataplane/src/services/functions/unprivileged.long.test.ts',
  ],
  ['the test itself', 'installation/src/pods.test.ts', 'installation/src/pods.test.ts'],
];

for (const [what, changed, reached] of REACHED) {
  test(`a change of ${what} reaches its test`, () => {
    assert.ok(sourceFiles(root).includes(changed), changed);
    assert.ok(isReached(reached, changed), JSON.stringify(reachedBy(changed)));
  });
}

test('a change does not reach a test that does not use the changed file', () => {
  assert.not.ok(isReached('postgres/src/server.test.ts', 'dataplane/src/services/rest/compile.ts'));
  assert.not.ok(isReached('dataplane/src/services/auth/auth.test.ts', 'dataplane/src/services/rest/compile.ts'));
  assert.not.ok(isReached('dataplane/src/services/rest/compatibility.test.ts', 'docs/compatibility/auth.md'));
});

test('tests that read every source run after each change', () => {
  assert.ok(isReached('checks/src/language.test.ts', 'LICENSE'));
  assert.ok(isReached('checks/src/language.test.ts', 'docs/architecture.md'));
});

for (const file of [
  'package-lock.json',
  'api/package.json',
  'tsconfig.base.json',
  'scripts/prepare.mjs',
  'new-file.bin',
])
  test(`a change of ${file} runs all tests`, () => {
    assert.ok(reachedBy('installation/src/names.ts', file).everything?.includes(file));
  });

test('a removed source file runs no tests, because the compiler finds its users', () => {
  assert.equal(reachedBy('api/src/was-here.ts'), reachedBy('LICENSE'));
});

test('nearly every file is known to be used by a test', () => {
  const uncovered = sourceFiles(root).filter((file: string) => reachedBy(file).everything?.startsWith('no test'));
  assert.ok(uncovered.length < 10, uncovered.join('\n'));
});

test('changedFiles returns files that were committed, changed, added, moved or removed since main', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@example.com', ...args], { cwd: folder });
  const write = (file: string, text = file) => writeFileSync(path.join(folder, file), text);
  const commit = () => git('add', '-A') && git('commit', '-qm', 'x');
  try {
    git('init', '-q', '-b', 'main');
    for (const file of ['same', 'committed', 'changed', 'moved', 'removed', '.gitignore']) write(file);
    write('.gitignore', 'ignored\n');
    commit();
    git('checkout', '-qb', 'work');
    write('committed', 'anew');
    commit();
    git('checkout', '-q', 'main');
    write('same', 'changed on main, after the branch left it');
    commit();
    git('checkout', '-q', 'work');
    write('changed', 'anew');
    git('mv', 'moved', 'elsewhere');
    rmSync(path.join(folder, 'removed'));
    mkdirSync(path.join(folder, 'new folder'));
    write('new folder/ü', 'x');
    write('ignored');
    assert.equal(
      changedFiles(folder),
      ['committed', 'changed', 'moved', 'elsewhere', 'removed', 'new folder/ü'].sort(),
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test.run();
