/** Installs Slipway on a cluster as documented, with one kubectl apply, and uninstalls it. platform.ts uses it. */
import path from 'node:path';
import { GROUP } from '@slipway/crds';
import { DATA_NAMESPACE, SYSTEM_NAMESPACE } from '@slipway/installation';
import { kubectl } from '../kubectl.js';
import { madeByTests, markAsTests } from './occupied.js';

/**
 * Timeout of the installation. The images are loaded already, so this is the time in which Postgres makes its files,
 * and the programs wait for it.
 */
const READY_TIMEOUT = '--timeout=300s';
const DELETE_TIMEOUT = '--timeout=180s';
const PROJECTS = `projects.${GROUP}`;

export interface Installation {
  /** Uninstalls Slipway, unless it was installed before by somebody other than tests. */
  close(): Promise<void>;
}

export async function install(root: string, kubeconfig: string, overlay: string): Promise<Installation> {
  const run = (...args: string[]) => kubectl(kubeconfig, args);
  const inSystem = (...args: string[]) => run('-n', SYSTEM_NAMESPACE, ...args);
  const stands = (await inSystem('get', 'deployment', 'slipway-operator', '--ignore-not-found')) !== '';
  const wasThere = stands && !(await madeByTests(kubeconfig));
  await run('apply', '-k', overlayIn(root, overlay));
  if (!wasThere) await markAsTests(kubeconfig);
  try {
    const programs = (await inSystem('get', 'statefulsets,deployments', '-o', 'name')).trim().split('\n');
    for (const program of programs) await inSystem('rollout', 'status', program, READY_TIMEOUT);
  } catch (error) {
    throw new Error(`${(error as Error).message}\n${await describeInstallation(kubeconfig)}`);
  }
  return { close: async () => (wasThere ? undefined : await uninstall(root, kubeconfig, overlay)) };
}

/** Uninstalls the installation of a killed test run. */
export async function uninstallLeftOver(root: string, kubeconfig: string, overlay: string): Promise<void> {
  if (await madeByTests(kubeconfig)) await uninstall(root, kubeconfig, overlay);
}

/** Uninstalls everything of Slipway, with all projects and their data. */
export async function uninstall(root: string, kubeconfig: string, overlay: string): Promise<void> {
  const run = (...args: string[]) => kubectl(kubeconfig, args);
  const served = await run('get', 'customresourcedefinition', PROJECTS, '--ignore-not-found');
  if (served !== '') await run('delete', PROJECTS, '--all', DELETE_TIMEOUT);
  await run('delete', '-k', overlayIn(root, overlay), '--ignore-not-found', DELETE_TIMEOUT);
  await run('delete', 'namespace', DATA_NAMESPACE, '--ignore-not-found', DELETE_TIMEOUT);
}

const overlayIn = (root: string, overlay: string) => path.join(root, 'manifests', 'overlays', overlay);

/** Returns the output that an administrator would look at: pods, warnings, the ends of the programs' logs. */
export async function describeInstallation(kubeconfig: string): Promise<string> {
  const looks = [
    ['get', 'pods', '-o', 'wide'],
    ['get', 'events', '--field-selector', 'type=Warning'],
    ['logs', '-l', 'app.kubernetes.io/part-of=slipway', '--prefix', '--tail', '30', '--all-containers'],
  ];
  const inSystem = (look: string[]) => kubectl(kubeconfig, ['-n', SYSTEM_NAMESPACE, ...look]);
  const texts = await Promise.all(looks.map((look) => inSystem(look).catch((error: Error) => error.message)));
  return texts.join('\n');
}
