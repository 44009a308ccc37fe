/** Tests a sealed build of a typical project: npm installs a package, TypeScript compiles, Node runs the result. */
import { execFile, execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { asAccount, isReachable, isRoot, systemProgram } from './account.js';
import { sealedAs, sealing } from './sealed.js';

const run = promisify(execFile);
const MIB = 2 ** 20;
const PATH = '/usr/bin:/bin:/usr/sbin:/sbin';
const packages = path.dirname(path.dirname(fileURLToPath(import.meta.resolve('typescript/package.json'))));
const deno = fileURLToPath(new URL('deno', import.meta.resolve(`@deno/linux-${process.arch}-glibc/package.json`)));
const npm = systemProgram('npm');
const account = isRoot() ? { uid: 1_500_000_000, gid: 1_500_000_000 } : undefined;
const folder = mkdtempSync(path.join(tmpdir(), 'slipway-test-'));
chmodSync(folder, 0o755);
test.after(() => rmSync(folder, { recursive: true, force: true }));

function write(name: string, content: string | object): void {
  const file = path.join(folder, name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, typeof content === 'string' ? content : JSON.stringify(content));
}

/** Script of the build. The package that it installs has an install script. */
const BUILD = `set -e
cp -R ${folder}/app ./app
cd app
npm install --offline --no-audit --no-fund --silent ${folder}/greeting-1.0.0.tgz >&2
node ${packages}/typescript/bin/tsc >&2
cat node_modules/greeting/hook
node out/index.js`;

for (const form of ['root', 'user-namespace'] as const)
  test(`npm, TypeScript and Node work in a command sealed by ${form}`, async () => {
    const starts = form === 'root' ? account : undefined;
    const as = form === 'root' ? [] : asAccount(account && { uid: 65_534, gid: 65_534 });
    const isPossible = sealing({ account: starts, deno }, as).form === form && isReachable(deno);
    if (npm === undefined || !isPossible) return console.log(`# skipped: no npm, or nothing is sealed by ${form}`);
    write('greeting/package.json', {
      name: 'greeting',
      version: '1.0.0',
      main: 'index.js',
      types: 'index.d.ts',
      scripts: { postinstall: 'echo hook >hook' },
    });
    write('greeting/index.js', "exports.greet = (name) => 'hello ' + name;");
    write('greeting/index.d.ts', 'export function greet(name: string): string;');
    execFileSync(npm, ['pack', '--silent', './greeting'], { cwd: folder });
    write('app/package.json', { name: 'app', version: '1.0.0' });
    const compilerOptions = { outDir: 'out', module: 'commonjs', strict: true, types: [], ignoreDeprecations: '6.0' };
    write('app/tsconfig.json', { compilerOptions, include: ['index.ts'] });
    write(
      'app/index.ts',
      "import { greet } from 'greeting';\nconst name: string = 'world';\nconsole.log(greet(name));",
    );
    assert.ok(existsSync(path.join(folder, 'greeting-1.0.0.tgz')));
    const { command, args, env } = sealedAs(form, ['/bin/sh', '-c', BUILD], {
      account: starts,
      deno,
      env: { PATH, HOME: '/scratch', npm_config_cache: '/scratch/.npm' },
      scratch: '/scratch',
      socket: undefined,
      readable: [folder, realpathSync(packages)],
      writable: [],
      limits: { processMemoryBytes: 4096 * MIB, processes: 200, diskBytes: 256 * MIB, diskFiles: 10_000 },
    });
    const [program, ...words] = [...as, command, ...args] as [string];
    const { stdout, stderr } = await run(program, words, { cwd: '/', env, timeout: 100_000 });
    assert.is(stdout, 'hook\nhello world\n', stderr);
    assert.is(stderr, '', 'nothing is missed by npm, Node and TypeScript');
  });

test.run();
