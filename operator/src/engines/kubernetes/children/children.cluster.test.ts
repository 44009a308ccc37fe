/**
 * Tests drift on a real Kubernetes. Each kind of object is deleted and edited by others, and must be restored and
 * reported.
 */

import { namespaceOf, readSite, type Site, SYSTEM_NAMESPACE } from '@slipway/installation';
import type { KubeClient, KubeObject } from '@slipway/kubernetes';
import { until } from '@slipway/testing';
import { suite } from 'uvu';
import * as assert from 'uvu/assert';
import type { EngineProject } from '../../../capabilities/index.js';
import { clientOf } from '../../../testing.js';
import {
  clusterKubeconfig,
  newProject,
  prepareCluster,
  removeProject,
  SKIPPED,
  watchCluster,
} from '../cluster.testing.js';
import { limits } from '../isolation/limits.js';
import { markedNamespace } from '../isolation/namespace.js';
import { networkPolicies } from '../isolation/network-policies.js';
import { childOf } from '../objects.js';
import { routeOf } from '../route.js';
import { serviceObjects } from '../services/deployment.js';
import type { Children, DesiredObject } from './children.js';
import { KINDS, NAMESPACE, pathOf, SECRET } from './kinds.js';

const REF = 'eb-drift';
const site: Site = readSite(
  JSON.stringify({ publicUrl: 'http://slipway.test', images: { auth: 'node:24-bookworm-slim' } }),
);

interface Context {
  client: KubeClient;
  children: Children;
  project: EngineProject;
  close(): Promise<unknown>;
}

/** Returns all objects of a project on plan `starter`. None of its pods run. */
function objectsOf(project: EngineProject): DesiredObject[] {
  const reach = { ownDatabase: false, deployed: true, operated: false };
  const service = serviceObjects({
    owner: project,
    name: 'rest',
    image: 'slipway.test/none',
    replicas: 0,
    sizes: { cpu: '1000m', memory: '128Mi' },
    images: site.images,
    environment: { open: { PGRST_SERVER_PORT: '3000' }, secret: { PGRST_DB_URI: 'postgres://x' } },
    printKey: 'key',
  });
  const settings = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    name: 'postgres-settings',
    component: 'test',
    body: { data: { a: '1' } },
  };
  return [
    ...limits(project, site),
    ...networkPolicies(project, site, reach),
    ...service,
    childOf(project, settings),
    routeOf(project, site) as DesiredObject,
  ];
}

const kindOf = (name: string) => [...KINDS, SECRET, NAMESPACE].find(({ kind }) => kind === name) as (typeof KINDS)[0];
const pathTo = ({ kind, metadata: { name, namespace } }: DesiredObject) => pathOf(kindOf(kind), name, namespace);

const CONTAINER = { name: 'rest', image: 'slipway.test/none' };

/** Edits of objects, by kind and name. */
const EDITS: Record<string, object> = {
  'ResourceQuota project': { spec: { hard: { pods: '1000' } } },
  'ResourceQuota project, with more in it,': { spec: { hard: { 'count/services': '0' } } },
  'LimitRange project': { spec: { limits: [{ type: 'Container', default: { memory: '8Gi' } }] } },
  'NetworkPolicy default-deny': { spec: { ingress: [{}] } },
  'NetworkPolicy default-deny, for fewer pods,': { spec: { podSelector: { matchLabels: { never: 'there' } } } },
  'NetworkPolicy auth-to-internet': { spec: { egress: [{ to: [{ ipBlock: { cidr: '0.0.0.0/0' } }] }] } },
  'NetworkPolicy rest-from-gateway': { spec: { ingress: [{}] } },
  'Secret rest-environment': { data: { PGRST_DB_URI: 'eA==' } },
  'Secret rest-environment, with more in it,': { data: { NODE_OPTIONS: 'eA==' } },
  'ConfigMap postgres-settings': { data: { a: '2', b: '3' } },
  'Service rest': { spec: { selector: { app: 'another' } } },
  'Service rest, on another port,': { spec: { ports: [{ name: 'http', port: 81, targetPort: 'http' }] } },
  // The quota already refuses a node port.
  'Service rest, at more addresses,': {
    spec: { externalIPs: ['192.0.2.1'], publishNotReadyAddresses: true, sessionAffinity: 'ClientIP' },
  },
  'Deployment rest': { spec: { replicas: 2, template: { spec: { automountServiceAccountToken: true } } } },
  'Deployment rest, with another image,': {
    spec: { template: { spec: { containers: [{ name: 'rest', image: 'slipway.test/other' }] } } },
  },
  'Deployment rest, with another command,': {
    spec: { template: { spec: { containers: [{ ...CONTAINER, command: ['sleep'], args: ['1'] }] } } },
  },
  'Deployment rest, with more in its container,': {
    spec: {
      template: {
        spec: {
          containers: [
            {
              ...CONTAINER,
              workingDir: '/tmp',
              lifecycle: { postStart: { sleep: { seconds: 20 } } },
              resources: { limits: { cpu: '1m' } },
              securityContext: { privileged: true, capabilities: { add: ['NET_RAW'] } },
            },
          ],
        },
      },
    },
  },
  'Deployment rest, with more in its pods,': {
    spec: {
      paused: true,
      minReadySeconds: 60,
      template: {
        spec: {
          initContainers: [{ name: 'first', image: 'slipway.test/first' }],
          nodeSelector: { never: 'there' },
          affinity: { nodeAffinity: {} },
          tolerations: [{ operator: 'Exists' }],
          topologySpreadConstraints: [{ maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule' }],
          hostAliases: [{ ip: '192.0.2.1', hostnames: ['shared-eu-central.slipway-data.svc'] }],
          hostNetwork: true,
          hostPID: true,
          nodeName: 'never-there',
          readinessGates: [{ conditionType: 'slipway.test/never' }],
          dnsConfig: { nameservers: ['192.0.2.1'] },
          serviceAccountName: 'another',
          priorityClassName: 'another',
          runtimeClassName: 'another',
          imagePullSecrets: [{ name: 'another' }],
        },
      },
    },
  },
  'Deployment rest, with other choices for its pods,': {
    spec: {
      template: {
        spec: {
          dnsPolicy: 'Default',
          schedulerName: 'another',
          priority: 1,
          securityContext: { fsGroup: 1, supplementalGroupsPolicy: 'Strict' },
          schedulingGates: [{ name: 'slipway.test/never' }],
          containers: [{ ...CONTAINER, terminationMessagePath: '/tmp/elsewhere', securityContext: { runAsUser: 1 } }],
        },
      },
    },
  },
  'Deployment rest, without its label,': { metadata: { labels: { 'app.kubernetes.io/name': 'other' } } },
  'Ingress p-eb-drift': {
    spec: { rules: [{ host: 'elsewhere.test' }] },
  },
};

function testOn(path: string): void {
  const test = suite<Context>('children of a project');

  test.before(async (context) => {
    context.client = await clientOf(path);
    await prepareCluster(context.client);
    context.project = await newProject(context.client, REF, 'starter');
    Object.assign(context, await watchCluster(context.client));
  });
  test.after(async ({ client, close }) => {
    await close();
    await removeProject(client, REF);
    await client.close();
  });

  test('an object is no drift when it is new, and causes no request when it is as requested', async (context) => {
    const { client, children, project } = context;
    const objects = [markedNamespace(project, 'postgres.test'), ...objectsOf(project)];
    for (const object of objects) assert.is(await children.ensure(object), undefined, object.kind);
    const requests = await counted(client, async () => {
      for (const object of objects) assert.is(await children.ensure(object), undefined, object.kind);
    });
    assert.is(requests, 0);
  });

  test('a restarted operator finds no drift', async ({ client, project }) => {
    const anew = await watchCluster(client);
    const objects = [markedNamespace(project, 'postgres.test'), ...objectsOf(project)];
    const requests = await counted(client, async () => {
      for (const object of objects) assert.is(await anew.children.ensure(object), undefined, object.kind);
    });
    await anew.close();
    assert.is(requests, 0);
  });

  for (const [told, patch] of Object.entries(EDITS)) {
    test(`${told} that somebody edits is restored, and the drift is named`, async ({ client, children, project }) => {
      const object = objectsOf(project).find((each) => told.startsWith(nameOf(each))) as DesiredObject;
      const before = await client.get<KubeObject>(pathTo(object));
      await client.patch(pathTo(object), patch);
      const words = await until(() => children.ensure(object), 'the edit to be seen');
      assert.is(words, `${nameOf(object)}, which was edited`);
      assert.equal(substance(await client.get(pathTo(object))), substance(before));
      assert.is(await children.ensure(object), undefined);
    });
  }

  test('labels that somebody removes from the namespace are restored', async ({ client, children, project }) => {
    const object = markedNamespace(project, 'postgres.test');
    const labels = { 'pod-security.kubernetes.io/enforce': 'privileged', 'pod-security.kubernetes.io/warn': null };
    await client.patch(pathTo(object), { metadata: { labels } });
    const words = await until(() => children.ensure(object), 'the edit to be seen');
    assert.is(words, `Namespace ${namespaceOf(REF)}, which was edited`);
    const live = await client.get<KubeObject>(pathTo(object));
    assert.is(live.metadata.labels?.['pod-security.kubernetes.io/enforce'], 'restricted');
    assert.is(live.metadata.labels?.['pod-security.kubernetes.io/warn'], 'restricted');
  });

  test('each object that somebody deletes is restored, and the drift is named', async ({
    client,
    children,
    project,
  }) => {
    for (const object of objectsOf(project)) {
      await client.delete(pathTo(object));
      const words = await until(() => children.ensure(object), `${nameOf(object)} to be missed`);
      assert.is(words, `${nameOf(object)}, which was deleted`);
      await client.get(pathTo(object));
    }
  });

  test('an object that the operator itself deletes is no drift when it is created again', async (context) => {
    const { children, project } = context;
    const [object] = objectsOf(project) as [DesiredObject];
    await children.remove(object.kind, object.metadata.namespace, object.metadata.name);
    await until(() => !children.get(object.kind, object.metadata.namespace, object.metadata.name), 'it to go');
    assert.is(await children.ensure(object), undefined);
  });

  test('an object of a Project’s former owner is no drift for the next owner', async (context) => {
    const { client, children, project } = context;
    const [object] = objectsOf(project) as [DesiredObject];
    await client.delete(pathTo(object));
    await until(() => !children.get(object.kind, object.metadata.namespace, object.metadata.name), 'it to go');
    const next = { ...project, uid: '00000000-0000-4000-8000-000000000000' };
    const words = await children.ensure(objectsOf(next)[0] as DesiredObject);
    assert.is(words, undefined);
  });

  test('fields that others add to an object beside the operator’s fields stay', async ({
    client,
    children,
    project,
  }) => {
    const object = objectsOf(project).find(({ kind }) => kind === 'Deployment') as DesiredObject;
    const annotations = { 'kubectl.kubernetes.io/restartedAt': '2026-01-01T00:00:00Z' };
    await client.patch(pathTo(object), { spec: { template: { metadata: { annotations } } } });
    const { metadata } = await client.get<KubeObject>(pathTo(object));
    await until(() => {
      const seen = children.get('Deployment', object.metadata.namespace, object.metadata.name);
      return seen?.metadata.generation === metadata.generation;
    }, 'the edit to be seen');
    assert.is(await children.ensure(object), undefined);
  });

  test('the route is in the platform’s namespace', async ({ project }) => {
    assert.is(routeOf(project, site)?.metadata.namespace, SYSTEM_NAMESPACE);
  });

  test.run();
}

const nameOf = ({ kind, metadata }: DesiredObject) => `${kind} ${metadata.name}`;

/** Returns the object without the members that every write changes. */
function substance(object: unknown): unknown {
  const { metadata, status: _status, ...rest } = object as KubeObject & { status?: unknown };
  const { labels, annotations, ownerReferences } = metadata;
  const { 'deployment.kubernetes.io/revision': _revision, ...kept } = annotations ?? {};
  return { labels, annotations: kept, ownerReferences, ...rest };
}

async function counted(client: KubeClient, work: () => Promise<void>): Promise<number> {
  const send = client.request;
  let requests = 0;
  client.request = ((request: Parameters<typeof send>[0]) => {
    requests += 1;
    return send.call(client, request);
  }) as typeof send;
  await work();
  client.request = send;
  return requests;
}

if (clusterKubeconfig) testOn(clusterKubeconfig);
else console.log(SKIPPED);
