import { test } from 'uvu';
import * as assert from 'uvu/assert';
import type { BuildContainer } from './build-job.js';
import { type BuildPod, endOfJob, type LogMarks, stateOfPod } from './job-state.js';

const at = (second: number) => `2026-11-26T08:00:${String(second).padStart(2, '0')}Z`;
const running = (from: number) => ({ running: { startedAt: at(from) } });
const ended = (from: number, to: number, exitCode = 0, more: object = {}) => ({
  terminated: { startedAt: at(from), finishedAt: at(to), exitCode, ...more },
});
const cloned = ended(1, 5, 0, {
  message: '{"kind":"cloned","commit":"abc","detected":{"framework":"vite"}}',
});

function podWith(states: Partial<Record<BuildContainer, object>>, status: object = {}): BuildPod {
  const of = (name: BuildContainer) => ({ name, state: states[name] ?? { waiting: { reason: 'PodInitializing' } } });
  return {
    metadata: { name: 'pod' },
    status: { initContainerStatuses: [of('clone'), of('build')], containerStatuses: [of('publish')], ...status },
  } as BuildPod;
}

const stepsOf = (pod: BuildPod | undefined, marks: LogMarks = {}) =>
  stateOfPod(pod, marks).steps.map(({ name, startedAt, finishedAt, exitCode }) => [
    name,
    startedAt.getUTCSeconds(),
    finishedAt?.getUTCSeconds(),
    exitCode,
  ]);

test('a build has no step when it has no pod, or its pod waits', () => {
  assert.equal(stepsOf(undefined), []);
  assert.equal(stepsOf(podWith({})), []);
  assert.is(stateOfPod(podWith({}), {}).hasCredentials, false);
});

test('the steps follow from the containers, and marks in the log separate installation and build', () => {
  assert.equal(stepsOf(podWith({ clone: running(1) })), [['Cloning', 1, undefined, undefined]]);
  assert.equal(stepsOf(podWith({ clone: cloned })), [['Cloning', 1, 5, 0]]);
  const building = podWith({ clone: cloned, build: running(6) });
  const [installingAt, buildingAt] = [new Date(at(7)), new Date(at(9))];
  assert.equal(stepsOf(building)[1], ['Building', 6, undefined, undefined]);
  assert.equal(stepsOf(building, { installingAt })[1], ['Installing', 6, undefined, undefined]);
  assert.equal(stepsOf(building, { installingAt, buildingAt }).slice(1), [
    ['Installing', 6, 9, 0],
    ['Building', 9, undefined, undefined],
  ]);
  const published = podWith({ clone: cloned, build: ended(6, 12), publish: ended(12, 14) });
  assert.equal(stepsOf(published, { installingAt, buildingAt }).at(-1), ['Building', 9, 14, 0]);
});

test('the commit and the detected settings come from the clone’s own message', () => {
  const { commit, detected, hasCredentials } = stateOfPod(podWith({ clone: cloned }), {});
  assert.equal([commit, detected, hasCredentials], ['abc', { framework: 'vite' }, true]);
  const forged = podWith({ clone: cloned, build: ended(6, 7, 0, { message: '{"kind":"cloned","commit":"forged"}' }) });
  assert.is(stateOfPod(forged, {}).commit, 'abc');
});

const FAILED = { phase: 'Failed' };
const refused = (message: string) => JSON.stringify({ kind: 'refused', message });
for (const [what, pod, failure, marks, expected] of [
  ['runs', podWith({ clone: running(1) }, { phase: 'Pending' }), undefined, {}, undefined],
  ['has no pod yet', undefined, undefined, {}, undefined],
  ['published its output', podWith({}, { phase: 'Succeeded' }), undefined, {}, { kind: 'published' }],
  [
    'published an output of a known size',
    podWith({ publish: ended(8, 9, 0, { message: '{"kind":"published","bytes":7}' }) }, { phase: 'Succeeded' }),
    undefined,
    {},
    { kind: 'published', bytes: 7 },
  ],
  [
    'could not clone',
    podWith({ clone: ended(1, 2, 128, { message: '{"kind":"failed","message":"no access","exitCode":128}' }) }, FAILED),
    undefined,
    {},
    ['CloningFailed', 'no access', false],
  ],
  [
    'is of a commit that was built before',
    podWith({ clone: ended(1, 2, 1, { message: '{"kind":"unneeded"}' }) }, FAILED),
    'BackoffLimitExceeded',
    {},
    { kind: 'unneeded' },
  ],
  [
    'has a command that pretends its commit was built before',
    podWith({ clone: cloned, build: ended(6, 7, 1, { message: '{"kind":"unneeded"}' }) }, FAILED),
    undefined,
    { exitCode: 3 },
    ['BuildingFailed', 'The command ended with exit code 3. The log has its output.', false],
  ],
  [
    'lost its clone',
    podWith({ clone: ended(1, 2, 1) }, FAILED),
    undefined,
    {},
    ['BuilderFailed', 'the cluster could not run the build', true],
  ],
  [
    'failed to install',
    podWith({ clone: cloned, build: ended(6, 7, 1) }, FAILED),
    undefined,
    { installingAt: new Date(at(6)), exitCode: 7 },
    ['InstallingFailed', 'The command ended with exit code 7. The log has its output.', false],
  ],
  [
    'failed to build',
    podWith({ clone: cloned, build: ended(6, 7, 1) }, FAILED),
    undefined,
    { installingAt: new Date(at(6)), buildingAt: new Date(at(7)), exitCode: 3 },
    ['BuildingFailed', 'The command ended with exit code 3. The log has its output.', false],
  ],
  [
    'used all its memory',
    podWith({ clone: cloned, build: ended(6, 7, 137, { reason: 'OOMKilled' }) }, FAILED),
    undefined,
    {},
    ['BuildingFailed', 'The build used more memory than its plan allows.', false],
  ],
  [
    'has a missing output',
    podWith({ clone: cloned, build: ended(6, 7, 1) }, FAILED),
    undefined,
    { refusal: 'output_dir is not a folder.' },
    ['OutputRefused', 'output_dir is not a folder.', false],
  ],
  [
    'has an output that the store refuses',
    podWith(
      { clone: cloned, build: ended(6, 7), publish: ended(8, 9, 1, { message: refused('x is a link') }) },
      FAILED,
    ),
    undefined,
    {},
    ['OutputRefused', 'x is a link', false],
  ],
  [
    'could not reach the store',
    podWith({ clone: cloned, build: ended(6, 7), publish: ended(8, 9, 1) }, FAILED),
    undefined,
    {},
    ['BuilderFailed', 'the cluster could not run the build', true],
  ],
  [
    'filled its disk',
    podWith({}, { ...FAILED, reason: 'Evicted', message: 'Usage of EmptyDir volume "workspace" exceeds the limit' }),
    undefined,
    {},
    ['CloningFailed', 'The build used more disk than its plan allows.', false],
  ],
  [
    'was evicted for a lack of memory on its node',
    podWith({}, { ...FAILED, reason: 'Evicted', message: 'The node was low on resource: memory' }),
    undefined,
    {},
    ['BuilderFailed', 'the cluster could not run the build', true],
  ],
  [
    'took too long',
    undefined,
    'DeadlineExceeded',
    {},
    ['CloningFailed', 'The build took longer than its plan allows.', false],
  ],
  [
    'lost its pod',
    undefined,
    'BackoffLimitExceeded',
    {},
    ['BuilderFailed', 'the cluster could not run the build', true],
  ],
  [
    'has an image that can not be pulled',
    podWith({ build: { waiting: { reason: 'ImagePullBackOff' } } }, { phase: 'Pending' }),
    undefined,
    {},
    ['BuilderFailed', 'the image of the container build can not be used', true],
  ],
] as const) {
  test(`a build that ${what} reports the reason to its owner`, () => {
    const end = endOfJob(pod, failure, marks);
    if (end?.kind !== 'failed') return assert.equal(end, expected);
    assert.equal([end.reason, end.message, end.retry], expected);
  });
}

test.run();
