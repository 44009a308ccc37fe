/** Tests which test files a command chooses, by the ends of their names and by parts of their paths. */
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { chooseFiles, setOf, sourceOf, testFiles } = await import(`${root}scripts/test/sets.mjs`);

const FILES = [
  'a/dist/kill.test.js',
  'a/dist/b/kill.long.test.js',
  'e2e/dist/cluster/find.test.js',
  'e2e/dist/walk.cluster.test.js',
];
const [QUICK, LONG, FIND, CLUSTER] = FILES;

const CHOICES: [what: string, set: string, parts: string[], chosen: unknown[]][] = [
  ['no part is the whole quick set', 'quick', [], [QUICK, FIND]],
  ['no part is the whole long set', 'long', [], [LONG]],
  ['no part is the whole cluster set', 'cluster', [], [CLUSTER]],
  ['a part is within the set', 'quick', ['kill'], [QUICK]],
  ['a part is within a named set', 'long', ['a/b/kill'], [LONG]],
  ['a part may have src/', 'quick', ['a/src/kill'], [QUICK]],
  ['a part may be a whole path', 'quick', ['a/src/kill.test.ts'], [QUICK]],
  ['a folder named cluster is no set', 'quick', ['e2e/src/cluster/'], [FIND]],
  ['.long chooses from the long set', 'quick', ['kill.long'], [LONG]],
  ['.cluster chooses from the cluster set', 'quick', ['walk.cluster.test.ts'], [CLUSTER]],
  ['several parts may be in several sets', 'quick', ['a/kill', 'kill.long'], [QUICK, LONG]],
];

for (const [what, set, parts, chosen] of CHOICES) {
  test(`in a choice of tests, ${what}`, () => {
    assert.equal(chooseFiles(FILES, { set, parts }), { chosen, missing: [] });
  });
}

test('a part that only another set has is an error with the command of that set', () => {
  assert.equal(chooseFiles(FILES, { set: 'quick', parts: ['a/b/kill', 'walk', 'none'] }), {
    chosen: [],
    missing: [
      'no test file of the quick set has "a/b/kill" in its path; run npm run test:long -- a/b/kill',
      'no test file of the quick set has "walk" in its path; run npm run test:cluster -- walk',
      'no test file has "none" in its path',
    ],
  });
});

test('every test source of the repository is in one set', () => {
  const { workspaces } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
  const sources = workspaces.flatMap((workspace: string) =>
    readdirSync(path.join(root, workspace, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.test.ts'))
      .map((name) => path.join(workspace, 'src', name)),
  );
  assert.equal(testFiles(root).map(sourceOf).sort(), sources.sort());
  for (const file of testFiles(root)) assert.ok(['quick', 'long', 'cluster'].includes(setOf(file)), file);
});

test.run();
