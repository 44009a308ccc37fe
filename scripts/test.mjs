/**
 * `npm test [-- part-of-a-path …]`: compiles, runs the linter, then the test files of a set in two or three processes
 * at a time, then failed files once more, and adds up the counts of uvu. Output lines of a test that begin with '# '
 * are shown. The last line is 'N passed, N failed'. scripts/test/sets.mjs has the sets, scripts/test/cluster-phase.mjs
 * the order of the tests on a cluster.
 */
import { randomInt } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { helpOr } from './help.mjs';
import { prepare, root } from './prepare.mjs';
import { changedFiles, UseGraph } from './test/changed.mjs';
import { runOnCluster } from './test/cluster-phase.mjs';
import { runNode, runningFiles, runTestFiles } from './test/file.mjs';
import { abandonAll, MachineState } from './test/leftovers.mjs';
import { memoryFolder } from './test/memory-folder.mjs';
import { filesLeft, optionsOf } from './test/options.mjs';
import { Progress, processesOf, Screen } from './test/progress.mjs';
import { FileRecords } from './test/records.mjs';
import { summarise, sumOf } from './test/report.mjs';
import { withSecondTries } from './test/second-tries.mjs';
import { chooseFiles, measures, nameOf, SETS, setOf, sharesProcess, sourceOf, testFiles } from './test/sets.mjs';

helpOr(`npm test                   runs the linter and the quick set
npm run test:long          runs *.long.test.ts
npm run test:cluster       runs *.cluster.test.ts, which need a Kubernetes cluster
npm test -- PART …         runs the files of the set whose path contains one of the parts, with or without src/.
                           A part with .long or .cluster chooses from that set
npm test -- --changed      runs the linter, and those of the set that the changes since main can reach
npm run test:long -- --resume
                           skips the files that passed before in exactly this state of the checkout
npm run test:long -- --only-failed
                           runs the files of the set that failed when they last ran

SEED=… repeats the choices of a run. With --any-cluster the cluster may be the one that KUBECONFIG names, or a new one
of kind's.`);

const CORES = Math.min(2, availableParallelism());
/** With one lane for each core, the quick set would spend a third of its time waiting. */
const LANES = { quick: CORES + 1, long: CORES };
const FIXED_SEED = '1';
const LINT = 'lint';
/** The runner's own test uses a shorter one. */
const QUICK_LIMIT_MS = Number(process.env.SLIPWAY_TEST_RUN_MS ?? 25 * 60_000);

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

const options = givenOptions();
prepare();
await main(options);

function givenOptions() {
  try {
    return optionsOf(process.argv.slice(2));
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
}

async function main({ set, parts, isChanged, any, ...narrowed }) {
  const seed = process.env.SEED ?? (set === 'quick' ? FIXED_SEED : String(randomInt(2 ** 31)));
  const allFiles = testFiles(root);
  const records = new FileRecords(allFiles);
  const isReached = isChanged ? reachedByChanges() : () => true;
  const { chosen, missing } = chooseFiles(allFiles, { set, parts });
  const run = { begin: new Date(), seed, set, parts, missing };
  const state = new MachineState();
  console.log(`SEED=${seed}`);
  const results = set === 'quick' && parts.length === 0 ? [await lint()] : [];
  if (set === 'quick' && parts.length === 0) endAfter(QUICK_LIMIT_MS, results);
  const files = filesLeft(chosen.filter(isReached), narrowed, records);
  const isEmpty = files.length === 0 && chosen.length > 0;
  if (files.length < chosen.length) console.log(`${files.length} of ${chosen.length} files are left to run`);
  for (const each of Object.keys(SETS)) {
    const ofSet = files.filter((file) => setOf(file) === each);
    if (ofSet.length > 0) await runSet(each, ofSet, { any, seed, records, results });
  }
  // Other work beside a run of named files may leave its own.
  if (parts.length === 0) warnOfLeftovers(state);
  summarise({ ...run, isEmpty }, results);
}

/** Returns a function that says whether the changes since main can reach a compiled test. */
function reachedByChanges() {
  const changed = changedFiles(root);
  const { tests, everything } = UseGraph.of(root).testsFor(changed);
  console.log(`${changed.length} files differ from main: ${everything ?? `they reach ${tests.length} test files`}`);
  const names = new Set(tests);
  return (file) => everything !== undefined || names.has(sourceOf(file));
}

/** Ends a run that takes too long as a failure. */
function endAfter(limitMs, results) {
  setTimeout(() => {
    const running = runningFiles();
    abandonAll();
    console.log(
      [`✗ the run did not end within ${limitMs / 60_000} minutes; these files were running:`, ...running].join('\n  '),
    );
    const { passed, failed } = sumOf(results);
    console.log(`${passed} passed, ${failed + Math.max(running.length, 1)} failed`);
    process.exit(1);
  }, limitMs).unref();
}

function warnOfLeftovers(state) {
  const added = state.added();
  if (added.length === 0) return;
  console.log(['! the run left behind, or another program made during it:', ...added].join('\n  '));
}

/** Adds a result to `results` for each file, and for the cluster. */
async function runSet(set, files, { any, seed, records, results }) {
  const isLinted = !results.some(({ name, failed }) => name === LINT && failed > 0);
  const run = async (some, lanes, environment = {}) => {
    const options = { limitMs: SETS[set].limitMs, environment: { ...environment, SEED: seed }, records };
    const before = results.length;
    await runFiles(some, { ...options, lanes, results });
    const runAlone = async (file) => (await runFiles([file], { ...options, lanes: 1, results: [] }))[0];
    if (isLinted) results.splice(before, Infinity, ...(await withSecondTries(results.slice(before), runAlone)));
    return results.slice(before).filter(({ failed }) => failed > 0).length;
  };
  if (set !== 'cluster') return await run(files, LANES[set]);
  const failed = await runOnCluster(files, { any, run });
  if (failed > 0) results.push({ name: 'the cluster itself', failed });
}

/**
 * Adds a result for each file to `results` as the file ends, and returns them. Files that measure come last, and run
 * when the lanes beyond the number of cores are done.
 */
async function runFiles(files, { lanes, environment, limitMs, records, results }) {
  const { times } = records;
  const processes = processesOf(files, times, (file) => sharesProcess(root, file));
  const last = processes.filter(([file]) => measures(root, file));
  const first = processes.filter((process) => !last.includes(process));
  const progress = new Progress(files, { times, lanes });
  const onBegin = (file) => {
    progress.start(file);
    screen.status(`${progress}`);
  };
  const onEnd = (file, result) => {
    progress.end(file);
    const named = { file, name: nameOf(file), ...result };
    show(named, progress);
    records.add(named);
    results.push(named);
  };
  const options = { shared: SHARED_FOLDER, environment, limitMs, onBegin, onEnd };
  const runAll = async (queue) => {
    for (let process = queue.shift(); process; process = queue.shift()) await runTestFiles(process, options);
  };
  const runLanes = (count, work) => Promise.all(Array.from({ length: count }, work));
  const spare = runLanes(Math.max(lanes - CORES, 0), () => runAll(first));
  await runLanes(Math.min(lanes, CORES), async () => {
    await runAll(first);
    await spare;
    await runAll(last);
  });
  screen.status('');
  return results;
}

function show({ name, passed, failed, seconds, notes, output }, progress) {
  const rest = screen.rewrites ? '' : ` [${progress}]`;
  const mark = failed ? '✗' : '✓';
  const lines = [`${mark} ${name} — ${passed} passed, ${failed} failed (${seconds.toFixed(1)} s)${rest}`];
  lines.push(...notes.map((line) => `  ${line}`), ...(failed ? [output] : []));
  screen.line(lines.join('\n'), `${progress}`);
}

async function lint() {
  const { output, code } = await runNode([path.join(root, 'node_modules/@biomejs/biome/bin/biome'), 'check', '.']);
  console.log(code === 0 ? '✓ lint' : `✗ lint\n${output}`);
  return { name: LINT, passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 };
}
