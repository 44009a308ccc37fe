import * as kubernetes from '@kubernetes/client-node';
import { readSite } from '@slipway/crds';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { sharedPlace } from '../postgres-cluster/place.js';
import { statefulSetObjects } from '../postgres-cluster/stateful-set.js';
import { serviceObjects } from '../services/deployment.js';
import type { DesiredObject } from './children.js';
import { objectDifference } from './difference.js';
import { KINDS, type Kind } from './kinds.js';

const test = suite('what somebody does to the pods of a project');

type Json = Record<string, unknown>;
type Path = (string | number)[];

const site = readSite('publicUrl: http://slipway.test');

const serviceOf = (name: 'auth' | 'rest') =>
  serviceObjects({
    owner: { ref: 'first', uid: 'uid' },
    name,
    image: 'slipway.test/image',
    replicas: 1,
    sizes: { cpu: '1', memory: '1Gi' },
    images: site.images,
    environment: { open: { A: '1' }, secret: { B: '2' } },
    printKey: 'key',
  });
const postgres = statefulSetObjects(
  { place: sharedPlace('eu-west'), size: site.sharedDatabase, suspended: false, password: 'x', site },
  undefined,
);
const workloads = [...serviceOf('auth'), ...serviceOf('rest'), ...postgres].filter(({ kind }) =>
  ['Deployment', 'StatefulSet'].includes(kind),
);

const typeNamed = (type: string) =>
  (
    kubernetes as unknown as Record<
      string,
      { getAttributeTypeMap?(): { baseName: string; type: string }[] } | undefined
    >
  )[type]?.getAttributeTypeMap?.();

/** Types whose fields others may add to, or that the API server lets nobody change or add to. */
const NOT_OURS = ['V1ObjectMeta', 'V1PersistentVolumeClaim'];
const LEFT_OUT = new Set([
  // Can't be changed.
  'podManagementPolicy',
  // Newer servers fill it in; of one server none is ever two.
  'maxUnavailable',
]);
/** Exactly one of its fields beside the name may be there. */
const VOLUME = 'V1Volume';

/** Every field that Kubernetes knows at each place where the object says something: whether or not it is said. */
function fieldsOf(type: string, value: Json, path: Path): Path[] {
  if (NOT_OURS.includes(type)) return [];
  return (typeNamed(type) ?? []).flatMap(({ baseName, type: inner }) => {
    if (LEFT_OUT.has(baseName)) return [];
    const at = [...path, baseName];
    const said = value[baseName];
    if (said === undefined) return type === VOLUME ? [] : [at];
    const item = inner.match(/^Array<(\w+)>$/)?.[1];
    if (item && typeNamed(item)) return (said as Json[]).flatMap((each, index) => fieldsOf(item, each, [...at, index]));
    return typeNamed(inner) ? fieldsOf(inner, said as Json, at) : [at];
  });
}

function changed(object: DesiredObject, path: Path): Json {
  const copy = structuredClone(object) as unknown as Json;
  const last = path.at(-1) as string;
  const place = path.slice(0, -1).reduce<Json>((inner, key) => inner[key] as Json, copy);
  place[last] = 'somebody’s';
  return copy;
}

const kindOf = ({ kind }: DesiredObject) => KINDS.find((each) => each.kind === kind) as Kind;

for (const object of workloads) {
  const told = `${object.kind} ${object.metadata.name}`;
  const fields = fieldsOf(`V1${object.kind}Spec`, (object as unknown as { spec: Json }).spec, ['spec']);

  test(`${told}: no field of it or of its pods is added or changed unseen`, () => {
    const unseen = fields.filter((path) => !objectDifference({ ...object }, changed(object, path), kindOf(object)));
    assert.equal(
      unseen.map((path) => path.join('.')),
      [],
    );
    for (const known of ['hostNetwork', 'dnsPolicy', 'schedulerName', 'initContainers', 'restartPolicy'])
      assert.ok(
        fields.some((path) => path.join('.') === `spec.template.spec.${known}`),
        known,
      );
  });
}

test('what the API server fills in is nobody’s change', () => {
  const [set] = postgres.filter(({ kind }) => kind === 'StatefulSet') as [DesiredObject];
  const live = structuredClone(set) as unknown as { spec: Json & { volumeClaimTemplates: Json[] } };
  const [claim] = live.spec.volumeClaimTemplates as [Json];
  Object.assign(claim, { apiVersion: 'v1', kind: 'PersistentVolumeClaim', status: { phase: 'Pending' } });
  Object.assign(claim.spec as Json, { volumeMode: 'Filesystem' });
  Object.assign(live.spec, { podManagementPolicy: 'OrderedReady' });
  Object.assign((live.spec.updateStrategy as { rollingUpdate: Json }).rollingUpdate, { maxUnavailable: 1 });
  assert.is(objectDifference({ ...set }, live as unknown as Json, kindOf(set)), undefined);
});

test.run();
