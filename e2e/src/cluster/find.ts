/**
 * Finds a cluster for the tests: the one that is named, or else this machine's test cluster, or else one of kind. Out:
 * its kubeconfig, a function that loads the platform's images, and one that releases the cluster, or the reason why
 * there is none. scripts/test.mjs and the benches use it.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { useKind } from './kind.js';
import { whyOccupied } from './occupied.js';
import { succeeds } from './run.js';
import { KUBE, testClusterKubeconfig, useTestCluster } from './test-cluster.js';

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url));

export interface FoundCluster {
  /** A name for people. */
  name: string;
  kubeconfig: string;
  /** The folder in manifests/overlays for this cluster. */
  overlay: string;
  /** Builds the platform's images, which takes minutes, and loads them, unless the cluster has current ones. */
  loadImages(): Promise<void>;
  /** Restores the state in which the cluster was found. Deletes a cluster that was made for this run. */
  close(): Promise<void>;
}

/** The reason, for people: `missing` if there is no cluster, `refused` if the cluster can't be used. */
export type NoCluster = { missing: string } | { refused: string };

export interface Search {
  /** The kubeconfig of a cluster that somebody chose for tests. */
  given: string | undefined;
  /** True to make a cluster with kind, which takes minutes. */
  kind: boolean;
  say(text: string): void;
}

/** A cluster that somebody else runs and that has its images. */
const AS_IT_IS = { loadImages: async () => {}, close: async () => {} };

export async function findCluster({ given, kind, say }: Search): Promise<FoundCluster | NoCluster> {
  if (!(await succeeds('kubectl', ['version', '--client']))) return { missing: 'kubectl is not on PATH' };
  const isTestClusters = given !== undefined && existsSync(KUBE) && given === (await testClusterKubeconfig());
  if (given && !isTestClusters) {
    const refused = await whyOccupied(given);
    if (refused) return { refused };
    return { name: `the cluster of ${given}`, kubeconfig: given, overlay: 'test', ...AS_IT_IS };
  }
  if (existsSync(KUBE)) return await exclusively(say, () => useTestCluster(ROOT, say));
  if (kind && (await succeeds('kind', ['version']))) return await exclusively(say, () => useKind(ROOT, say));
  return { missing: 'there is no cluster: make e2e uses the one that KUBECONFIG names, or makes one with kind' };
}

/** Locks the cluster: two concurrent runs would treat each other's projects as their own. */
async function exclusively(say: (text: string) => void, find: () => Promise<FoundCluster>): Promise<FoundCluster> {
  const release = await takeTurn(say);
  try {
    const cluster = await find();
    return { ...cluster, close: () => cluster.close().finally(release) };
  } catch (error) {
    release();
    throw error;
  }
}

const TURN_FILE = path.join(tmpdir(), 'slipway-cluster.lock');

/** Uses flock, so that the lock is released when its process ends for any reason. */
async function takeTurn(say: (text: string) => void): Promise<() => void> {
  const hold = (...options: string[]) =>
    spawn('flock', [...options, TURN_FILE, 'sh', '-c', 'echo locked; exec cat'], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
  let holder = hold('--nonblock');
  if (!(await holds(holder))) {
    say(`waiting for another run that uses the cluster (${TURN_FILE})`);
    holder = hold();
    if (!(await holds(holder))) throw new Error(`${TURN_FILE} cannot be locked`);
  }
  return () => holder.stdin?.end();
}

async function holds(holder: ChildProcess): Promise<boolean> {
  const ended = once(holder, 'close').then(() => false);
  const locked = once(holder.stdout as NonNullable<typeof holder.stdout>, 'data').then(() => true);
  return await Promise.race([locked, ended]);
}
