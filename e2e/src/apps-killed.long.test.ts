/**
 * Tests kill -9 of the operator, of the data plane, of the engine's processes and of the whole platform during each
 * step of a deploy of an app: what is live stays live, the deploy ends, and a deleted app leaves nothing.
 */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import {
  beginDeploy,
  createApp,
  deployed,
  dockerfileOf,
  echoOf,
  enginesOf,
  leftoversOf,
  openApps,
  page,
  push,
} from './apps.js';
import { type BuildView, buildEnded, buildsOf } from './deploys.js';
import type { ProjectView } from './management.js';
import { MAIN, removeLinkedData, startPlatform, temporaryFolder } from './platform.js';
import { commandOf, processTree, send } from './processes.js';

const BUILD_MS = 180_000;

const scene = await openApps('none');
const { own, lacking } = scene;
const { person, host } = own;
const apps = suite('apps that are killed');
const test = lacking ? apps.skip : apps;

apps.after(() => scene.close());

interface Step {
  /** The files of the version, which takes seconds for the step. */
  files(version: number): Record<string, string>;
  isReached(build: BuildView): boolean;
}

const STEPS: Record<string, Step> = {
  cloned: {
    files: (version) => ({ Dockerfile: dockerfileOf(), 'app.js': echoOf(version) }),
    isReached: ({ phase, commit }) => phase === 'Cloning' && commit === null,
  },
  built: {
    files: (version) => ({ Dockerfile: dockerfileOf(`RUN echo ${version}; sleep 3.25`), 'app.js': echoOf(version) }),
    isReached: ({ phase }) => phase === 'Building',
  },
  started: {
    files: (version) => ({
      Dockerfile: dockerfileOf(),
      'app.js': echoOf(version, 'setTimeout(() => server.listen(process.env.PORT), 3250);'),
    }),
    isReached: ({ phase, steps }) => phase === 'Building' && steps.at(-1)?.exit_code === 0,
  },
  live: {
    files: (version) => ({ Dockerfile: dockerfileOf(), 'app.js': echoOf(version) }),
    isReached: ({ phase }) => phase === 'Deployed',
  },
};

async function programOf(name: string): Promise<number> {
  for (const pid of await processTree(scene.platform.pid)) {
    if ((await commandOf(pid)).includes(`${name}/dist/main.js`)) return pid;
  }
  throw new Error(`no ${name} runs`);
}

let project: ProjectView;

const VICTIMS: Record<string, () => Promise<void>> = {
  operator: async () => send(await programOf('operator'), 'SIGKILL'),
  'data plane': async () => {
    send(await programOf('dataplane'), 'SIGKILL');
    await until(() => page(project).catch(() => undefined), 'it to answer again');
  },
  /** Podman's process for each container, and the builder if there is one. */
  engine: async () => {
    for (const line of enginesOf(project)) send(Number.parseInt(line, 10), 'SIGKILL');
    for (const pid of await processTree(await programOf('operator'))) {
      if ((await commandOf(pid)).includes('podman')) send(pid, 'SIGKILL');
    }
  },
  platform: async () => {
    await scene.platform.kill();
    scene.platform = await startPlatform(scene.platform, scene.settings);
  },
};

test('an app is deployed', async () => {
  project = await createApp(own, 'killed');
  const name = await beginDeploy(own, project);
  assert.is((await buildEnded(person, project, name, BUILD_MS)).phase, 'Deployed');
  await until(() => page(project), 'the app serves');
});

let version = 1;

for (const [step, { files, isReached }] of Object.entries(STEPS)) {
  for (const [victim, kill] of Object.entries(VICTIMS)) {
    test(`the app serves and its version becomes live if the ${victim} is killed while it is ${step}`, async () => {
      const before = version;
      version += 1;
      push(own, 'killed', files(version));
      host.delayMs = step === 'cloned' ? 3_000 : 0;
      const name = await beginDeploy(own, project);
      await until(
        async () => (await buildsOf(person, project)).find((each) => each.name === name && isReached(each)),
        `${name} to be ${step}`,
      );
      await sleep(500);
      await kill();
      host.delayMs = 0;
      const served = await until(() => page(project).catch(() => undefined), 'the app to serve');
      assert.ok([before, version].includes(served.version), `version ${served.version} serves`);
      const ended = await buildEnded(person, project, name, BUILD_MS);
      assert.is(ended.phase, 'Deployed', ended.message);
      await until(async () => (await page(project))?.version === version, 'the new version to serve');
    });
  }
}

test('a deleted app leaves nothing on the machine', async () => {
  await until(() => enginesOf(project).length === 1, 'one container to be left', 60_000);
  assert.is((await person.call('DELETE', `/projects/${project.id}`)).status, 200);
  await person.untilGone(project.id);
  assert.equal(leftoversOf(scene.platform, project), []);
});

test('an uninstall of a killed platform leaves nothing of its apps on the machine', async () => {
  project = await createApp(own, 'left');
  assert.is((await deployed(own, project)).phase, 'Deployed');
  await scene.platform.kill();
  assert.is(enginesOf(project).length, 1, 'the container outlives the platform');
  const { home } = scene.platform;
  // Slipway removes nothing while the home has links that it did not make.
  await removeLinkedData(home);
  const env = { PATH: process.env.PATH, TMPDIR: temporaryFolder(home), SLIPWAY_HOME: home };
  const { status, stderr } = spawnSync(process.execPath, [MAIN, 'uninstall', '--yes'], { env, encoding: 'utf8' });
  assert.is(status, 0, stderr);
  assert.equal(leftoversOf(scene.platform, project), []);
  assert.not.ok(existsSync(home));
});

apps.run();
