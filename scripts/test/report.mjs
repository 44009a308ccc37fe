/**
 * Prints and records the results of a run of tests. The last line is 'N passed, N failed'. Used by scripts/test.mjs.
 */
import { recordRun } from './records.mjs';
import { reportSecondTries } from './second-tries.mjs';

const SLOWEST_SHOWN = 5;

/**
 * `run` has the begin and the choice of files, and whether options left none; `results` a result for each file, and for
 * the linter.
 */
export function summarise({ begin, missing, isEmpty, ...run }, results) {
  const ofFiles = results.filter(({ seconds }) => seconds !== undefined);
  const sum = sumOf(results);
  const failed = results.filter((result) => result.failed > 0);
  const seconds = Math.round((Date.now() - begin.getTime()) / 1000);
  const counted = { begin: begin.toISOString(), ...run, files: ofFiles.length, seconds, ...sum };
  recordRun({ ...counted, failures: failed.map(({ name }) => name) });
  showSlowest(ofFiles, seconds);
  if (failed.length > 0) console.log(['failed:', ...failed.map(withReasons)].join('\n  '));
  reportSecondTries(results);
  for (const line of missing) console.log(line);
  if (sum.skipped > 0) console.log(`${sum.skipped} skipped, for the reasons above`);
  console.log(`${sum.passed} passed, ${sum.failed} failed`);
  // A run that its options left nothing to do is no failure.
  const ranNothing = sum.passed === 0 && !isEmpty;
  if (sum.failed > 0 || ranNothing || missing.length > 0) process.exitCode = 1;
}

function showSlowest(ofFiles, seconds) {
  if (ofFiles.length <= SLOWEST_SHOWN) return;
  console.log(`${ofFiles.length} files in ${seconds} s; the slowest:`);
  const slowest = ofFiles.toSorted((a, b) => b.seconds - a.seconds).slice(0, SLOWEST_SHOWN);
  for (const { name, seconds: its } of slowest) console.log(`${its.toFixed(1).padStart(8)} s  ${name}`);
}

function withReasons({ name, reasons = [], programs = [] }) {
  const lines = reasons.flatMap((reason, at) => [reason, ...programLines(programs[at] ?? [])]);
  return [name, ...lines].join('\n').replaceAll('\n', '\n    ');
}

const programLines = (lines) =>
  lines.length === 0 ? [] : ['the last lines of the programs that it started:', ...lines.map((line) => `| ${line}`)];

export function sumOf(results) {
  const add = (name) => results.reduce((sum, result) => sum + (result[name] ?? 0), 0);
  return { passed: add('passed'), failed: add('failed'), skipped: add('skipped') };
}
