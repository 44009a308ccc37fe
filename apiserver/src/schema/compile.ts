import type { FieldError } from './field-error.js';
import type { JsonObject, JsonSchema } from './json-schema.js';

/** A schema ready to meet objects. Compile once per version of a CustomResourceDefinition; all methods are pure CPU. */
export interface CompiledSchema {
  readonly source: JsonSchema;
  /** Drops unknown fields in place; returns their paths (`spec.foo`, `spec.list[0].bar`). */
  prune(object: JsonObject): string[];
  /** Fills defaults in place. */
  applyDefaults(object: JsonObject): void;
  /** What is wrong with the whole object; `old` is the stored one, for transition rules. Skips metadata. */
  validate(object: JsonObject, old?: JsonObject): FieldError[];
}

/** A schema that can't be compiled: a CEL rule or a pattern is malformed. */
export class SchemaError extends Error {
  constructor(readonly errors: readonly FieldError[]) {
    super(errors.map((error) => `${error.field}: ${error.detail}`).join('; '));
  }
}

export declare function compileSchema(openAPIV3Schema: JsonSchema): CompiledSchema;
