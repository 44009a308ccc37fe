/**
 * Tests the admission policies of manifests/base/admission.yaml on a real API server. The policies get other names
 * here, so that they affect no installation.
 */
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import {
  BUILDS_NAMESPACE,
  DATA_NAMESPACE,
  LABEL_PROJECT,
  LABEL_RETAINED,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import { until } from '@slipway/testing';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { ROOT } from './cluster/find.js';
import { givenCluster } from './cluster/given.js';
import { kubectl } from './kubectl.js';

const REF = 'admission';
const OURS = `p-${REF}`;
/** A namespace that has the name of a project's namespace, but belongs to no project. */
const ANOTHERS = `p-${REF}-anothers`;
/** A namespace that stands for the platform's own. */
const SYSTEM = 'admission-test-system';
const DATA = 'admission-test-data';
const BUILDS = 'admission-test-builds';
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
const job = (place: string, pod: Objects = {}) =>
  object('batch/v1', 'Job', place, 'made', {
    spec: { suspend: true, template: { spec: { restartPolicy: 'Never', containers: [container], ...pod } } },
  });

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
      .replaceAll(DATA_NAMESPACE, DATA)
      .replaceAll(BUILDS_NAMESPACE, BUILDS);
    await kubectl(cluster.kubeconfig, ['apply', '-f', '-'], policies);
    await applied(
      namespace(OURS, { [LABEL_PROJECT]: REF, [ENFORCE]: 'restricted' }),
      ...[ANOTHERS, SYSTEM, DATA, BUILDS].map((place) => namespace(place, {})),
    );
    // An API server applies a new policy with a delay.
    const last = async () => ((await refusal('operator', deployment(OURS, { hostPID: true }))) ? true : undefined);
    await until(last, 'the policies to be in force');
  });
  test.after(async () => {
    await kubectl(cluster.kubeconfig, ['delete', '-f', '-', '--ignore-not-found'], policies);
    await run(['delete', 'namespace', OURS, ANOTHERS, SYSTEM, DATA, BUILDS, '--ignore-not-found']);
  });

  /**
   * Sends a request as the program, with every right that a role can grant. Returns the error, or undefined if the
   * request was allowed.
   */
  const attempted = async (program: Program, args: string[], input?: unknown): Promise<string | undefined> => {
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
  const refusal = (program: Program, wanted: object) => attempted(program, ['create', '-f', '-'], wanted);
  const change = (program: Program, name: string, labels: Record<string, string | null>) =>
    attempted(program, ['patch', 'namespace', name, '--type=merge', '-p', JSON.stringify({ metadata: { labels } })]);

  const NEW = 'p-admission-new';
  const isOfNew = { [LABEL_PROJECT]: 'admission-new' };
  const admitted: Record<string, () => Promise<string | undefined>> = {
    'the operator make a project’s namespace without labels': () => refusal('operator', namespace(NEW, isOfNew)),
    'the API make a project’s namespace': () => refusal('api', namespace(NEW, isOfNew)),
    'the operator make the namespace restricted at once': () =>
      refusal('operator', namespace(NEW, { ...isOfNew, [ENFORCE]: 'restricted' })),
    'the operator label a project’s namespace': () => change('operator', OURS, { [LABEL_RETAINED]: 'true' }),
    'the operator delete a project’s namespace': () => attempted('operator', ['delete', 'namespace', OURS]),
    'both write a project’s Secrets': async () =>
      (await refusal('operator', secret(OURS))) ?? (await refusal('api', secret(OURS))),
    'the operator make a Secret of the platform': () => refusal('operator', secret(SYSTEM)),
    'the operator make the objects of the shared Postgres': async () =>
      (await refusal('operator', configMap(DATA))) ?? (await refusal('operator', workload('StatefulSet', DATA))),
    'the operator make a build’s Job and its Secret': async () =>
      (await refusal('operator', job(BUILDS))) ?? (await refusal('operator', secret(BUILDS))),
    'the operator make a project’s pods': async () =>
      (await refusal('operator', deployment(OURS))) ?? (await refusal('operator', workload('StatefulSet', OURS))),
  };
  for (const [what, tried] of Object.entries(admitted)) {
    test(`the admission policies allow: ${what}`, async () => assert.is(await tried(), undefined));
  }

  const privileged = { containers: [{ ...container, securityContext: { privileged: true } }] };
  const refused: Record<string, () => Promise<string | undefined>> = {
    'a namespace that is not a project’s': () => refusal('operator', namespace('elsewhere', isOfNew)),
    'a namespace under another project’s label': () => refusal('operator', namespace(NEW, { [LABEL_PROJECT]: REF })),
    'a namespace of another taken over': () => change('operator', ANOTHERS, { [LABEL_PROJECT]: `${REF}-anothers` }),
    'a new namespace that is privileged': () =>
      refusal('operator', namespace(NEW, { ...isOfNew, [ENFORCE]: 'privileged' })),
    'a namespace made privileged': () => change('operator', OURS, { [ENFORCE]: 'privileged' }),
    'a namespace without its label': () => change('operator', OURS, { [ENFORCE]: null }),
    'another project’s namespace deleted': () => attempted('operator', ['delete', 'namespace', ANOTHERS]),
    'a Secret in another project’s namespace': () => refusal('operator', secret(ANOTHERS)),
    'a Secret of the platform, by the API': () => refusal('api', secret(SYSTEM)),
    'a Secret that the cluster fills with an account’s token': () => refusal('api', accountToken),
    'a ConfigMap of the platform': () => refusal('operator', configMap(SYSTEM)),
    'a Deployment beside the platform’s': () => refusal('operator', deployment(SYSTEM)),
    'a Job of a build, by the API': () => refusal('api', job(BUILDS)),
    'a Job beside the platform’s programs': () => refusal('operator', job(SYSTEM)),
    'a ConfigMap beside builds': () => refusal('operator', configMap(BUILDS)),
    'a Job with a folder of the node': () =>
      refusal('operator', job(BUILDS, { volumes: [{ name: 'node', hostPath: { path: '/' } }] })),
    'a Job of another account': () => refusal('operator', job(BUILDS, { serviceAccountName: 'slipway-operator' })),
    'a Job with privileges': () => refusal('operator', job(BUILDS, privileged)),
    'pods of the API’s account': () => refusal('operator', deployment(OURS, { serviceAccountName: 'slipway-api' })),
    'pods with a folder of the node': () =>
      refusal('operator', deployment(OURS, { volumes: [{ name: 'node', hostPath: { path: '/' } }] })),
    'pods with the network of the node': () => refusal('operator', deployment(OURS, { hostNetwork: true })),
    'pods with the processes of the node': () => refusal('operator', deployment(DATA, { hostPID: true })),
    'privileged containers': () => refusal('operator', workload('StatefulSet', OURS, privileged)),
    'privileged init containers': () =>
      refusal('operator', deployment(OURS, { initContainers: [{ ...privileged.containers[0], name: 'first' }] })),
  };
  for (const [what, tried] of Object.entries(refused)) {
    test(`the admission policies reject ${what}`, async () => assert.ok(await tried()));
  }

  test('no expression of the admission policies uses an unknown field', async () => {
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
