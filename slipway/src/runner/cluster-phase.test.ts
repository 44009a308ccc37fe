/** Tests the order of the tests on a cluster: each file is in one group, and each name of the lists is a file. */
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { groupsOf, runGroups } = await import(`${root}scripts/test/cluster-phase.mjs`);
const { setOf, testFiles } = await import(`${root}scripts/test/sets.mjs`);
const files: string[] = testFiles(root).filter((file: string) => setOf(file) === 'cluster');

test('every test on a cluster is in exactly one group, and tests with faults run alone', () => {
  const groups: Record<string, string[]> = groupsOf(files);
  assert.equal(Object.values(groups).flat().sort(), files.toSorted());
  const names = (group: string) => groups[group]?.map((file) => file.slice('e2e/dist/'.length, -'.js'.length)).sort();
  const faults = ['chaos', 'services', 'siege', 'sites'];
  assert.equal(
    names('faults'),
    faults.map((name) => `${name}.cluster.test`),
  );
  const empty = ['admission', 'examples', 'explain', 'manifests', 'upgrade'];
  assert.equal(
    names('empty'),
    empty.map((name) => `${name}.cluster.test`),
  );
});

const FILES = ['e2e/shared.cluster', 'e2e/chaos.cluster', 'e2e/upgrade.cluster', 'apiserver/schema.cluster'];

/**
 * Runs the files on a cluster whose command or file `failing` fails. Returns its commands, and the files with their
 * lanes.
 */
async function eventsOf(chosen: string[], failing?: string) {
  const events: string[] = [];
  const run = async (some: string[], lanes: number) => {
    for (const file of some) events.push(`${file} in ${lanes}`);
    return some.filter((file) => file === failing).length;
  };
  const answer = async (command: string) => {
    events.push(command);
    return command === failing ? undefined : { done: command, seconds: 0 };
  };
  const failures: number = await runGroups(groupsOf(chosen), { finder: { answer }, environment: {}, run });
  return { events, failures };
}

test('files that need the API server run first, then those with an empty cluster, and faults at the end', async () => {
  const { events, failures } = await eventsOf(FILES);
  assert.is(failures, 0);
  assert.equal(events, [
    'images',
    'apiserver/schema.cluster in 1',
    'e2e/upgrade.cluster in 1',
    'install',
    'e2e/shared.cluster in 2',
    'e2e/chaos.cluster in 1',
    'uninstall',
  ]);
});

test('if a test of the installation fails, the logs of its programs are shown before it is removed', async () => {
  const { events } = await eventsOf(FILES, 'e2e/shared.cluster');
  assert.equal(events.slice(-3), ['e2e/chaos.cluster in 1', 'logs', 'uninstall']);
});

test('files that need only the API server run without images', async () => {
  assert.equal((await eventsOf(['apiserver/schema.cluster'])).events, ['apiserver/schema.cluster in 1']);
});

test('a failed image build counts as one failure, and no test that needs the images runs', async () => {
  const { events, failures } = await eventsOf(FILES, 'images');
  assert.is(failures, 1);
  assert.equal(events, ['images', 'apiserver/schema.cluster in 1']);
});

test.run();
