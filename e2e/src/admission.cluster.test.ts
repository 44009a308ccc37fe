/**
 * The admission policies of manifests/base/admission.yaml on a real API server: under other names, so that they affect
 * no installation.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { DATA_NAMESPACE, LABEL_PROJECT, LABEL_RETAINED, SYSTEM_NAMESPACE } from '@slipway/crds';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ROOT } from './cluster/find.js';
import { givenCluster } from './cluster/given.js';
import { kubectl } from './kubectl.js';
import { until } from './until.js';

const REF = 'admission';
const OURS = `p-${REF}`;
/** Named like a project's, and nobody's. */
const ANOTHERS = `p-${REF}-anothers`;
/** In the place of the platform's two. */
const SYSTEM = 'admission-test-system';
const DATA = 'admission-test-data';
const ENFORCE = 'pod-security.kubernetes.io/enforce';

type Program = 'operator' | 'api';
type Objects = Record<string, unknown>;

const object = (apiVersion: string, kind: string, namespace: string | undefined, name: string, rest: Objects = {}) => ({
  apiVersion,
  kind,
  metadata: { name, ...(namespace ? { namespace } : {}) },
  ...rest,
});
const namespace = (name: string, labels: Record<string, string>) => ({
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name, labels },
});
const secret = (place: string, type = 'Opaque') => object('v1', 'Secret', place, 'made', { type });
const accountToken = {
  ...secret(OURS, 'kubernetes.io/service-account-token'),
  metadata: { name: 'made', namespace: OURS, annotations: { 'kubernetes.io/service-account.name': 'default' } },
};
const configMap = (place: string) => object('v1', 'ConfigMap', place, 'made');

const container = {
  name: 'main',
  image: 'slipway.test/none',
  securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
};
const workload = (kind: string, place: string, pod: Objects = {}) =>
  object('apps/v1', kind, place, 'made', {
    spec: {
      replicas: 0,
      ...(kind === 'StatefulSet' ? { serviceName: 'made' } : {}),
      selector: { matchLabels: { app: 'made' } },
      template: { metadata: { labels: { app: 'made' } }, spec: { containers: [container], ...pod } },
    },
  });
const deployment = (place: string, pod?: Objects) => workload('Deployment', place, pod);

const cluster = givenCluster();
if (cluster) {
  const run = (args: string[], input?: unknown) =>
    kubectl(cluster.kubeconfig, args, input === undefined ? '' : JSON.stringify(input));
  const applied = (...objects: object[]) =>
    run(['apply', '-f', '-'], { apiVersion: 'v1', kind: 'List', items: objects });

  let policies = '';

  test.before(async () => {
    const written = await readFile(path.join(ROOT, 'manifests/base/admission.yaml'), 'utf8');
    policies = written
      .replaceAll('slipway-programs-', 'admission-test-')
      .replaceAll(`:${SYSTEM_NAMESPACE}:slipway-`, ':admission-test:')
      .replaceAll(SYSTEM_NAMESPACE, SYSTEM)
      .replaceAll(DATA_NAMESPACE, DATA);
    await kubectl(cluster.kubeconfig, ['apply', '-f', '-'], policies);
    await applied(
      namespace(OURS, { [LABEL_PROJECT]: REF, [ENFORCE]: 'restricted' }),
      ...[ANOTHERS, SYSTEM, DATA].map((place) => namespace(place, {})),
    );
    // An API server takes a while to go by a new policy.
    const last = async () => ((await refusal('operator', deployment(OURS, { hostPID: true }))) ? true : undefined);
    await until('the policies to be in force', last);
  });
  test.after(async () => {
    await kubectl(cluster.kubeconfig, ['delete', '-f', '-', '--ignore-not-found'], policies);
    await run(['delete', 'namespace', OURS, ANOTHERS, SYSTEM, DATA, '--ignore-not-found']);
  });

  /** Requests as the program, with every right that a role can give. Returns the refusal; undefined: it was allowed. */
  const asked = async (program: Program, args: string[], input?: unknown): Promise<string | undefined> => {
    const as = [`--as=system:serviceaccount:admission-test:${program}`, '--as-group=system:masters'];
    try {
      await run([...args, '--dry-run=server', ...as], input);
      return undefined;
    } catch (error) {
      const { message } = error as Error;
      if (!message.includes('ValidatingAdmissionPolicy')) throw error;
      return message;
    }
  };
  const refusal = (program: Program, wanted: object) => asked(program, ['create', '-f', '-'], wanted);
  const change = (program: Program, name: string, labels: Record<string, string | null>) =>
    asked(program, ['patch', 'namespace', name, '--type=merge', '-p', JSON.stringify({ metadata: { labels } })]);

  const NEW = 'p-admission-new';
  const isOfNew = { [LABEL_PROJECT]: 'admission-new' };
  const admitted: Record<string, () => Promise<string | undefined>> = {
    'the operator make a project’s namespace, before it has marks': () => refusal('operator', namespace(NEW, isOfNew)),
    'the API make a project’s namespace': () => refusal('api', namespace(NEW, isOfNew)),
    'the operator make it restricted at once': () =>
      refusal('operator', namespace(NEW, { ...isOfNew, [ENFORCE]: 'restricted' })),
    'the operator mark a project’s namespace': () => change('operator', OURS, { [LABEL_RETAINED]: 'true' }),
    'the operator delete a project’s namespace': () => asked('operator', ['delete', 'namespace', OURS]),
    'both write a project’s Secrets': async () =>
      (await refusal('operator', secret(OURS))) ?? (await refusal('api', secret(OURS))),
    'the operator make a Secret of the platform': () => refusal('operator', secret(SYSTEM)),
    'the operator make what the shared Postgres needs': async () =>
      (await refusal('operator', configMap(DATA))) ?? (await refusal('operator', workload('StatefulSet', DATA))),
    'the operator make a project’s pods': async () =>
      (await refusal('operator', deployment(OURS))) ?? (await refusal('operator', workload('StatefulSet', OURS))),
  };
  for (const [what, tried] of Object.entries(admitted)) {
    test(`the policies let ${what}`, async () => assert.is(await tried(), undefined));
  }

  const privileged = { containers: [{ ...container, securityContext: { privileged: true } }] };
  const refused: Record<string, () => Promise<string | undefined>> = {
    'a namespace that is not a project’s': () => refusal('operator', namespace('elsewhere', isOfNew)),
    'a namespace under another project’s label': () => refusal('operator', namespace(NEW, { [LABEL_PROJECT]: REF })),
    'a namespace of another taken over': () => change('operator', ANOTHERS, { [LABEL_PROJECT]: `${REF}-anothers` }),
    'a new namespace that is privileged': () =>
      refusal('operator', namespace(NEW, { ...isOfNew, [ENFORCE]: 'privileged' })),
    'a namespace made privileged': () => change('operator', OURS, { [ENFORCE]: 'privileged' }),
    'a namespace without its mark': () => change('operator', OURS, { [ENFORCE]: null }),
    'another’s namespace deleted': () => asked('operator', ['delete', 'namespace', ANOTHERS]),
    'a Secret in another’s namespace': () => refusal('operator', secret(ANOTHERS)),
    'a Secret of the platform, by the API': () => refusal('api', secret(SYSTEM)),
    'a Secret that is an account’s token': () => refusal('api', accountToken),
    'settings of the platform': () => refusal('operator', configMap(SYSTEM)),
    'a Deployment beside the platform’s': () => refusal('operator', deployment(SYSTEM)),
    'pods of the API’s account': () => refusal('operator', deployment(OURS, { serviceAccountName: 'slipway-api' })),
    'pods with a folder of the node': () =>
      refusal('operator', deployment(OURS, { volumes: [{ name: 'node', hostPath: { path: '/' } }] })),
    'pods with the network of the node': () => refusal('operator', deployment(OURS, { hostNetwork: true })),
    'pods with the processes of the node': () => refusal('operator', deployment(DATA, { hostPID: true })),
    'privileged containers': () => refusal('operator', workload('StatefulSet', OURS, privileged)),
    'privileged containers that run first': () =>
      refusal('operator', deployment(OURS, { initContainers: [{ ...privileged.containers[0], name: 'first' }] })),
  };
  for (const [what, tried] of Object.entries(refused)) {
    test(`the policies refuse ${what}`, async () => assert.ok(await tried()));
  }

  test('no expression is of an unknown field', async () => {
    const { items } = JSON.parse(await run(['get', 'validatingadmissionpolicies', '-o', 'json'])) as {
      items: { metadata: { name: string }; status?: { typeChecking?: { expressionWarnings?: object[] } } }[];
    };
    const warned = items.filter(({ metadata }) => metadata.name === 'admission-test-pods');
    assert.equal(
      warned.flatMap(({ status }) => status?.typeChecking?.expressionWarnings ?? []),
      [],
    );
  });
}

test.run();
