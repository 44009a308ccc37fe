/**
 * Whether a cluster that somebody chose has a Slipway of theirs, or its data, which tests would overwrite or delete.
 * In: the kubeconfig. Out: why not to go on and what to do, or undefined. What tests install bears a mark. Called by
 * find.ts and installation.ts.
 */
import { DATA_NAMESPACE, GROUP, PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/crds';
import { kubectl } from '../kubectl.js';

/** On the platform's namespace. */
const MARK = { annotation: 'slipway.dev/made-by', value: 'tests' };
const MARK_COMMAND = ['annotate', 'namespace', SYSTEM_NAMESPACE, `${MARK.annotation}=${MARK.value}`, '--overwrite'];

/** The part of a cluster that tells who uses it. */
export interface Found {
  /** Annotations of the platform's namespace; undefined: it has none. */
  annotations: Readonly<Record<string, string>> | undefined;
  /** Objects in that namespace, as kubectl names them: `deployment.apps/slipway-operator`. */
  objects: readonly string[];
  /** Names of all Projects. */
  projects: readonly string[];
  /** Whether shared databases have a namespace. */
  dataNamespace: boolean;
}

/** Kinds whose objects of our names can't be restored. A volume goes with its namespace, whatever its name. */
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
    `the cluster of ${kubeconfig} has a Slipway, or what is left of one, that no test installed (${traces.join('; ')}): ` +
    'tests would overwrite it and its settings with manifests/overlays/test, and delete all projects and their data afterwards. ' +
    'Let KUBECONFIG name a cluster that is for tests alone, or none; where that one is for tests, say so: ' +
    commands.map((command) => `kubectl ${command.join(' ')}`).join(' && ')
  );
}

/** In words, what tests would overwrite or delete. */
function tracesIn({ objects, projects, dataNamespace }: Found): string[] {
  const programs: readonly string[] = Object.values(PROGRAMS);
  const ours = objects.filter((object) => object.startsWith(VOLUME) || programs.includes(object.split('/')[1] ?? ''));
  return [
    ...(ours.length > 0 ? [`${ours.join(', ')} in ${SYSTEM_NAMESPACE}`] : []),
    ...(projects.length > 0 ? [`${projects.length} projects, the first is ${projects[0]}`] : []),
    ...(dataNamespace ? [`the namespace ${DATA_NAMESPACE}`] : []),
  ];
}

/** Says that tests made it. */
export const markAsTests = (kubeconfig: string) => kubectl(kubeconfig, MARK_COMMAND);
