/**
 * `npm test [-- part-of-a-path …]`: compiles, runs the linter (with no part given), then each *.test.js in a process of
 * its own, two at a time, and adds up what uvu counted. What a test file says in lines that begin with '# ' is shown.
 * Ends with 'N passed, N failed'. Files named *cluster.test.js need a real cluster for themselves: they come last, one
 * at a time, on the cluster that e2e/src/cluster/find.ts finds; with --any-cluster that may be the one which KUBECONFIG
 * names, or a new one of kind's.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import path from 'node:path';
import { helpOr } from './help.mjs';
import { nodeBinary, prepare, root } from './prepare.mjs';

helpOr(`npm test [-- part-of-a-path …] [--any-cluster]

Runs the test files whose path contains one of the parts, or all and the linter. Those named *cluster.test.js need a
real Kubernetes cluster; with --any-cluster that may be the one that KUBECONFIG names, or a new one of kind's.`);

/** A file that takes longer than this hangs. On a cluster programs start slowly, and much is waited for. */
const FILE_TIMEOUT_MS = 20 * 60_000;
const CLUSTER_FILE_TIMEOUT_MS = 40 * 60_000;

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

function needsCluster(file) {
  return /(^|[./])cluster\.test\.js$/.test(file);
}

async function main() {
  const options = process.argv.slice(2).filter((argument) => argument.startsWith('--'));
  const wanted = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
  const isWanted = (file) =>
    wanted.length === 0 || wanted.some((part) => nameOf(file).includes(part.replace(/\.[jt]s$/, '')));
  const files = testFiles().filter(isWanted).sort();
  const total = { passed: 0, failed: 0, skipped: 0 };
  if (files.length === 0) console.log(`no test has ${wanted.join(' or ')} in its path`);
  if (wanted.length === 0) await lint(total);
  const queue = files.filter((file) => !needsCluster(file));
  await Promise.all(Array.from({ length: Math.min(2, availableParallelism()) }, () => worker(queue, total)));
  const clusterFiles = files.filter(needsCluster);
  if (clusterFiles.length > 0) await onCluster(clusterFiles, total, options.includes('--any-cluster'));
  if (total.skipped > 0) console.log(`${total.skipped} skipped, for the reasons above`);
  console.log(`${total.passed} passed, ${total.failed} failed`);
  if (total.failed > 0 || total.passed === 0) process.exitCode = 1;
}

/** One after another: each has the cluster for itself. */
async function onCluster(files, total, any) {
  const finder = spawn(nodeBinary(), [path.join(root, 'e2e/dist/cluster/main.js'), ...(any ? ['--any'] : [])], {
    cwd: root,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve) => finder.on('close', resolve));
  const line = await Promise.race([once(finder.stdout, 'data').then(([data]) => String(data)), ended.then(() => '{}')]);
  const { missing, refused, name, kubeconfig, overlay, seconds } = JSON.parse(line);
  if (missing) console.log(`# the tests that need a cluster are skipped: ${missing}`);
  if (refused) console.log(`✗ ${refused}`);
  if (kubeconfig) console.log(`✓ ${name} is ready (${seconds} s)`);
  const environment = kubeconfig ? { SLIPWAY_E2E_KUBECONFIG: kubeconfig, SLIPWAY_E2E_OVERLAY: overlay } : {};
  if (missing || kubeconfig) await worker([...files], total, environment);
  finder.stdin.end();
  const ending = await ended;
  if (ending === 0 && !refused) return;
  if (ending !== 0)
    console.log(kubeconfig ? '✗ the cluster could not be left as it was found' : '✗ no cluster came up');
  total.failed += 1;
}

async function worker(queue, total, environment = {}) {
  for (let file = queue.shift(); file; file = queue.shift()) {
    const begin = Date.now();
    const { output, code } = await run(file, [], environment);
    const count = (name) => Number(output.match(new RegExp(`^\\s+${name}:\\s+(\\d+)`, 'm'))?.[1] ?? 0);
    const notes = [...output.matchAll(/^# .*$/gm)].map(([line]) => line);
    const [ran, passed] = ['Total', 'Passed'].map(count);
    const saidWhy = notes.some((line) => line.startsWith('# skipped'));
    const failed = Math.max(ran - passed, code === 0 && (ran > 0 || saidWhy) ? 0 : 1);
    total.passed += passed;
    total.failed += failed;
    total.skipped += count('Skipped') + notes.filter((line) => line.startsWith('# skipped')).length;
    const seconds = ((Date.now() - begin) / 1000).toFixed(1);
    console.log(`${failed ? '✗' : '✓'} ${nameOf(file)} — ${passed} passed, ${failed} failed (${seconds} s)`);
    for (const line of notes) console.log(`  ${line}`);
    if (failed) console.log(output);
  }
}

async function lint(total) {
  const { output, code } = await run('node_modules/@biomejs/biome/bin/biome', ['check', '.']);
  total[code === 0 ? 'passed' : 'failed'] += 1;
  console.log(code === 0 ? '✓ lint' : `✗ lint\n${output}`);
}

function run(file, args = [], environment = {}) {
  return new Promise((resolve) => {
    const child = spawn(
      nodeBinary(),
      [
        '--enable-source-maps',
        '--disable-warning=ExperimentalWarning',
        `--import=${new URL('failing-hooks.mjs', import.meta.url)}`,
        path.join(root, file),
        ...args,
      ],
      {
        cwd: root,
        env: { ...process.env, FORCE_COLOR: '0', NO_COLOR: '1', ...environment },
        timeout: needsCluster(file) ? CLUSTER_FILE_TIMEOUT_MS : FILE_TIMEOUT_MS,
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
