/** Tests builds of real projects with packages from the registry that the machine's npm is configured for. */
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { missingWall } from './index.js';
import { GitServer, LOOPBACK, NOTHING_SET, registryNetworks, Workshop } from './testing.js';

const workshop = new Workshop();
let server: GitServer;
let allowed: string[];
test.before(async () => {
  server = await new GitServer(workshop).listen();
  allowed = [...LOOPBACK, ...(await registryNetworks())];
});
test.after(() => {
  server.close();
  workshop.close();
});
const isSealed = missingWall() === undefined;
if (!isSealed) console.log(`# skipped: this machine cannot isolate builds: ${missingWall()}`);
const sealedTest = isSealed ? test : test.skip;
const build = (name: string, ref: string, settings = {}) =>
  workshop.build({ ref, source: server.source(name), reach: { allowed }, settings: { ...NOTHING_SET, ...settings } });

const VITE = {
  'package.json': {
    name: 'app',
    private: true,
    type: 'module',
    scripts: { build: 'vite build' },
    devDependencies: { vite: '6.0.0' },
  },
  'index.html': '<!doctype html><div id="app"></div><script type="module" src="/main.js"></script>',
  'main.js': "document.querySelector('#app').textContent = import.meta.env.MODE;",
};

sealedTest('a Vite project is built with npm, and its next build uses the same packages', async () => {
  workshop.repository('vite', VITE);
  const first = await build('vite', 'vite');
  assert.match(first.file('index.html'), /assets\/index-[\w-]+\.js/);
  const { packageManager, ...detected } = first.result?.detected ?? {};
  assert.equal(detected, {
    framework: 'vite',
    installCommand: 'npm install',
    buildCommand: 'npm run build',
    outputDir: 'dist',
    nodeVersion: process.versions.node,
  });
  assert.match(packageManager ?? '', /^npm@\d/);
  writeFileSync(path.join(workshop.folder, 'trees/vite/package-lock.json'), first.file('../package-lock.json'));
  workshop.commit('vite');
  const cold = await build('vite', 'vite-locked');
  const warm = await build('vite', 'vite-locked');
  for (const recorded of [cold, warm]) assert.match(recorded.file('index.html'), /assets\/index-[\w-]+\.js/);
  assert.not.match(cold.text, /were restored/);
  assert.match(warm.text, /^Packages of an earlier build with the same lockfile were restored\.$/m);
  const [coldMs, warmMs] = [cold, warm].map(({ millisecondsOf }) => Math.round(millisecondsOf.Installing ?? 0));
  console.log(`# the first installation took ${coldMs} ms, and the second ${warmMs} ms`);
});

sealedTest('a folder of a pnpm workspace is built with the Node version of the workspace', async () => {
  workshop.repository('workspace', {
    '.nvmrc': '22\n',
    'package.json': { name: 'workspace', private: true, packageManager: 'pnpm@10.1.0' },
    'pnpm-workspace.yaml': 'packages:\n  - apps/*\n  - libs/*\n',
    'libs/greeting/package.json': { name: 'greeting', version: '1.0.0', type: 'module', main: 'index.js' },
    'libs/greeting/index.js': "export const greeting = 'hello from the workspace';",
    'apps/web/package.json': {
      name: 'web',
      private: true,
      type: 'module',
      scripts: { build: 'node build.js' },
      dependencies: { greeting: 'workspace:*' },
    },
    'apps/web/build.js': `import { mkdirSync, writeFileSync } from 'node:fs';
      import { greeting } from 'greeting';
      mkdirSync('dist');
      writeFileSync('dist/index.html', greeting + ' by ' + process.version);`,
  });
  const recorded = await build('workspace', 'workspace', { rootDir: 'apps/web' });
  assert.match(recorded.file('index.html'), /^hello from the workspace by v22\.\d+\.\d+$/);
  const { packageManager, nodeVersion, installCommand } = recorded.result?.detected ?? {};
  assert.match(`${packageManager} ${nodeVersion} ${installCommand}`, /^pnpm@10\.1\.0 22\.\S+ pnpm install$/);
  const again = await build('workspace', 'workspace', { rootDir: 'apps/web' });
  assert.is(again.file('index.html'), recorded.file('index.html'));
});

test.run();
