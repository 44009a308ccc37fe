import { LABEL_PART, LABEL_PROJECT, namespaceOf } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { projectOf } from '../children/children.js';
import type { Workload } from '../children/diagnosis.js';
import { ANNOTATION_IMAGE, Rollout, type Seen } from './rollout.js';

const test = suite('the Deployments that a rollout reads');
const NEW = 'slipway/auth:2';

/** Makes a workload of `image` whose pods do not become ready. */
const failing = (ref: string, image: string, place: { namespace?: string; name?: string } = {}): Workload => ({
  metadata: {
    name: place.name ?? 'auth',
    namespace: place.namespace ?? namespaceOf(ref),
    generation: 1,
    labels: { [LABEL_PROJECT]: ref, [LABEL_PART]: 'auth' },
    annotations: { [ANNOTATION_IMAGE]: image },
  },
  spec: { replicas: 1 },
  status: { observedGeneration: 1, conditions: [{ type: 'Progressing', status: 'False' }] },
});
const well = (ref: string, image: string): Workload => ({
  ...failing(ref, image),
  status: { observedGeneration: 1, replicas: 1, updatedReplicas: 1, readyReplicas: 1, availableReplicas: 1 },
});

function rolloutOver(...deployments: Workload[]): Rollout {
  const seen: Seen = {
    all: <T extends KubeObject>() => deployments as KubeObject[] as T[],
    get: <T extends KubeObject>(_kind: string, namespace: string | undefined, name: string) =>
      deployments.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name) as T | undefined,
    list: () => [],
    onChange: () => {},
  };
  return new Rollout(seen, { images: { auth: NEW, rest: 'rest' }, rollout: { batch: 1 } } as never);
}

const reasonFor = (rollout: Rollout, ref: string) => {
  const { outcome } = rollout.of(ref).part;
  return outcome.state === 'ready' ? 'Ready' : outcome.reason;
};

test('a project that fails with the new images stops the rollout to healthy projects', () => {
  const rollout = rolloutOver(failing('a', NEW), well('b', 'old'));
  assert.is(reasonFor(rollout, 'a'), 'RolloutFailed');
  assert.is(reasonFor(rollout, 'b'), 'RolloutHalted');
});

test('a Deployment with another name, or another project’s label, does not stop a rollout', () => {
  const ofAnother = failing('a', NEW, { namespace: namespaceOf('mallory') });
  const byAnotherName = failing('b', NEW, { name: 'more' });
  const rollout = rolloutOver(ofAnother, byAnotherName, well('b', 'old'));
  assert.is(reasonFor(rollout, 'b'), 'RollingOut');
  assert.is(rollout.counts().failed, 0);
});

test('a label in a project’s namespace counts only for that project', () => {
  const labels = { [LABEL_PROJECT]: 'a' };
  assert.equal(projectOf({ name: 'x', namespace: 'p-a', labels }), ['a']);
  assert.equal(projectOf({ name: 'x', namespace: 'p-b', labels }), []);
  assert.equal(projectOf({ name: 'p-a', namespace: 'slipway-system', labels }), ['a']);
  assert.equal(projectOf({ name: 'p-a', labels }), ['a']);
});

test.run();
