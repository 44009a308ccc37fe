/**
 * Checks whether a cluster that somebody chose for tests has another Slipway, or its data, which tests would overwrite
 * or delete. In: the kubeconfig. Out: the reason to stop with the fix, or undefined. Installations of tests have a
 * mark. find.ts and installation.ts call it.
 */
import { GROUP } from '@slipway/crds';
import { DATA_NAMESPACE, PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';
import { kubectl } from '../kubectl.js';

/** Mark of an installation by tests: an annotation of the platform's namespace. */
const MARK = { annotation: 'slipway.dev/made-by', value: 'tests' };
const MARK_COMMAND = ['annotate', 'namespace', SYSTEM_NAMESPACE, `${MARK.annotation}=${MARK.value}`, '--overwrite'];

/** The objects of a cluster that show who uses it. */
export interface Found {
  /** Annotations of the platform's namespace. Undefined: there is no such namespace. */
  annotations: Readonly<Record<string, string>> | undefined;
  /** Objects in that namespace, as kubectl names them: `deployment.apps/slipway-operator`. */
  objects: readonly string[];
  /** Names of all Projects. */
  projects: readonly string[];
  /** True if shared databases have a namespace. */
  dataNamespace: boolean;
}

/**
 * Kinds whose objects can't be restored if tests delete one with the name of an object of Slipway. A volume is deleted
 * with its namespace, whatever its name is.
 */
const KINDS = ['deployments', 'statefulsets', 'secrets', 'persistentvolumeclaims'];
const VOLUME = 'persistentvolumeclaim/';
const PROJECTS = `projects.${GROUP}`;

export async function whyOccupied(kubeconfig: string): Promise<string | undefined> {
  const get = (...args: string[]) => kubectl(kubeconfig, ['get', ...args, '--ignore-not-found']);
  const names = async (...args: string[]) =>
    (await get(...args, '-o', 'name')).split('\n').filter((line) => line !== '');
  const namespace = await get('namespace', SYSTEM_NAMESPACE, '-o', 'json');
  const served = (await names('customresourcedefinition', PROJECTS)).length > 0;
  return refusal(kubeconfig, {
    annotations: namespace === '' ? undefined : annotationsOf(namespace),
    objects: await names(KINDS.join(','), '-n', SYSTEM_NAMESPACE),
    projects: served ? (await names(PROJECTS)).map((line) => line.slice(line.indexOf('/') + 1)) : [],
    dataNamespace: (await names('namespace', DATA_NAMESPACE)).length > 0,
  });
}

const annotationsOf = (namespace: string) =>
  (JSON.parse(namespace) as { metadata: { annotations?: Record<string, string> } }).metadata.annotations ?? {};

export function refusal(kubeconfig: string, found: Found): string | undefined {
  const traces = tracesIn(found);
  if (traces.length === 0 || found.annotations?.[MARK.annotation] === MARK.value) return undefined;
  const commands = [...(found.annotations ? [] : [['create', 'namespace', SYSTEM_NAMESPACE]]), MARK_COMMAND];
  return (
    `the cluster of ${kubeconfig} has a Slipway, or a part of one, that no test installed (${traces.join('; ')}): ` +
    'tests would overwrite it and its settings with manifests/overlays/test, ' +
    'and delete all projects and their data afterwards. ' +
    'Let KUBECONFIG name a cluster that is only for tests, or none. If that cluster is for tests, run: ' +
    commands.map((command) => `kubectl ${command.join(' ')}`).join(' && ')
  );
}

/** Returns, for people, what tests would overwrite or delete. */
function tracesIn({ objects, projects, dataNamespace }: Found): string[] {
  const programs: readonly string[] = Object.values(PROGRAMS);
  const ours = objects.filter((object) => object.startsWith(VOLUME) || programs.includes(object.split('/')[1] ?? ''));
  return [
    ...(ours.length > 0 ? [`${ours.join(', ')} in ${SYSTEM_NAMESPACE}`] : []),
    ...(projects.length > 0 ? [`${projects.length} projects, the first is ${projects[0]}`] : []),
    ...(dataNamespace ? [`the namespace ${DATA_NAMESPACE}`] : []),
  ];
}

/** True if the platform's namespace has the mark, so that its objects belong to a killed test run. */
export async function madeByTests(kubeconfig: string): Promise<boolean> {
  const namespace = await kubectl(kubeconfig, [
    'get',
    'namespace',
    SYSTEM_NAMESPACE,
    '--ignore-not-found',
    '-o',
    'json',
  ]);
  return namespace !== '' && annotationsOf(namespace)[MARK.annotation] === MARK.value;
}

/** Marks the namespace as made by tests. */
export const markAsTests = (kubeconfig: string) => kubectl(kubeconfig, MARK_COMMAND);
