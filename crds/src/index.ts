/**
 * The custom resources of Slipway: one source for their types, schemas and defaults, and for the names that programs
 * share. In: nothing. Out: TypeScript types, CRD manifests. Used by the API, the operator and the data plane.
 */
import { buildDefinition } from './build.js';
import { edgeFunctionDefinition } from './edge-function.js';
import { projectDefinition } from './project.js';
import { customResourceDefinition } from './resource.js';

export * from './addresses.js';
export * from './availability.js';
export * from './build.js';
export * from './edge-function.js';
export * from './installation.js';
export * from './metrics-server.js';
export * from './names.js';
export * from './placement.js';
export * from './pods.js';
export * from './project.js';
export * from './random-letters.js';
export * from './registration.js';
export type { KubernetesObject, ObjectMeta, OwnerReference, PrinterColumn, ResourceDefinition } from './resource.js';
export * from './rest-settings.js';
export { Condition } from './schema.js';
export * from './scram-only.js';
export * from './site.js';
export * from './text-forms.js';
export * from './trusted-proxies.js';
export * from './web-addresses.js';

/** The manifests of all our CustomResourceDefinitions. */
export const customResourceDefinitions = [projectDefinition, edgeFunctionDefinition, buildDefinition].map(
  customResourceDefinition,
);
