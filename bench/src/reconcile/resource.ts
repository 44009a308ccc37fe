/**
 * The custom resource of all contestants: a Project with another group and kind, so that its objects have the size of
 * Projects. The operators only write status.observedGeneration where it is behind.
 */
import { customResourceDefinitions } from '@slipway/crds';

export const RESOURCE_GROUP = 'bench.slipway.dev';
export const RESOURCE_VERSION = 'v1';
export const RESOURCE_PLURAL = 'widgets';
export const NAMESPACE = 'slipway-bench';

export const DEFINITION = definition();

export const WIDGETS_PATH = `/apis/${RESOURCE_GROUP}/${RESOURCE_VERSION}/namespaces/${NAMESPACE}/${RESOURCE_PLURAL}`;

export interface Widget {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string; generation?: number; resourceVersion?: string };
  spec: object;
  status?: { observedGeneration?: number };
}

export const isObserved = ({ metadata, status }: Widget) => status?.observedGeneration === metadata.generation;

function definition() {
  const project = customResourceDefinitions.find(({ spec }) => spec.names.kind === 'Project');
  if (!project) throw new Error('there is no definition of Project');
  const names = { kind: 'Widget', listKind: 'WidgetList', plural: RESOURCE_PLURAL, singular: 'widget' };
  const versions = project.spec.versions.map((version) => ({ ...version, name: RESOURCE_VERSION }));
  return {
    ...project,
    metadata: { name: `${RESOURCE_PLURAL}.${RESOURCE_GROUP}` },
    spec: { group: RESOURCE_GROUP, scope: 'Namespaced', names, versions },
  };
}

const CONDITIONS = ['Ready', 'NamespaceReady', 'IsolationReady', 'KeysReady', 'DatabaseReady', 'ServicesReady'];
const SERVICES = ['auth', 'rest', 'realtime', 'storage', 'functions'];

/** Returns a resource like a Project that was created over REST. */
export function widget(name: string): Widget {
  return {
    apiVersion: `${RESOURCE_GROUP}/${RESOURCE_VERSION}`,
    kind: 'Widget',
    metadata: { name },
    spec: { name, owner: 'owner@example.com', rotation: { apiKeys: 0 } },
  };
}

/** Returns the status of a healthy Project, without a generation. */
export function healthyStatus(name: string): object {
  const url = `http://localhost:4000/p/${name}`;
  const condition = { status: 'True', reason: 'Ready', message: 'ready', observedGeneration: 1 };
  return {
    phase: 'healthy',
    message: 'ready',
    url,
    services: Object.fromEntries(
      SERVICES.map((service) => [service, { up: true, status: 'running', endpoint: `${url}/${service}/v1` }]),
    ),
    conditions: CONDITIONS.map((type) => ({ type, ...condition, lastTransitionTime: '2026-01-01T00:00:00Z' })),
  };
}
