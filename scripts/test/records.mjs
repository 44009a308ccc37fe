/**
 * Records runs in files that git ignores: `.test-files.json` has the last result of each test file, and
 * `.test-runs.jsonl` has a line for each run. A new checkout, such as CI's, uses usual-seconds.json, which lists the
 * files that take at least 20 s: measured on two cores, beside other work.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../prepare.mjs';
import { nameOf } from './sets.mjs';

const FILES = path.join(root, '.test-files.json');
const USUAL_TIMES = new URL('usual-seconds.json', import.meta.url);
const RUNS = path.join(root, '.test-runs.jsonl');
const MOST_RUNS = 1_000;
/** Limits the names in a record: a run that fails everywhere names all files. */
const MOST_FAILURES = 50;
const MOST_DIFFERENCE = 2 ** 28;

/** The last result of each test file. It is written as each file ends, because a run may be cut short. */
export class FileRecords {
  #file;
  #results;
  #state;

  /** `allFiles`: files that are not among them were deleted. `state` identifies the code that runs now. */
  constructor(allFiles, { file = FILES, state = presentState() } = {}) {
    const present = new Set(allFiles.map(nameOf));
    this.#file = file;
    this.#results = new Map(resultsIn(file).filter(([name]) => present.has(name)));
    this.#state = state;
  }

  /** Returns seconds by the name of the file. */
  get times() {
    const recorded = [...this.#results].map(([name, { seconds }]) => [name, seconds]);
    return new Map([...usualTimes(), ...recorded]);
  }

  /** True if the file passed in the present state. A file whose tests were all skipped did not. */
  hasPassed(file) {
    const { state, outcome } = this.#results.get(nameOf(file)) ?? {};
    return outcome === 'passed' && state === this.#state;
  }

  /** True if the file failed when it last ran, in any state. */
  hasFailed(file) {
    return this.#results.get(nameOf(file))?.outcome === 'failed';
  }

  add({ name, seconds, passed, failed }) {
    const outcome = failed > 0 ? 'failed' : passed > 0 ? 'passed' : 'skipped';
    this.#results.set(name, { seconds: Math.round(seconds * 10) / 10, outcome, state: this.#state });
    const sorted = [...this.#results].sort(([a], [b]) => (a < b ? -1 : 1));
    replace(this.#file, `${JSON.stringify(Object.fromEntries(sorted), undefined, 1)}\n`);
  }
}

export const usualTimes = () => Object.entries(JSON.parse(readFileSync(USUAL_TIMES, 'utf8')));

function resultsIn(file) {
  try {
    return Object.entries(JSON.parse(readFileSync(file, 'utf8')));
  } catch {
    return [];
  }
}

/** Returns a digest of the checked-out commit and of all that the checkout has changed and added. */
export function presentState(folder = root) {
  const git = (...args) =>
    execFileSync('git', args, { cwd: folder, maxBuffer: MOST_DIFFERENCE, stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const digest = createHash('sha256')
      .update(git('rev-parse', 'HEAD'))
      .update(git('diff', '--binary', 'HEAD'));
    const added = git('ls-files', '-z', '--others', '--exclude-standard').toString().split('\0').filter(Boolean);
    for (const name of added) digest.update(`\0${name}\0`).update(readFileSync(path.join(folder, name)));
    return digest.digest('hex').slice(0, 16);
  } catch {
    // Without git, nothing shows whether the code is the same as before.
    return `unknown at ${new Date().toISOString()}`;
  }
}

/** Returns the runs of the file, the oldest first, without a truncated line. */
export function recordedRuns() {
  return linesOf(RUNS).flatMap((line) => {
    try {
      return [JSON.parse(line)];
    } catch {
      return [];
    }
  });
}

/** Returns the checked-out commit, with `-changed` if the checkout differs from it. */
export function presentCommit() {
  const git = (...args) =>
    execFileSync('git', args, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    return `${git('rev-parse', '--short', 'HEAD').trim()}${git('status', '--porcelain') === '' ? '' : '-changed'}`;
  } catch {
    // This folder is no git checkout.
    return 'unknown';
  }
}

/** Appends `run`, with the commit that it ran on. */
export function recordRun({ failures, ...run }) {
  const line = JSON.stringify({ commit: presentCommit(), ...run, failures: failures.slice(0, MOST_FAILURES) });
  replace(RUNS, [...linesOf(RUNS), line].slice(-MOST_RUNS).join('\n').concat('\n'));
}

function linesOf(file) {
  try {
    return readFileSync(file, 'utf8').split('\n').filter(Boolean);
  } catch {
    return [];
  }
}

function replace(file, text) {
  const unfinished = `${file}.${process.pid}`;
  writeFileSync(unfinished, text);
  renameSync(unfinished, file);
}
