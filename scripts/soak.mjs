/**
 * `npm run soak [-- --rounds=10]`: repeats the tests that kill processes, each round with its own seed, until
 * .test-runs.jsonl has that number of rounds of this commit. An interrupted series resumes at the next call.
 */
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { helpOr } from './help.mjs';
import { nodeBinary, prepare, root } from './prepare.mjs';
import { presentCommit, recordedRuns } from './test/records.mjs';

helpOr(`npm run soak [-- --rounds=10]

Repeats the tests that kill processes under load, each round with a seed of its own, until so many rounds of this commit
are recorded. A series that was ended resumes the next time. SOAK_SECONDS=600 sets the length of each round of
e2e/soak.`);

const PARTS = ['e2e/soak', 'e2e/durability', 'e2e/lifetime', 'operator/chaos', 'operator/kill.long'];
const rounds = Number(/^--rounds=(\d{1,4})$/.exec(process.argv[2] ?? '--rounds=10')?.[1]);

if (!rounds) {
  process.stderr.write(`"${process.argv[2]}" is not a number of rounds: npm run soak -- --rounds=10\n`);
  process.exit(2);
}
prepare();
const commit = presentCommit();
for (let done = roundsDone(); done.length < rounds; done = roundsDone()) {
  process.stdout.write(`… round ${done.length + 1} of ${rounds} of ${commit}\n`);
  const before = done.length;
  spawnSync(nodeBinary(), [path.join(root, 'scripts/test.mjs'), '--long', ...PARTS], { cwd: root, stdio: 'inherit' });
  // An interrupted round, by Ctrl-C too, leaves no record.
  if (roundsDone().length === before) process.exit(1);
}
const failed = roundsDone().filter(({ failed: failures }) => failures > 0);
for (const { seed, failures } of failed) process.stdout.write(`✗ SEED=${seed}: ${failures.join(', ')}\n`);
process.stdout.write(`${roundsDone().length} rounds of ${commit}, ${failed.length} failed\n`);
process.exitCode = failed.length > 0 ? 1 : 0;

function roundsDone() {
  return recordedRuns().filter((run) => run.commit === commit && run.parts.join() === PARTS.join());
}
