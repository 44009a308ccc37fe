import type { JsonSchema } from '../schema/json-schema.js';

/** How the lists of a built-in kind merge, by `apiVersion/kind` (e.g. `v1/Namespace`); undefined when all are atomic. */
export declare function builtinSchema(apiVersion: string, kind: string): JsonSchema | undefined;
