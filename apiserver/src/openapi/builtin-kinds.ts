import type { DocumentedResource } from './documents.js';

/** Namespace, Secret, ConfigMap, Event, Lease and CustomResourceDefinition. */
export declare const builtinResources: readonly DocumentedResource[];
