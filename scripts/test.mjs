/**
 * `npm test [-- part-of-a-path …]`: compiles, then runs each *.test.js in a process of its own, two at a time, and adds up what uvu
 * counted. Ends with 'N passed, N failed, N skipped'.
 */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { nodeBinary, prepare, root } from './prepare.mjs';

/** A file that takes longer than this hangs. */
const FILE_TIMEOUT_MS = 15 * 60_000;

prepare();
await main();

/** As people know it: its source, without the folder of compiled code. */
function nameOf(file) {
  return file.replace('/dist/', '/');
}

/** Every compiled test whose source is still there. */
function testFiles() {
  const { workspaces } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  return workspaces.flatMap((workspace) => {
    const dist = path.join(root, workspace, 'dist');
    const names = existsSync(dist) ? readdirSync(dist, { recursive: true }) : [];
    const tests = names.filter((name) => name.endsWith('.test.js'));
    const hasSource = (name) => existsSync(path.join(root, workspace, 'src', name.replace(/js$/, 'ts')));
    return tests.filter(hasSource).map((name) => path.join(workspace, 'dist', name));
  });
}

async function main() {
  const wanted = process.argv.slice(2);
  const isWanted = (file) =>
    wanted.length === 0 || wanted.some((part) => nameOf(file).includes(part.replace(/\.[jt]s$/, '')));
  const files = testFiles().filter(isWanted).sort();
  const total = { passed: 0, failed: 0, skipped: 0 };
  if (files.length === 0) console.log(`no test has ${wanted.join(' or ')} in its path`);
  const queue = [...files];
  await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, () => worker(queue, total)));
  console.log(`${total.passed} passed, ${total.failed} failed${total.skipped ? `, ${total.skipped} skipped` : ''}`);
  if (total.failed > 0 || total.passed === 0) process.exitCode = 1;
}

async function worker(queue, total) {
  for (let file = queue.shift(); file; file = queue.shift()) {
    const begin = Date.now();
    const { output, code } = await run(file);
    const count = (name) => Number(output.match(new RegExp(`^\\s+${name}:\\s+(\\d+)`, 'm'))?.[1] ?? 0);
    const [ran, passed, skipped] = ['Total', 'Passed', 'Skipped'].map(count);
    const failed = Math.max(ran - passed, code === 0 && ran > 0 ? 0 : 1);
    total.passed += passed;
    total.failed += failed;
    total.skipped += skipped;
    const seconds = ((Date.now() - begin) / 1000).toFixed(1);
    console.log(`${failed ? '✗' : '✓'} ${nameOf(file)} — ${passed} passed, ${failed} failed (${seconds} s)`);
    for (const line of output.matchAll(/^# .*$/gm)) console.log(`  ${line[0]}`);
    if (failed) console.log(output);
  }
}

function run(file) {
  return new Promise((resolve) => {
    const child = spawn(
      nodeBinary(),
      ['--enable-source-maps', '--disable-warning=ExperimentalWarning', path.join(root, file)],
      {
        cwd: root,
        env: { ...process.env, FORCE_COLOR: '0', NO_COLOR: '1' },
        timeout: FILE_TIMEOUT_MS,
        killSignal: 'SIGKILL',
      },
    );
    let output = '';
    const take = (chunk) => {
      output = (output + chunk).slice(-200_000);
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    child.on('close', (code) => resolve({ output, code }));
  });
}
