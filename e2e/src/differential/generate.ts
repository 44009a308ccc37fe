/** Runs every case on both sides and writes docs/compatibility/lite.md (`npm run generate -- lite`). */
import { writeFile } from 'node:fs/promises';
import { installPeers } from '../peers.js';
import { PAGE, render, verdictsOf } from './page.js';
import { runOnBoth } from './sides.js';

await installPeers();
const outcomes = await runOnBoth();
for (const outcome of outcomes) {
  const verdicts = verdictsOf(outcome);
  const unsaid = outcome.differences.filter(({ at }) => verdicts.get(at) === undefined);
  if (unsaid.length === 0) continue;
  process.exitCode = 1;
  process.stderr.write(`no verdict says which is right: ${outcome.case.service} ${outcome.case.name}\n`);
  for (const { at, ours, lite } of unsaid) {
    process.stderr.write(`  ${at}\n    ours ${JSON.stringify(ours)}\n    lite ${JSON.stringify(lite)}\n`);
  }
}
await writeFile(PAGE, render(outcomes));
