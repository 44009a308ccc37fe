/** Tests the order of the tests on a cluster: each file is in one group, and each name of the lists is a file. */
import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { test } from 'uvu';
import * as assert from 'uvu/assert';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const { groupsOf, runBeside } = await import(`${root}scripts/test/cluster-phase.mjs`);
const files = readdirSync(`${root}e2e/src`).filter((name) => /(^|\.)cluster\.test\.ts$/.test(name));

test('every test on a cluster is in exactly one group, and tests with faults run alone', () => {
  const groups = groupsOf(files.map((name) => `e2e/dist/${name.replace(/ts$/, 'js')}`));
  const names = (group: string) => groups[group].map((file: string) => file.slice('e2e/dist/'.length, -'.js'.length));
  const all = Object.keys(groups).flatMap(names);
  assert.equal(all.sort(), files.map((name) => name.slice(0, -'.ts'.length)).sort());
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

/** Runs one file after another on a cluster where all pass except `failing`. Returns the starts and ends. */
async function eventsOf(onCluster: string[], others: string[], failing?: string) {
  const events: string[] = [];
  const run = async (files: string[], lanes: Promise<void>[]) => {
    const queue = [...files];
    const lane = async (begin: Promise<void>) => {
      await begin;
      for (let file = queue.shift(); file; file = queue.shift()) {
        events.push(`${file} begins`);
        await new Promise((resolve) => setTimeout(resolve, file?.includes('slow') ? 20 : 1));
        events.push(`${file} ends`);
      }
    };
    await Promise.all(lanes.map(lane));
  };
  const answer = async (command: string) => {
    events.push(command);
    return command === failing ? undefined : { done: command, seconds: 0 };
  };
  const images = answer('images').then((done) => done !== undefined);
  const options = { finder: { answer }, images, others, lanes: 2, environment: {}, run };
  const failures: number = await runBeside(onCluster, options);
  return { events, failures };
}

const APART = ['dist/upgrade.cluster', 'dist/shared.cluster', 'dist/chaos.cluster'];

test('images are built beside other tests, and API server tests end before the cluster changes', async () => {
  const { events, failures } = await eventsOf(APART, ['apiserver/slow', 'dist/slow', 'dist/other']);
  assert.is(failures, 0);
  const at = (event: string) => {
    assert.ok(events.includes(event), event);
    return events.indexOf(event);
  };
  assert.ok(at('images') < at('apiserver/slow ends'));
  assert.ok(at('apiserver/slow ends') < at('dist/upgrade.cluster begins'));
  assert.ok(at('dist/upgrade.cluster ends') < at('install'));
  assert.ok(at('install') < at('dist/shared.cluster begins'));
  for (const last of ['dist/slow', 'dist/other', 'dist/shared.cluster'])
    assert.ok(at(`${last} ends`) < at('dist/chaos.cluster begins'), last);
  assert.ok(at('dist/chaos.cluster ends') < at('uninstall'));
});

test('a failed image build counts as one failure, and only the tests on the cluster are skipped', async () => {
  const { events, failures } = await eventsOf(APART, ['dist/slow', 'dist/other'], 'images');
  assert.is(failures, 1);
  assert.equal(
    events.filter((event) => event.endsWith('ends')),
    ['dist/other ends', 'dist/slow ends'],
  );
});

test.run();
