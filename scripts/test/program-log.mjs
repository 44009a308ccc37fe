/**
 * Finds the output of the programs that a failed test started. In: the log of a test process, to which tests append
 * that output (testing/src/program-log.ts), after a line with the name of each test (scripts/test/uvu.mjs).
 * Used by scripts/test/file.mjs.
 */
import { existsSync, readFileSync } from 'node:fs';
import { TEST } from './file-marks.mjs';

const MOST_LINES = 30;
const LONGEST_LINE = 400;

/** Returns the last lines of the programs during the failed test of `reason`, which begins with FAIL and its name. */
export function programLinesOf(logFile, reason) {
  const [, name] = /^FAIL {2}(?:.* {2})?"(.*)"$/m.exec(reason) ?? [];
  if (name === undefined || !existsSync(logFile)) return [];
  const sections = readFileSync(logFile, 'utf8').split(TEST);
  // Files that share a process may have a test of the same name; the last one is of the present file.
  const section = sections.findLast((each) => each.startsWith(`${name}\n`)) ?? '';
  const lines = section
    .slice(name.length)
    .split('\n')
    .filter((line) => line.trim() !== '');
  return lines.slice(-MOST_LINES).map((line) => line.slice(0, LONGEST_LINE));
}
