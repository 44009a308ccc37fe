/**
 * Tests kill -9 of the operator, of a build's processes and of the whole platform during each step of a build: the
 * build has a definite end, the live site stays live, and neither files, processes nor mounts are left behind.
 */
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { missingWall } from '@slipway/kaniko-build-wrapper';
import { GitServer, Workshop } from '@slipway/kaniko-build-wrapper/testing.js';
import { until } from '@slipway/testing';
import { test as always, suite } from 'uvu';
import * as assert from 'uvu/assert';
import { type BuildView, buildEnded, buildsOf, createSite, deploy } from './deploys.js';
import { Management, type ProjectView } from './management.js';
import { type RunningPlatform, startPlatform } from './platform.js';
import { commandOf, processTree, send } from './processes.js';
import { requestSite } from './site-request.js';

const missing = missingWall();
const test = suite('builds that are killed');

let platform: RunningPlatform;
let person: Management;
let workshop: Workshop;
let host: GitServer;

test.before(async () => {
  workshop = new Workshop();
  host = await new GitServer(workshop).listen();
  platform = await startPlatform(undefined, host.settings);
  await Management.register(platform);
  person = await Management.register(platform);
});
test.after(async () => {
  await platform?.remove();
  host?.close();
  workshop?.close();
});

/** Each waits for its step, with a pause in which the victim is killed. */
const STEPS = {
  Cloning: {
    begin: () => {
      host.delayMs = 3_000;
    },
    isReached: ({ phase, commit }: BuildView) => phase === 'Cloning' && commit === null,
  },
  Installing: { begin: () => undefined, isReached: ({ phase }: BuildView) => phase === 'Installing' },
  Building: { begin: () => undefined, isReached: ({ phase }: BuildView) => phase === 'Building' },
  /** The output has 4,000 files, which the operator publishes after the last step. */
  publishing: {
    begin: () => undefined,
    isReached: ({ phase, steps }: BuildView) => phase === 'Building' && steps.at(-1)?.exit_code === 0,
  },
};
type Step = keyof typeof STEPS;

const OUTPUT = 'for n in $(seq 4000); do echo $n > dist/page-$n.txt; done; echo built > dist/index.html';

const operator = async (): Promise<number> => {
  for (const pid of await processTree(platform.pid)) {
    if ((await commandOf(pid)).includes('operator/dist/main.js')) return pid;
  }
  throw new Error('no operator runs');
};

const VICTIMS = {
  operator: async () => send(await operator(), 'SIGKILL'),
  /** The first process of the build: the others, such as git, are in its namespaces. */
  builder: async () => {
    const tree = async () => processTree(await operator());
    const [, builder] = await until(tree, (found) => found.length > 2);
    send(builder as number, 'SIGKILL');
  },
  platform: async () => {
    await platform.kill();
    platform = await startPlatform(platform, host.settings);
  },
};

async function bodyOf({ project_url }: ProjectView): Promise<string | undefined> {
  const { status, body } = await requestSite(project_url);
  return status === 200 ? body.trim() : undefined;
}

/** Returns what builds have left on the machine. */
async function leftovers(): Promise<string[]> {
  const builds = path.join(platform.home, 'builds');
  const work = await readdir(path.join(builds, 'work')).catch(() => []);
  const mounts = (await readFile('/proc/mounts', 'utf8')).split('\n').filter((line) => line.includes(builds));
  const processes = await processTree(await operator());
  const commands = await Promise.all(processes.slice(1).map(commandOf));
  const orphans = await Promise.all(
    (await readdir('/proc'))
      .filter((name) => /^\d+$/.test(name))
      .map(Number)
      .map(commandOf),
  );
  return [...work, ...mounts, ...commands, ...orphans.filter((command) => command.includes('sleep 3.25'))];
}

let project: ProjectView;
let lived: string;

for (const step of Object.keys(STEPS) as Step[]) {
  for (const victim of Object.keys(VICTIMS) as (keyof typeof VICTIMS)[]) {
    // The operator publishes, without a process of the build.
    if (step === 'publishing' && victim === 'builder') continue;
    test(`a build whose ${victim} is killed while it is ${step} ends, and the live site stays`, async () => {
      const name = `${step}-${victim}`.toLowerCase();
      workshop.repository(name, { 'index.html': `live ${name}` });
      project = await createSite(person, name, { repo_url: `${host.origin}/${name}.git`, github_token: 'none' });
      lived = `live ${name}`;
      const { id: first } = project;
      assert.is((await buildEnded(person, { id: first }, await deploy(person, project), 60_000)).phase, 'Deployed');
      await until(async () => (await bodyOf(project)) === lived, 'the first deployment to be served');

      const build = step === 'publishing' ? `mkdir -p dist; ${OUTPUT}` : `mkdir -p dist; sleep 3.25; ${OUTPUT}`;
      workshop.repository(name, { 'package.json': { name, version: '1.0.0', scripts: { build } } });
      const install_command = step === 'Installing' ? 'sleep 3.25' : '';
      assert.is((await person.call('PATCH', `/projects/${project.id}`, { install_command })).status, 200);
      STEPS[step].begin();
      const number = await deploy(person, project);
      const reached = await until(
        async () =>
          (await buildsOf(person, project)).find((each) => each.name === number && STEPS[step].isReached(each)),
        `${number} to be ${step}`,
      );
      assert.ok(reached);
      await VICTIMS[victim]();
      host.delayMs = 0;
      assert.is(await until(() => bodyOf(project), 'the site to be served'), lived);

      const ended = await buildEnded(person, project, number, 90_000);
      const isDeployed = victim !== 'builder';
      if (isDeployed) assert.is(ended.phase, 'Deployed', ended.message);
      else assert.equal([ended.phase, ended.message === ''], ['Failed', false]);
      await until(async () => (await bodyOf(project)) === (isDeployed ? 'built' : lived), 'the site of the end');
      await until(async () => (await leftovers()).length === 0, 'nothing to be left').catch(async (error: Error) => {
        throw new Error(`${error.message}: ${(await leftovers()).join('\n')}`);
      });
      assert.is((await person.call('DELETE', `/projects/${project.id}`)).status, 200);
      await person.untilGone(project.id);
    });
  }
}

if (missing) {
  console.log(`# skipped: this machine is missing ${missing}`);
  always('the missing requirement is named when a machine can’t isolate builds', () => assert.ok(missing));
  always.run();
} else test.run();
