/**
 * The custom resources of Slipway: one source for their types, schemas and defaults. In: nothing. Out: TypeScript types
 * and CRD manifests. The API, the operator and the data plane use it.
 */
import { buildDefinition } from './build.js';
import { edgeFunctionDefinition } from './edge-function.js';
import { projectDefinition } from './project.js';
import { customResourceDefinition } from './resource.js';

export * from './build.js';
export * from './edge-function.js';
export * from './machine-sizes.js';
export * from './machine-units.js';
export * from './names.js';
export * from './placement.js';
export * from './plans.js';
export * from './project.js';
export { MOST_SNAPSHOTS, SNAPSHOT_NAME_MAX_LENGTH, SNAPSHOT_STATES, type SnapshotState } from './project-machine.js';
export * from './request-numbers.js';
export type { KubernetesObject, ObjectMeta, OwnerReference, PrinterColumn, ResourceDefinition } from './resource.js';
export { Condition, oneOf } from './schema.js';
export * from './text-forms.js';
export * from './types.js';

/** The manifests of all CustomResourceDefinitions of Slipway. */
export const customResourceDefinitions = [projectDefinition, edgeFunctionDefinition, buildDefinition].map(
  customResourceDefinition,
);
