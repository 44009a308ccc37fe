/**
 * Records runs in files that git ignores: `.test-times.json` has the seconds of each test file's last run, and
 * `.test-runs.jsonl` has a line for each run. A new checkout, such as CI's, uses usual-seconds.json, which lists the
 * files that take at least 20 s: measured on two cores, beside other work.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../prepare.mjs';
import { nameOf } from './sets.mjs';

const TIMES = path.join(root, '.test-times.json');
const USUAL_TIMES = new URL('usual-seconds.json', import.meta.url);
const RUNS = path.join(root, '.test-runs.jsonl');
const MOST_RUNS = 1_000;
/** Limits the names in a record: a run that fails everywhere names all files. */
const MOST_FAILURES = 50;

/** Returns seconds by the name of the file. */
export function recordedTimes() {
  return new Map([...usualTimes(), ...lastTimes()]);
}

export const usualTimes = () => Object.entries(JSON.parse(readFileSync(USUAL_TIMES, 'utf8')));

function lastTimes() {
  try {
    return Object.entries(JSON.parse(readFileSync(TIMES, 'utf8')));
  } catch {
    return [];
  }
}

/** Keeps the times of files that did not run now, and drops those of deleted files. */
export function recordTimes(results, allFiles) {
  const times = recordedTimes();
  for (const { name, seconds } of results) times.set(name, Math.round(seconds * 10) / 10);
  const present = new Set(allFiles.map(nameOf));
  const kept = [...times].filter(([name]) => present.has(name)).sort(([a], [b]) => (a < b ? -1 : 1));
  replace(TIMES, `${JSON.stringify(Object.fromEntries(kept), undefined, 1)}\n`);
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
