import { readSite } from '@slipway/installation';
import { membersOf } from '@slipway/kubernetes/members.testing.js';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import { sharedPlace } from '../postgres-cluster/place.js';
import { statefulSetObjects } from '../postgres-cluster/stateful-set.js';
import { serviceObjects } from '../services/deployment.js';
import type { DesiredObject } from './children.js';
import { objectDifference } from './difference.js';
import { KINDS, type Kind } from './kinds.js';

const test = suite('what somebody does to the pods and Services of a project');

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
  ['Deployment', 'StatefulSet', 'Service'].includes(kind),
);

/** Types to whose fields others may add, or whose fields the API server keeps immutable. */
const NOT_OURS = ['V1ObjectMeta', 'V1PersistentVolumeClaim'];
const LEFT_OUT = new Set([
  // Immutable.
  'podManagementPolicy',
  // Newer servers fill it in. No default of one server differs from another's there.
  'maxUnavailable',
  // Fields of a Service that the cluster chooses.
  ...['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy'],
]);
/** Some known fields, which prove that the test checks all places. */
const KNOWN: Record<string, string[]> = {
  Deployment: ['hostNetwork', 'dnsPolicy', 'schedulerName', 'initContainers', 'restartPolicy'].map(
    (field) => `spec.template.spec.${field}`,
  ),
  Service: ['spec.externalIPs', 'spec.sessionAffinity', 'spec.selector', 'spec.ports.0.nodePort'],
};
KNOWN.StatefulSet = KNOWN.Deployment as string[];
/** A type of which exactly one field beside the name may be set. */
const VOLUME = 'V1Volume';

/** Returns every field that Kubernetes knows at each place of the object, set or not. */
function fieldsOf(type: string, value: Json, path: Path): Path[] {
  if (NOT_OURS.includes(type)) return [];
  return (membersOf(type) ?? []).flatMap(({ baseName, type: inner }) => {
    if (LEFT_OUT.has(baseName)) return [];
    const at = [...path, baseName];
    const said = value[baseName];
    if (said === undefined) return type === VOLUME ? [] : [at];
    const item = inner.match(/^Array<(\w+)>$/)?.[1];
    if (item && membersOf(item)) return (said as Json[]).flatMap((each, index) => fieldsOf(item, each, [...at, index]));
    return membersOf(inner) ? fieldsOf(inner, said as Json, at) : [at];
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

  test(`${told}: a change of any field of the object or of its pods is detected`, () => {
    const unseen = fields.filter((path) => !objectDifference({ ...object }, changed(object, path), kindOf(object)));
    assert.equal(
      unseen.map((path) => path.join('.')),
      [],
    );
    const known = KNOWN[object.kind] ?? [];
    assert.ok(known.length > 0);
    for (const field of known) assert.ok(fields.map((path) => path.join('.')).includes(field), field);
  });
}

test('a default of the API server does not count as a change', () => {
  const [set] = postgres.filter(({ kind }) => kind === 'StatefulSet') as [DesiredObject];
  const live = structuredClone(set) as unknown as { spec: Json & { volumeClaimTemplates: Json[] } };
  const [claim] = live.spec.volumeClaimTemplates as [Json];
  Object.assign(claim, { apiVersion: 'v1', kind: 'PersistentVolumeClaim', status: { phase: 'Pending' } });
  Object.assign(claim.spec as Json, { volumeMode: 'Filesystem' });
  Object.assign(live.spec, { podManagementPolicy: 'OrderedReady' });
  Object.assign((live.spec.updateStrategy as { rollingUpdate: Json }).rollingUpdate, { maxUnavailable: 1 });
  assert.is(objectDifference({ ...set }, live as unknown as Json, kindOf(set)), undefined);
  for (const service of workloads.filter(({ kind }) => kind === 'Service')) {
    const found = structuredClone(service) as unknown as { spec: Json };
    const addresses = { clusterIP: '10.96.0.9', clusterIPs: ['10.96.0.9'] };
    Object.assign(found.spec, { ...addresses, ipFamilies: ['IPv4'], ipFamilyPolicy: 'SingleStack' });
    assert.is(objectDifference({ ...service }, found as unknown as Json, kindOf(service)), undefined);
  }
});

test.run();
