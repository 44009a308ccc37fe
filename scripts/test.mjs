/**
 * `npm test [-- part-of-a-path …]`: compiles, then runs each *.test.js in a process of its own, two at a time, and adds up what uvu
 * counted. Ends with 'N passed, N failed, N skipped'.
 */
import { spawn } from 'node:child_process';
import * as fs from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { nodeBinary, prepare, root } from './prepare.mjs';

/** A file that takes longer than this hangs. */
const FILE_TIMEOUT_MS = 15 * 60_000;

prepare();
if (!fs.globSync) {
  // Node 20 has no globSync: go on under the Node that npm brought.
  const child = spawn(nodeBinary(), process.argv.slice(1), { stdio: 'inherit' });
  child.on('exit', (code, signal) => process.exit(signal ? 1 : code));
} else await main();

async function main() {
  const wanted = process.argv.slice(2);
  const files = fs
    .globSync('*/dist/**/*.test.js', { cwd: root, exclude: (name) => name === 'node_modules' })
    .filter((file) => wanted.length === 0 || wanted.some((part) => file.includes(part)))
    .sort();
  const total = { passed: 0, failed: 0, skipped: 0 };
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
    console.log(
      `${failed ? '✗' : '✓'} ${file.replace('/dist/', '/')} — ${passed} passed, ${failed} failed (${seconds} s)`,
    );
    for (const line of output.matchAll(/^# .*$/gm)) console.log(`  ${line[0]}`);
    if (failed) console.log(output);
  }
}

function run(file) {
  return new Promise((resolve) => {
    const child = spawn(nodeBinary(), ['--enable-source-maps', path.join(root, file)], {
      cwd: root,
      env: { ...process.env, FORCE_COLOR: '0', NO_COLOR: '1' },
      timeout: FILE_TIMEOUT_MS,
      killSignal: 'SIGKILL',
    });
    let output = '';
    const take = (chunk) => {
      output = (output + chunk).slice(-200_000);
    };
    child.stdout.on('data', take);
    child.stderr.on('data', take);
    child.on('close', (code) => resolve({ output, code }));
  });
}
