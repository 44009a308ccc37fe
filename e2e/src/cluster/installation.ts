/**
 * Slipway installed on a cluster as its documentation says, with one kubectl apply, and uninstalled again. Used by
 * platform.ts.
 */
import path from 'node:path';
import { DATA_NAMESPACE, SYSTEM_NAMESPACE } from '@slipway/crds';
import { kubectl } from '../kubectl.js';
import { markAsTests } from './occupied.js';

/** Images are there; Postgres makes its files, and everything waits for it. */
const READY_TIMEOUT = '--timeout=300s';
const DELETE_TIMEOUT = '--timeout=180s';

export interface Installation {
  /** Uninstalls it, unless it was there before. */
  close(): Promise<void>;
}

export async function install(root: string, kubeconfig: string, overlay: string): Promise<Installation> {
  const run = (...args: string[]) => kubectl(kubeconfig, args);
  const inSystem = (...args: string[]) => run('-n', SYSTEM_NAMESPACE, ...args);
  const wasThere = (await inSystem('get', 'deployment', 'slipway-operator', '--ignore-not-found')) !== '';
  await run('apply', '-k', overlayIn(root, overlay));
  if (!wasThere) await markAsTests(kubeconfig);
  try {
    const programs = (await inSystem('get', 'statefulsets,deployments', '-o', 'name')).trim().split('\n');
    for (const program of programs) await inSystem('rollout', 'status', program, READY_TIMEOUT);
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${await described(inSystem)}`);
  }
  return { close: async () => (wasThere ? undefined : await uninstall(root, kubeconfig, overlay)) };
}

/** With all projects and their data. */
export async function uninstall(root: string, kubeconfig: string, overlay: string): Promise<void> {
  const run = (...args: string[]) => kubectl(kubeconfig, args);
  await run('delete', 'projects', '--all', DELETE_TIMEOUT);
  await run('delete', '-k', overlayIn(root, overlay), '--ignore-not-found', DELETE_TIMEOUT);
  await run('delete', 'namespace', DATA_NAMESPACE, '--ignore-not-found', DELETE_TIMEOUT);
}

const overlayIn = (root: string, overlay: string) => path.join(root, 'manifests', 'overlays', overlay);

/** Returns what an administrator would look at. */
async function described(inSystem: (...args: string[]) => Promise<string>): Promise<string> {
  const looks = [
    ['get', 'pods', '-o', 'wide'],
    ['get', 'events', '--field-selector', 'type=Warning'],
    ['logs', '-l', 'app.kubernetes.io/part-of=slipway', '--prefix', '--tail', '10', '--all-containers'],
  ];
  const texts = await Promise.all(looks.map((look) => inSystem(...look).catch((error: Error) => error.message)));
  return texts.join('\n');
}
