import { readFile } from 'node:fs/promises';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { installPeers, UnreachableRegistry } from '../peers.js';
import { PAGE, render, verdictsOf } from './page.js';
import type { Outcome } from './run.js';
import { CASES, runOnBoth } from './sides.js';
import { VERDICTS } from './verdicts.js';

const test = suite('the same requests to a project and to @supabase/lite');
let outcomes: Outcome[];
test.before(async () => {
  outcomes = await runOnBoth();
});

test('every case has a unique name', () => {
  const names = CASES.map(({ service, name }) => `${service} ${name}`);
  assert.equal(
    names.filter((name, index) => names.indexOf(name) !== index),
    [],
  );
});

test('every difference between the responses of Slipway and lite has a verdict', () => {
  const unsaid = outcomes.flatMap((outcome) => {
    const verdicts = verdictsOf(outcome);
    return outcome.differences
      .filter(({ at }) => verdicts.get(at) === undefined)
      .map(
        ({ at, ours, lite }) =>
          `${outcome.case.service} ${outcome.case.name}: ${at} is ${shown(ours)}, of lite ${shown(lite)}`,
      );
  });
  assert.is(unsaid.join('\n'), '');
});

test('every verdict applies to at least one difference of this run', () => {
  const found = new Set(outcomes.flatMap((outcome) => [...verdictsOf(outcome).values()]));
  assert.equal(
    Object.keys(VERDICTS).filter((name) => !found.has(name)),
    [],
  );
});

test('docs/compatibility/lite.md has exactly the differences of this run', async () => {
  assert.is(render(outcomes), await readFile(PAGE, 'utf8'), 'npm run generate -- lite writes it anew');
});

const shown = (value: unknown) => JSON.stringify(value)?.slice(0, 300);

try {
  await installPeers();
  test.run();
} catch (error) {
  if (!(error instanceof UnreachableRegistry)) throw error;
  console.log(
    `# skipped: no package registry can be reached to install @supabase/lite from, which answers are compared with`,
  );
}
