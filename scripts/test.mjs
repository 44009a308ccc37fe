/**
 * `npm test [-- part-of-a-path …]`: compiles, runs the linter, then the test files of a set in two processes at a time,
 * and adds up the counts of uvu. Output lines of a test that begin with '# ' are shown. The last line is 'N passed, N
 * failed'. scripts/test/sets.mjs has the sets; scripts/test/cluster-phase.mjs has the order of the tests on a cluster,
 * which run beside the others of their set.
 */
import { randomInt } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { helpOr } from './help.mjs';
import { prepare, root } from './prepare.mjs';
import { changedFiles, UseGraph } from './test/changed.mjs';
import { runOnCluster, startCluster } from './test/cluster-phase.mjs';
import { runNode, runTestFiles } from './test/file.mjs';
import { abandonAll, MachineState } from './test/leftovers.mjs';
import { memoryFolder } from './test/memory-folder.mjs';
import { Progress, processesOf, Screen } from './test/progress.mjs';
import { recordedTimes, recordRun, recordTimes } from './test/records.mjs';
import { endReferenceServerAfter } from './test/reference-server.mjs';
import {
  isWanted,
  measures,
  nameOf,
  needsCluster,
  SETS,
  setOf,
  sharesProcess,
  sourceOf,
  testFiles,
} from './test/sets.mjs';

helpOr(`npm test                   runs the linter and the quick set
npm run test:long          runs *.long.test.ts, and *cluster.test.ts, which need a Kubernetes cluster
npm run test:fresh         runs *fresh.test.ts, which start from an empty machine
npm test -- --all          runs the three sets
npm test -- PART …         runs the files of any set whose path contains one of the parts
npm test -- --changed      runs the linter, and those of the set that the changes since main can reach

SEED=… repeats the choices of a run. With --any-cluster the cluster may be the one that KUBECONFIG names, or a new one
of kind's.`);

const CORES = Math.min(2, availableParallelism());
/** With one lane for each core, the quick set would spend a third of its time waiting. */
const LANES = { quick: CORES + 1, long: CORES, fresh: 1 };
const MOST_LISTED = 10;

/** A folder that test files share, for Postgres data and compiled code. Postgres's account may enter it. */
const SHARED_FOLDER = mkdtempSync(path.join(memoryFolder() ?? tmpdir(), 'slipway-run-'));
chmodSync(SHARED_FOLDER, 0o711);
process.on('exit', () => rmSync(SHARED_FOLDER, { recursive: true, force: true }));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'])
  process.once(signal, () => {
    abandonAll();
    process.exit(1);
  });

const screen = new Screen();
const seed = process.env.SEED ?? String(randomInt(2 ** 31));
const times = recordedTimes();

prepare();
await main();

async function main() {
  const options = process.argv.slice(2).filter((argument) => argument.startsWith('--'));
  const parts = process.argv.slice(2).filter((argument) => !argument.startsWith('--'));
  const named = SETS.filter((set) => options.includes(`--${set}`));
  const all = options.includes('--all') || (parts.length > 0 && named.length === 0);
  const sets = all ? SETS : named.length > 0 ? named : ['quick'];
  const run = { begin: new Date(), sets, parts, files: testFiles(root) };
  const isChosen = parts.length > 0 || options.includes('--changed');
  const isReached = options.includes('--changed') ? reachedByChanges() : () => true;
  const files = run.files.filter((file) => isWanted(file, parts) && sets.includes(setOf(file)) && isReached(file));
  const endReferenceServer = endReferenceServerAfter();
  const state = new MachineState();
  console.log(`SEED=${seed}`);
  const any = options.includes('--any-cluster');
  // Other tests use the cluster's API server too, so the cluster starts before them.
  const cluster = files.some(needsCluster) ? await startCluster(any) : undefined;
  const results = [];
  for (const set of sets) {
    const ofSet = files.filter((file) => setOf(file) === set);
    const ofThisSet = await runSet(set, ofSet, { lints: set === 'quick' && parts.length === 0, cluster });
    if (sets.length > 1 && ofThisSet.length > 0) console.log(`${set}: ${counts(sumOf(ofThisSet))}`);
    results.push(...ofThisSet);
  }
  endReferenceServer();
  // A run of named files is not checked for leftovers: other work beside it may leave its own.
  if (!isChosen) results.push(...leftByAny(state));
  summarise(run, results);
}

/** Returns a function that says whether the changes since main can reach a compiled test. */
function reachedByChanges() {
  const changed = changedFiles(root);
  const { tests, everything } = UseGraph.of(root).testsFor(changed);
  console.log(`${changed.length} files differ from main: ${everything ?? `they reach ${tests.length} test files`}`);
  const names = new Set(tests);
  return (file) => everything !== undefined || names.has(sourceOf(file));
}

function summarise({ begin, sets, parts, files }, results) {
  const ofFiles = results.filter(({ seconds }) => seconds !== undefined);
  recordTimes(ofFiles, files);
  const sum = sumOf(results);
  const failed = results.filter((result) => result.failed > 0);
  const failures = failed.map(({ name }) => name);
  const seconds = Math.round((Date.now() - begin.getTime()) / 1000);
  const size = { files: ofFiles.length, lanes: LANES };
  recordRun({ begin: begin.toISOString(), seed, sets, parts, ...size, seconds, ...sum, failures });
  if (ofFiles.length > MOST_LISTED) {
    console.log(`${ofFiles.length} files in ${seconds} s; the longest:`);
    const longest = ofFiles.toSorted((a, b) => b.seconds - a.seconds).slice(0, MOST_LISTED);
    for (const { name, seconds } of longest) console.log(`${seconds.toFixed(1).padStart(8)} s  ${name}`);
  }
  if (failed.length > 0) console.log(['failed:', ...failed.map(withReasons)].join('\n  '));
  if (parts.length > 0 && ofFiles.length === 0) console.log(`no test ran for ${parts.join(' or ')}`);
  if (sum.skipped > 0) console.log(`${sum.skipped} skipped, for the reasons above`);
  console.log(counts(sum));
  if (sum.failed > 0 || sum.passed === 0) process.exitCode = 1;
}

function withReasons({ name, reasons = [] }) {
  return [name, ...reasons].join('\n').replaceAll('\n', '\n    ');
}

function sumOf(results) {
  const add = (name) => results.reduce((sum, result) => sum + (result[name] ?? 0), 0);
  return { passed: add('passed'), failed: add('failed'), skipped: add('skipped') };
}

function counts({ passed, failed }) {
  return `${passed} passed, ${failed} failed`;
}

function leftByAny(state) {
  const added = state.added();
  if (added.length === 0) return [];
  console.log(['✗ the run left behind, or another program made during it:', ...added].join('\n  '));
  return [{ name: 'nothing is left behind', failed: 1 }];
}

/** Returns a result for each file, and for the linter and the cluster. */
async function runSet(set, files, { lints, cluster }) {
  const linted = lints ? [await lint()] : [];
  const clusterFiles = files.filter(needsCluster);
  const others = files.filter((file) => !needsCluster(file));
  const lanes = LANES[set];
  if (clusterFiles.length === 0) return [...linted, ...(await runFiles(others, Array.from({ length: lanes })))];
  return [...linted, ...(await onCluster(clusterFiles, { cluster, others, lanes }))];
}

async function onCluster(files, options) {
  const results = [];
  const run = async (...args) => void results.push(...(await runFiles(...args)));
  const failed = await runOnCluster(files, { ...options, run });
  return [...results, ...(failed > 0 ? [{ name: 'the cluster itself', failed }] : [])];
}

/**
 * `lanes`: the promise that each lane awaits before its first file. Files that measure come last, and run when the
 * lanes beyond the number of cores are done.
 */
async function runFiles(files, lanes, environment = {}) {
  const processes = processesOf(files, times, (file) => sharesProcess(root, file));
  const last = processes.filter(([file]) => measures(root, file));
  const first = processes.filter((process) => !last.includes(process));
  const progress = new Progress(files, { times, lanes: lanes.length });
  const results = [];
  const onBegin = (file) => {
    progress.start(file);
    screen.status(`${progress}`);
  };
  const onEnd = (file, result) => {
    progress.end(file);
    show(nameOf(file), result, progress);
    results.push({ name: nameOf(file), ...result });
  };
  const options = { shared: SHARED_FOLDER, environment: { ...environment, SEED: seed }, onBegin, onEnd };
  const runAll = async (queue) => {
    for (let process = queue.shift(); process; process = queue.shift()) await runTestFiles(process, options);
  };
  const runFirst = async (begin) => {
    await begin;
    await runAll(first);
  };
  const spare = Promise.all(lanes.slice(CORES).map(runFirst));
  const lane = async (begin) => {
    await runFirst(begin);
    await spare;
    await runAll(last);
  };
  await Promise.all(lanes.slice(0, CORES).map(lane));
  screen.status('');
  return results;
}

function show(name, { passed, failed, seconds, notes, output }, progress) {
  const rest = screen.rewrites ? '' : ` [${progress}]`;
  const mark = failed ? '✗' : '✓';
  const lines = [`${mark} ${name} — ${passed} passed, ${failed} failed (${seconds.toFixed(1)} s)${rest}`];
  lines.push(...notes.map((line) => `  ${line}`), ...(failed ? [output] : []));
  screen.line(lines.join('\n'), `${progress}`);
}

async function lint() {
  const { output, code } = await runNode([path.join(root, 'node_modules/@biomejs/biome/bin/biome'), 'check', '.']);
  console.log(code === 0 ? '✓ lint' : `✗ lint\n${output}`);
  return { name: 'lint', passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 };
}
