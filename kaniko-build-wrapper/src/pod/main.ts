/**
 * The program of the containers of a build's pod: `clone` or `publish`. In: the order, in a file. Out: its exit code.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { type JsonBound, parseJson } from '@slipway/program';
import { cloneForKaniko } from './clone.js';
import { type CloneOrder, type Ending, endingText, ORDER_FILE, type PublishOrder, TERMINATION_LOG } from './order.js';
import { publishImage } from './publish.js';

/** Limits of an order, which is in a Secret: a Secret has at most 1 MiB. */
const BOUND: JsonBound = { bytes: 1024 * 1024, depth: 5, values: 5_000 };
const FAILED = 1;

const STEPS: Readonly<Record<string, (order: never) => Promise<Ending>>> = {
  clone: (order: CloneOrder) => cloneForKaniko(order),
  publish: (order: PublishOrder) => publishImage(order),
};

/** An exit code that is not 0 keeps the containers after this one from running. */
function exitCodeOf(ending: Ending): number {
  if (ending.kind === 'failed') return ending.exitCode;
  return ending.kind === 'cloned' || ending.kind === 'published' ? 0 : FAILED;
}

const step = STEPS[process.argv[2] ?? ''];
if (!step) throw new Error('usage: main.js clone|publish');
try {
  const ending = await step(parseJson(readFileSync(ORDER_FILE), BOUND) as never);
  writeFileSync(TERMINATION_LOG, endingText(ending));
  process.exitCode = exitCodeOf(ending);
} catch (error) {
  process.stderr.write(`slipway: ${(error as Error).message}\n`);
  process.exitCode = FAILED;
}
