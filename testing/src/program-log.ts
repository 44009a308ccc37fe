/**
 * Keeps the output of the programs that a test starts, for the report of a failed test. In: SLIPWAY_TEST_LOG, the file
 * of this test process, from the test runner. Without it, nothing is kept.
 */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';

const FILE = process.env.SLIPWAY_TEST_LOG;
/** Maximum characters of one test; a report shows its last lines. */
const LIMIT = 200_000;
const KEPT = LIMIT / 2;
/** Begins the runner's line with the name of a test. */
const MARK = '\u0001';
/** Number of characters since the file was last shortened. */
let added = 0;

/** Appends output of a program. */
export function keepForReport(output: string): void {
  if (FILE === undefined) return;
  added += output.length;
  appendFileSync(FILE, output);
  if (added > LIMIT) shorten(FILE);
}

/** Keeps the end of the running test's output, and all of the tests before it. */
function shorten(file: string): void {
  const text = readFileSync(file, 'utf8');
  const afterName = text.indexOf('\n', text.lastIndexOf(MARK)) + 1;
  writeFileSync(file, text.slice(0, afterName) + text.slice(afterName).slice(-KEPT));
  added = 0;
}
