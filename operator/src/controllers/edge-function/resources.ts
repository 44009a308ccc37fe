/** The objects that this controller reads and writes, and their paths. */

import { API_VERSION, type EdgeFunction, type Project } from '@slipway/crds';
import type { OpenedServices } from '@slipway/installation';
import type { Informer, KubeClient, KubeObject } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import type { FunctionEngine } from '../../capabilities/index.js';
import type { EventRecorder } from '../../runtime/events.js';
import type { StatusWriter } from '../../runtime/status-writer.js';

export const EDGE_FUNCTIONS = `/apis/${API_VERSION}/edgefunctions`;

/** Index of the functions of one project with the same name. */
export const BY_ADDRESS = 'address';
export const addressKey = ({ metadata, spec }: EdgeFunction) => `${metadata.namespace}/${spec.name}`;

/** Index of all functions of one project. */
export const BY_NAMESPACE = 'namespace';

/** An EdgeFunction in the cache: without its code, of which only the size is stored. */
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
