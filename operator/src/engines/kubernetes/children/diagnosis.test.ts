import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { areAlone, diagnose, isServing, isUpToDate, type Workload } from './diagnosis.js';
import type { ContainerStatus, Pod } from './kinds.js';

const deployment = (status: Workload['status'] = {}, replicas = 1): Workload => ({
  metadata: { name: 'auth', generation: 2 },
  spec: { replicas },
  status: { observedGeneration: 2, ...status },
});
const pod = (container: Partial<ContainerStatus>, status: Pod['status'] = {}): Pod => ({
  metadata: { name: 'auth-1' },
  status: {
    phase: 'Pending',
    containerStatuses: [{ name: 'auth', image: 'registry/auth:1', ...container }],
    ...status,
  },
});
const waiting = (reason: string, message = '') => pod({ state: { waiting: { reason, message } } });
const all = { replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1 };

const cases: { promise: string; workload?: Workload; pods?: Pod[]; reason: string; message: RegExp }[] = [
  {
    promise: 'a missing image is reported with its name',
    pods: [waiting('ImagePullBackOff', 'Back-off pulling image "registry/auth:1": ErrImagePull: not found')],
    reason: 'ImagePullBackOff',
    message: /^the image registry\/auth:1 of auth can not be pulled: not found$/,
  },
  {
    promise: 'a missing image is reported between two pulls too',
    pods: [waiting('ErrImagePull', 'not found')],
    reason: 'ImagePullBackOff',
    message: /^the image registry\/auth:1 of auth can not be pulled: not found$/,
  },
  {
    promise: 'a program that exits is reported with its exit code',
    pods: [
      pod({
        restartCount: 3,
        state: { waiting: { reason: 'CrashLoopBackOff' } },
        lastState: { terminated: { exitCode: 137, reason: 'OOMKilled' } },
      }),
    ],
    reason: 'CrashLoopBackOff',
    message: /^auth keeps exiting, last with exit code 137 \(OOMKilled\)$/,
  },
  {
    promise: 'a program that exits is reported between two restarts too',
    pods: [pod({ restartCount: 2, ready: false, lastState: { terminated: { exitCode: 1, reason: 'Error' } } })],
    reason: 'CrashLoopBackOff',
    message: /exit code 1$/,
  },
  {
    promise: 'a missing Secret of a container is reported',
    pods: [waiting('CreateContainerConfigError', 'secret "auth-environment" not found')],
    reason: 'CreateContainerConfigError',
    message: /secret "auth-environment" not found$/,
  },
  {
    promise: 'a pod that fits on no node is reported',
    pods: [
      pod(
        {},
        {
          conditions: [
            { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/1 nodes: Insufficient cpu.' },
          ],
        },
      ),
    ],
    reason: 'Unschedulable',
    message: /^no node accepts the pod of auth: 0\/1 nodes: Insufficient cpu\.$/,
  },
  {
    promise: 'a pod that waits for a volume is reported',
    pods: [
      pod(
        {},
        {
          conditions: [
            {
              type: 'PodScheduled',
              status: 'False',
              reason: 'Unschedulable',
              message: 'pod has unbound immediate PersistentVolumeClaims',
            },
          ],
        },
      ),
    ],
    reason: 'UnboundClaim',
    message: /^auth waits for its volume: /,
  },
  {
    promise: 'a used-up quota is reported in the words of the API server',
    workload: deployment({
      conditions: [
        {
          type: 'ReplicaFailure',
          status: 'True',
          reason: 'FailedCreate',
          message: 'pods "a" is forbidden: exceeded quota: project',
        },
      ],
    }),
    reason: 'QuotaExceeded',
    message: /^the API server refuses the pod of auth: .*exceeded quota: project$/,
  },
  {
    promise: 'a running pod is reported when its probe fails for too long',
    workload: deployment({
      conditions: [{ type: 'Progressing', status: 'False', reason: 'ProgressDeadlineExceeded', message: 'x' }],
    }),
    pods: [pod({ ready: false, state: {} }, { phase: 'Running' })],
    reason: 'ProgressDeadlineExceeded',
    message: /its probe fails/,
  },
];

for (const { promise, workload = deployment(), pods = [], reason, message } of cases) {
  test(promise, () => {
    const outcome = diagnose('auth', workload, pods);
    assert.is(outcome.state === 'failed' && outcome.reason, reason);
    assert.match(outcome.state === 'failed' ? outcome.message : '', message);
  });
}

test('a workload in progress is not failed, and its stage is reported', () => {
  const stages: [Workload | undefined, Pod[], RegExp][] = [
    [undefined, [], /to be made$/],
    [deployment(), [], /0 of 1 pods are made$/],
    [deployment({ updatedReplicas: 1 }), [waiting('ContainerCreating')], /ContainerCreating$/],
    [deployment({ updatedReplicas: 1 }), [pod({ ready: false, state: {} }, { phase: 'Running' })], /not ready yet$/],
    [deployment({ replicas: 1 }, 0), [pod({ ready: true })], /1 pods still run$/],
    [
      deployment({
        conditions: [
          { type: 'ReplicaFailure', status: 'True', message: 'error looking up service account p-x/default' },
        ],
      }),
      [],
      /pods are made$/,
    ],
  ];
  for (const [workload, pods, message] of stages) {
    const outcome = diagnose('auth', workload, pods);
    assert.is(outcome.state, 'progressing');
    assert.match(outcome.state === 'progressing' ? outcome.message : '', message);
  }
});

test('a workload is up to date when exactly its pods of the newest template exist, and all are ready', () => {
  assert.ok(isUpToDate(deployment(all)));
  assert.not(isUpToDate(deployment({ ...all, observedGeneration: 1 })));
  assert.not(isUpToDate(deployment({ ...all, updatedReplicas: 0 })));
  assert.not(isUpToDate(deployment({ ...all, availableReplicas: 0 })));
  assert.not(isUpToDate(deployment({ ...all, replicas: 2 })), 'the ready pod is of the former template');
  assert.not(isUpToDate(deployment(all, 2)));
  assert.ok(isUpToDate(deployment({}, 0)));
  assert.not(isUpToDate(deployment({ replicas: 1 }, 0)));
});

test('a workload is served by its old pods while its new pods are not ready', () => {
  const rolling = deployment({ ...all, replicas: 2 }, 2);
  assert.ok(isServing(rolling));
  assert.is(diagnose('auth', rolling, [waiting('ImagePullBackOff')]).state, 'failed');
});

test('diagnose ignores pods that are being deleted', () => {
  const leaving = waiting('ImagePullBackOff');
  const gone: Pod = { ...leaving, metadata: { ...leaving.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' } };
  assert.is(diagnose('auth', deployment(), [gone]).state, 'progressing');
});

test('areAlone returns true once older pods are deleted, not when their deletion begins', () => {
  const running = pod({}, { phase: 'Running' });
  const leaving: Pod = { ...running, metadata: { name: 'auth-0', deletionTimestamp: '2026-01-01T00:00:00Z' } };
  assert.not(areAlone(deployment(all), [running, leaving]));
  assert.not(areAlone(deployment(all), [running, running]));
  assert.ok(areAlone(deployment(all), [running]));
});

test('areAlone ignores a pod that has ended, as after an eviction', () => {
  const running = pod({}, { phase: 'Running' });
  assert.ok(areAlone(deployment(all), [running, pod({}, { phase: 'Failed' })]));
});

test.run();
