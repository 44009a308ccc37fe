/**
 * A cluster for the tests, with the platform's images in it: one that is named, else this machine's test cluster, else
 * kind's. Out: its kubeconfig and a way to leave it, or why there is none. Used by scripts/test.mjs and the benches.
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
  /** In words. */
  name: string;
  kubeconfig: string;
  /** The folder in manifests/overlays that is made for it. */
  overlay: string;
  /** Leaves it as it was found: one that was made for this is gone afterwards. */
  close(): Promise<void>;
}

/** In words: what is not there, or why what is there can't be taken. */
export type NoCluster = { missing: string } | { refused: string };

export interface Search {
  /** The kubeconfig of a cluster that somebody chose for this. */
  given: string | undefined;
  /** Whether to make one by kind, which takes minutes. */
  kind: boolean;
  say(text: string): void;
}

export async function findCluster({ given, kind, say }: Search): Promise<FoundCluster | NoCluster> {
  if (!(await succeeds('kubectl', ['version', '--client']))) return { missing: 'kubectl is not on PATH' };
  const isTestClusters = given !== undefined && existsSync(KUBE) && given === (await testClusterKubeconfig());
  if (given && !isTestClusters) {
    const refused = await whyOccupied(given);
    if (refused) return { refused };
    return { name: `the cluster of ${given}`, kubeconfig: given, overlay: 'test', close: async () => {} };
  }
  if (existsSync(KUBE)) return await exclusively(say, () => useTestCluster(ROOT, say));
  if (kind && (await succeeds('kind', ['version']))) return await exclusively(say, () => useKind(ROOT, say));
  return { missing: 'there is no cluster: make e2e takes the one that KUBECONFIG names, or makes one with kind' };
}

/** Two runs at once would take each other's projects for their own. */
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

/** By flock, so that a turn ends with its process, however that ends. */
async function takeTurn(say: (text: string) => void): Promise<() => void> {
  const hold = (...options: string[]) =>
    spawn('flock', [...options, TURN_FILE, 'sh', '-c', 'echo held; exec cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
  let holder = hold('--nonblock');
  if (!(await holds(holder))) {
    say(`waiting for another run that uses the cluster (${TURN_FILE})`);
    holder = hold();
    if (!(await holds(holder))) throw new Error(`${TURN_FILE} can not be locked`);
  }
  return () => holder.stdin?.end();
}

async function holds(holder: ChildProcess): Promise<boolean> {
  const ended = once(holder, 'close').then(() => false);
  const held = once(holder.stdout as NonNullable<typeof holder.stdout>, 'data').then(() => true);
  return await Promise.race([held, ended]);
}
