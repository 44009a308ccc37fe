/**
 * Prepares an installed Slipway for the chaos suite. The cluster's operators are scaled down. The suite's operators run
 * on this machine with the rights of the installed ones. In: the cluster. Out: functions to start an operator, to kill
 * the API server, and to list all objects of projects.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Project } from '@slipway/crds';
import {
  LABEL_PROJECT,
  namespaceOf,
  PART_AUTH,
  PART_REST,
  SITE_SETTING,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import { KubeClient, type KubeConfig, type KubeObject } from '@slipway/kubernetes';
import { kubeconfigWith } from '@slipway/kubernetes/testing.js';
import type { Inventory, Stage } from '@slipway/operator/chaos/chaos.suite.js';
import { expectedInPostgres, postgresInventory } from '@slipway/operator/chaos/postgres-inventory.testing.js';
import { until } from '@slipway/testing';
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
/** A region whose Postgres is created with the platform. */
const REGION = 'eu-central';
const SPARES = 5;
/** Duration of a token: longer than a run of the suite. */
const TOKEN_DURATION = '2h';
/** Maximum milliseconds until the installed operator has removed projects that earlier test files deleted. */
const DELETED_MS = 300_000;
const PROJECTS = '/apis/slipway.dev/v1alpha1/projects';
/** Maximum attempts at a start, because the port of a killed server is not free at once. */
const STARTS = 5;

export async function startClusterStage({ kubeconfig, overlay }: GivenCluster): Promise<ClusterStage> {
  const platform = await startOnCluster(kubeconfig, overlay);
  const inSystem = (...args: string[]) => kubectl(kubeconfig, ['-n', SYSTEM_NAMESPACE, ...args]);
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-chaos-'));
  const client = await KubeClient.connect(platform.config);
  await noProjects(client);
  const replicas = await inSystem('get', OPERATOR, '-o', 'jsonpath={.spec.replicas}');
  await inSystem('scale', OPERATOR, '--replicas=0');
  await inSystem('wait', 'pod', '-l', 'app.kubernetes.io/name=slipway-operator', '--for=delete', '--timeout=60s');
  const operators = path.join(folder, 'kubeconfig');
  await writeFile(operators, await operatorsKubeconfig(platform.config, inSystem), { mode: 0o600 });
  const before = await postgresInventory(await platform.admin());
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
    expected: (projects) => {
      const shared = projects.filter(({ spec }) => spec.type === 'shared');
      return withRetained(expectedOf(shared, platform), before);
    },
    close: async () => {
      await client.close();
      await inSystem('scale', OPERATOR, `--replicas=${replicas}`);
      await rm(folder, { recursive: true, force: true });
      await platform.close();
    },
  };
}

/** Waits for deletions. A database whose deletion is in progress would be counted as existing before the suite. */
async function noProjects(client: KubeClient): Promise<void> {
  const names = async () => {
    const { items } = await client.get<{ items: Project[] }>(PROJECTS);
    return items.map(({ metadata }) => metadata.name);
  };
  await until(names, (left) => left.length === 0, DELETED_MS);
}

/** Returns the administrator's connection to the server, with the installed operator's token. */
async function operatorsKubeconfig(admin: KubeConfig, inSystem: (...args: string[]) => Promise<string>) {
  const token = await inSystem('create', 'token', 'slipway-operator', `--duration=${TOKEN_DURATION}`);
  return kubeconfigWith(admin, token.trim());
}

async function restartApiServer(kubeconfig: string): Promise<void> {
  if (kubeconfig !== (await testClusterKubeconfig())) {
    console.log('# skipped: the API server of this cluster must not be killed by tests');
    return;
  }
  await run(KUBE, ['stop', 'kube-apiserver']);
  // Started with its audit log, as before.
  for (let starts = 1; !(await succeeds(KUBE, ['up', '--audit'])); starts++) {
    if (starts === STARTS) throw new Error('the API server does not start again');
  }
}

const KINDS = {
  namespaces: '/api/v1/namespaces',
  deployments: '/apis/apps/v1/deployments',
  ingresses: '/apis/networking.k8s.io/v1/ingresses',
  quotas: '/api/v1/resourcequotas',
};
/** Kinds of a project's objects. A deleted project must have no object of these kinds. */
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
  const { items } = await client.get<{ items: Project[] }>(PROJECTS);
  const owners = new Set(items.map(({ metadata }) => `${metadata.name} ${metadata.uid}`));
  // Objects in a project's namespace are deleted with it.
  const strays = objects.filter(({ metadata }) => {
    const owner = metadata.ownerReferences?.find(({ kind }) => kind === 'Project');
    return owner && !owners.has(`${metadata.labels?.[LABEL_PROJECT]} ${owner.uid}`);
  });
  return { ...inventory, strays: strays.map(nameOf).sort() };
}

const nameOf = ({ metadata: { namespace, name } }: KubeObject) => (namespace ? `${namespace}/${name}` : name);

/** Adds the databases that other test files retained in this installation earlier. */
function withRetained(expected: Inventory, before: Inventory): Inventory {
  const names = ['databases', 'roles', 'records'] as const;
  const more = names.map((what) => [what, [...(expected[what] ?? []), ...(before[what] ?? [])].sort()]);
  return { ...expected, ...Object.fromEntries(more) };
}

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
