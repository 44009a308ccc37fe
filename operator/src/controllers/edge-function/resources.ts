/** The objects that this controller reads and writes, and their paths. */
import { API_VERSION, type EdgeFunction, namespaceOf, type OpenedServices, type Project } from '@slipway/crds';
import type { Logger } from 'pino';
import type { FunctionEngine } from '../../engines/function-engine.js';
import type { EventRecorder } from '../../runtime/events.js';
import type { Informer } from '../../runtime/informer.js';
import type { KubeClient, KubeObject } from '../../runtime/kube.js';
import type { StatusWriter } from '../../runtime/status-writer.js';

export const EDGE_FUNCTIONS = `/apis/${API_VERSION}/edgefunctions`;

/** Functions of one project that ask for the same name. */
export const BY_ADDRESS = 'address';
export const addressKey = ({ metadata, spec }: EdgeFunction) => `${metadata.namespace}/${spec.name}`;

/** All functions of one project. */
export const BY_NAMESPACE = 'namespace';

/** An EdgeFunction in the cache: without its code, of which only the size is kept. */
export interface KnownFunction extends EdgeFunction {
  codeBytes?: number;
}

export function withoutCode(object: KnownFunction): KnownFunction {
  if (object.codeBytes !== undefined) return object;
  const { code } = object.spec;
  return { ...object, spec: { ...object.spec, code: '' }, codeBytes: Buffer.byteLength(code) };
}

export const functionPath = ({ metadata }: EdgeFunction) =>
  `/apis/${API_VERSION}/namespaces/${metadata.namespace}/edgefunctions/${metadata.name}`;

const PREFIX = namespaceOf('');
/** Undefined: the namespace is no project's. */
export const refOf = (namespace: string | undefined) =>
  namespace?.startsWith(PREFIX) ? namespace.slice(PREFIX.length) : undefined;

export interface ConfigMap extends KubeObject {
  immutable?: boolean;
  data?: Record<string, string>;
}

export interface FunctionReconcilerDeps {
  client: KubeClient;
  engine: FunctionEngine;
  functions: Informer<KnownFunction>;
  statuses: StatusWriter<KnownFunction>;
  projects: Informer<Project>;
  /** Services that the settings open beyond the availability matrix. */
  openedServices: OpenedServices;
  events: EventRecorder;
  log: Logger;
  projectUrl(ref: string): string;
  now(): Date;
}
