/**
 * An installed Slipway for the chaos suite: the operators in the cluster rest, and those of the suite run on this
 * machine with the rights of the installed ones. In: the cluster. Out: how to start an operator, to kill the API
 * server, and to look at all that projects have.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import {
  LABEL_PROJECT,
  namespaceOf,
  PART_AUTH,
  PART_REST,
  type Project,
  SITE_SETTING,
  SYSTEM_NAMESPACE,
} from '@slipway/crds';
import type { Inventory, Stage } from '@slipway/operator/chaos/chaos.suite.js';
import { expectedInPostgres, postgresInventory } from '@slipway/operator/chaos/postgres-inventory.testing.js';
import { KubeClient, type KubeObject } from '@slipway/operator/runtime/kube.js';
import { kubectl } from '../kubectl.js';
import { ROOT } from './find.js';
import type { GivenCluster } from './given.js';
import { type ClusterPlatform, startOnCluster } from './platform.js';
import { run, succeeds } from './run.js';
import { KUBE, testClusterKubeconfig } from './test-cluster.js';

export interface ClusterStage extends Stage {
  close(): Promise<void>;
}

const OPERATOR = 'deployment/slipway-operator';
/** A region whose Postgres is made with the platform. */
const REGION = 'eu-central';
const SPARES = 5;
/** Longer than a run. */
const TOKEN_DURATION = '2h';
/** Attempts at a start: a killed server's port is not free at once. */
const STARTS = 5;

export async function startClusterStage({ kubeconfig, overlay }: GivenCluster): Promise<ClusterStage> {
  const platform = await startOnCluster(kubeconfig, overlay);
  const inSystem = (...args: string[]) => kubectl(kubeconfig, ['-n', SYSTEM_NAMESPACE, ...args]);
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-chaos-'));
  const replicas = await inSystem('get', OPERATOR, '-o', 'jsonpath={.spec.replicas}');
  await inSystem('scale', OPERATOR, '--replicas=0');
  await inSystem('wait', 'pod', '-l', 'app.kubernetes.io/name=slipway-operator', '--for=delete', '--timeout=60s');
  const client = await KubeClient.connect(platform.config);
  const operators = path.join(folder, 'kubeconfig');
  await writeFile(operators, await operatorsKubeconfig(platform.config, inSystem), { mode: 0o600 });
  const dataplane = await inSystem('get', 'service', 'slipway-dataplane', '-o', 'jsonpath={.spec.clusterIP}');
  return {
    kubeconfig: operators,
    client,
    specs: [...Array.from({ length: 5 }, () => ({ plan: 'free' as const })), { plan: 'starter' as const }],
    operatorEnvironment: {
      [SITE_SETTING]: path.join(ROOT, 'manifests', 'overlays', overlay, 'site.yaml'),
      SLIPWAY_DATAPLANE_URL: `http://${dataplane}`,
    },
    restartApiServer: async () => restartApiServer(kubeconfig),
    inventory: async () => ({
      ...(await objectsOfProjects(client)),
      ...(await postgresInventory(await platform.admin())),
    }),
    expected: (projects) =>
      expectedOf(
        projects.filter(({ spec }) => spec.type === 'shared'),
        platform,
      ),
    close: async () => {
      await client.close();
      await inSystem('scale', OPERATOR, `--replicas=${replicas}`);
      await rm(folder, { recursive: true, force: true });
      await platform.close();
    },
  };
}

/** The administrator's way to the server with the installed operator's rights. */
async function operatorsKubeconfig(admin: KubeConfig, inSystem: (...args: string[]) => Promise<string>) {
  const token = await inSystem('create', 'token', 'slipway-operator', `--duration=${TOKEN_DURATION}`);
  const config = new KubeConfig();
  config.loadFromClusterAndUser(admin.getCurrentCluster() as never, { name: 'operator', token: token.trim() });
  return config.exportConfig();
}

async function restartApiServer(kubeconfig: string): Promise<void> {
  if (kubeconfig !== (await testClusterKubeconfig())) {
    console.log('# skipped: the API server of this cluster is not ours to kill');
    return;
  }
  await run(KUBE, ['stop', 'kube-apiserver']);
  // With the audit log that it had.
  for (let starts = 1; !(await succeeds(KUBE, ['up', '--audit'])); starts++) {
    if (starts === STARTS) throw new Error('the API server does not come back');
  }
}

const KINDS = {
  namespaces: '/api/v1/namespaces',
  deployments: '/apis/apps/v1/deployments',
  ingresses: '/apis/networking.k8s.io/v1/ingresses',
  quotas: '/api/v1/resourcequotas',
};
/** Kinds of a project's objects; none may be of a deleted project. */
const ALL_KINDS = [
  ...Object.values(KINDS),
  '/api/v1/secrets',
  '/api/v1/services',
  '/api/v1/configmaps',
  '/api/v1/limitranges',
  '/apis/networking.k8s.io/v1/networkpolicies',
];

async function objectsOfProjects(client: KubeClient): Promise<Inventory> {
  const list = async (from: string) =>
    (await client.get<{ items: KubeObject[] }>(from, { labelSelector: LABEL_PROJECT })).items;
  const inventory: Inventory = {};
  for (const [kind, from] of Object.entries(KINDS)) inventory[kind] = (await list(from)).map(nameOf).sort();
  const objects = (await Promise.all(ALL_KINDS.map(list))).flat();
  const { items } = await client.get<{ items: Project[] }>('/apis/slipway.dev/v1alpha1/projects');
  const owners = new Set(items.map(({ metadata }) => `${metadata.name} ${metadata.uid}`));
  // What a project's namespace holds goes with it.
  const strays = objects.filter(({ metadata }) => {
    const owner = metadata.ownerReferences?.find(({ kind }) => kind === 'Project');
    return owner && !owners.has(`${metadata.labels?.[LABEL_PROJECT]} ${owner.uid}`);
  });
  return { ...inventory, strays: strays.map(nameOf).sort() };
}

const nameOf = ({ metadata: { namespace, name } }: KubeObject) => (namespace ? `${namespace}/${name}` : name);

function expectedOf(projects: Project[], { site }: ClusterPlatform): Inventory {
  const refs = projects.map(({ metadata }) => metadata.name);
  const planOf = ({ spec }: Project) => site.plans[spec.plan ?? 'free'];
  const deployed = projects.filter((project) => planOf(project).placement === 'deployments');
  const shared = projects.filter((project) => !planOf(project).ownDatabase && project.spec.region === REGION);
  return {
    namespaces: refs.map(namespaceOf).sort(),
    deployments: deployed
      .flatMap(({ metadata }) => [PART_AUTH, PART_REST].map((part) => `${namespaceOf(metadata.name)}/${part}`))
      .sort(),
    ingresses: refs.map((ref) => `${SYSTEM_NAMESPACE}/${namespaceOf(ref)}`).sort(),
    quotas: refs.map((ref) => `${namespaceOf(ref)}/project`).sort(),
    strays: [],
    ...expectedInPostgres(
      shared.map(({ metadata }) => metadata.name),
      SPARES,
    ),
  };
}
