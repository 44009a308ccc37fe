/**
 * Whether a cluster that somebody chose has a Slipway of theirs, which tests would overwrite. In: the kubeconfig. Out: why not to go on
 * and what to do, or undefined. What tests install bears a mark. Called by find.ts and installation.ts.
 */
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/crds';
import { kubectl } from '../kubectl.js';

/** On the platform's namespace. */
const MARK = { annotation: 'slipway.dev/made-by', value: 'tests' };
const MARK_COMMAND = ['annotate', 'namespace', SYSTEM_NAMESPACE, `${MARK.annotation}=${MARK.value}`, '--overwrite'];

/** As much of the platform's namespace as tells whose it is. */
export interface SystemNamespace {
  annotations: Readonly<Record<string, string>>;
  /** Names of all its Deployments. */
  deployments: readonly string[];
}

export async function whyOccupied(kubeconfig: string): Promise<string | undefined> {
  const namespace = await kubectl(kubeconfig, [
    'get',
    'namespace',
    SYSTEM_NAMESPACE,
    '--ignore-not-found',
    '-o',
    'json',
  ]);
  if (namespace === '') return undefined;
  const { annotations = {} } = (JSON.parse(namespace) as { metadata: Partial<SystemNamespace> }).metadata;
  const names = ['get', 'deployments', '-n', SYSTEM_NAMESPACE, '-o', 'jsonpath={.items[*].metadata.name}'];
  const deployments = (await kubectl(kubeconfig, names)).split(' ');
  return refusal(kubeconfig, { annotations, deployments });
}

export function refusal(kubeconfig: string, { annotations, deployments }: SystemNamespace): string | undefined {
  const programs: readonly string[] = Object.values(PROGRAMS);
  const installed = deployments.filter((name) => programs.includes(name));
  if (installed.length === 0 || annotations[MARK.annotation] === MARK.value) return undefined;
  return (
    `the cluster of ${kubeconfig} has a Slipway that no test installed (${installed.join(', ')} in ${SYSTEM_NAMESPACE}): ` +
    'tests would overwrite it and its settings with manifests/overlays/test. Let KUBECONFIG name a cluster that is for tests alone, ' +
    `or none; where that one is for tests, say so: kubectl ${MARK_COMMAND.join(' ')}`
  );
}

/** Says that tests made it. */
export const markAsTests = (kubeconfig: string) => kubectl(kubeconfig, MARK_COMMAND);
