/**
 * Runs a failed test file once more, alone, after all others: a test that is sound nearly always must not reject a
 * change. A list of the files that passed then is printed at the end of the run, and appended to a file that all
 * checkouts of the repository share. A test that is in there three times is mended, or moved to another set. Used by
 * scripts/test.mjs.
 */
import { execFileSync } from 'node:child_process';
import { appendFileSync } from 'node:fs';
import path from 'node:path';
import { root } from '../prepare.mjs';
import { presentCommit } from './records.mjs';

/** If more files fail, the change is at fault. */
export const MOST_RETRIED = 20;

/**
 * Returns `results` with the second result of each file that failed. `runAlone(file)` resolves to a result. A file that
 * passed then has `firstFailure`, the reasons of the first run.
 */
export async function withSecondTries(results, runAlone) {
  const failed = results.filter(({ failed: failures }) => failures > 0);
  if (failed.length === 0) return results;
  if (failed.length > MOST_RETRIED) {
    console.log(`${failed.length} files failed; with more than ${MOST_RETRIED}, none is tried again`);
    return results;
  }
  console.log(`… second try of ${failed.length} files that failed`);
  const second = new Map();
  for (const first of failed) {
    const result = await runAlone(first.file);
    second.set(first.file, result.failed > 0 ? result : { ...result, firstFailure: reasonsOf(first) });
  }
  return results.map((result) => second.get(result.file) ?? result);
}

/** A file that failed without a failed test, for example because it did not end, has its last lines as its reason. */
const reasonsOf = ({ reasons, output }) => (reasons.length > 0 ? reasons : [output.trim().split('\n').at(-1) ?? '']);

/** Prints the files that passed at the second try, and appends them to the shared list. */
export function reportSecondTries(results) {
  const lines = results.flatMap(({ name, firstFailure = [] }) =>
    firstFailure.map((reason) => [name, ...reason.replace(/^FAIL {2}/, '').split('\n')].slice(0, 3).join(' | ')),
  );
  if (lines.length === 0) return;
  console.log(['passed at the second try (file | test | first error):', ...lines].join('\n  '));
  try {
    appendFileSync(sharedList(), lines.map((line) => `${presentCommit()} ${line}\n`).join(''));
  } catch (error) {
    console.log(`the list of second tries could not be written: ${error.message}`);
  }
}

function sharedList() {
  const options = { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] };
  const folder = execFileSync('git', ['rev-parse', '--git-common-dir'], options).trim();
  return path.join(path.resolve(root, folder), 'second-tries');
}
