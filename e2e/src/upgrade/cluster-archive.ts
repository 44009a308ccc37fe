/**
 * Archives a cluster: Slipway's objects in a test cluster's etcd, and the files of its volumes. Objects are restored
 * into etcd with their uids, because another uid is another project. In: a test cluster with, or without, an installed
 * Slipway. Out: the archive, or a cluster in which the caller of `unpackCluster` can install the programs.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { DATA_NAMESPACE, SYSTEM_NAMESPACE } from '@slipway/installation';
import { until } from '@slipway/testing';
import { run } from '../cluster/run.js';
import { KUBE } from '../cluster/test-cluster.js';
import { kubectl } from '../kubectl.js';
import { compress, decompress } from './archive.js';

/** URL of the test cluster's etcd on loopback, which needs no credentials. */
const ETCD = 'http://127.0.0.1:12379/v3/kv';
/** Folder of the test cluster's volumes. */
const VOLUMES = '/tmp/hostpath_pv';
const OBJECTS = 'objects.json';

const OURS = `(${SYSTEM_NAMESPACE}|${DATA_NAMESPACE}|p-[^/]+)`;
const KEPT = [
  new RegExp(`^/registry/[^/]+(/[^/]+)?/${OURS}(/[^/]+)?$`),
  /^\/registry\/(clusterroles|clusterrolebindings)\/slipway-/,
  /^\/registry\/(persistentvolumes|slipway\.dev)\//,
  /^\/registry\/apiextensions\.k8s\.io\/customresourcedefinitions\/[^/]+\.slipway\.dev$/,
];
/** Matches keys of objects that a cluster creates again, with its current addresses, nodes and certificates. */
const MADE_ANEW = new RegExp(
  '^/registry/(pods|events|leases|endpoints|endpointslices|services/.*|ipaddresses|' +
    'configmaps/[^/]+/kube-root-ca\\.crt)(/|$)',
);

/** Values in base64, by key in base64. */
type Objects = Record<string, string>;

export async function packCluster(archive: string, kubeconfig: string): Promise<void> {
  const objects = await readObjects();
  await endPods(kubeconfig);
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-cluster-'));
  try {
    await writeFile(path.join(folder, OBJECTS), JSON.stringify(objects));
    await compress(archive, ['-C', folder, OBJECTS, '-C', path.dirname(VOLUMES), path.basename(VOLUMES)]);
  } finally {
    await rm(folder, { recursive: true });
  }
}

/**
 * Restores the archive into a cluster without Slipway. Its controllers start when all objects exist, because some
 * delete objects without an owner.
 */
export async function unpackCluster(archive: string, kubeconfig: string): Promise<void> {
  await run(KUBE, ['stop', 'kube-controller-manager']);
  await decompress(archive, path.dirname(VOLUMES));
  const file = path.join(path.dirname(VOLUMES), OBJECTS);
  const objects = JSON.parse(await readFile(file, 'utf8')) as Objects;
  await rm(file);
  for (const [key, value] of Object.entries(objects)) await ask('put', { key: encoded(key), value });
  await until(
    () =>
      kubectl(kubeconfig, ['get', 'projects.slipway.dev', '-o', 'name']).then(
        () => true,
        () => false,
      ),
    'the stored definitions are served',
  );
  await run(KUBE, ['up']);
}

async function readObjects(): Promise<Objects> {
  const range = { key: encoded('/registry/'), range_end: encoded('/registry0') };
  const { kvs } = (await ask('range', range)) as { kvs: { key: string; value: string }[] };
  const all = kvs.map(({ key, value }) => [Buffer.from(key, 'base64').toString(), value] as const);
  return Object.fromEntries(all.filter(([key]) => KEPT.some((kept) => kept.test(key)) && !MADE_ANEW.test(key)));
}

/** Ends the operator's pods first, because the operator would start Postgres again. Then Postgres closes its files. */
async function endPods(kubeconfig: string): Promise<void> {
  const inSystem = (...args: string[]) => kubectl(kubeconfig, ['-n', SYSTEM_NAMESPACE, ...args]);
  await inSystem('scale', 'deployment/slipway-operator', '--replicas=0');
  await inSystem('wait', 'pod', '-l', 'app.kubernetes.io/name=slipway-operator', '--for=delete', '--timeout=60s');
  for (const namespace of [SYSTEM_NAMESPACE, DATA_NAMESPACE]) {
    const inNamespace = (...args: string[]) => kubectl(kubeconfig, ['-n', namespace, ...args]);
    await inNamespace('scale', 'deployments,statefulsets', '--all', '--replicas=0');
    await inNamespace('wait', 'pod', '--all', '--for=delete', '--timeout=180s');
  }
}

async function ask(what: 'range' | 'put', body: object): Promise<unknown> {
  const response = await fetch(`${ETCD}/${what}`, { method: 'POST', body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`etcd answered ${response.status}: ${await response.text()}`);
  return await response.json();
}

const encoded = (text: string) => Buffer.from(text).toString('base64');
