/**
 * Pure checks of clients' input: schemas of CustomResourceDefinitions compiled to closures, metadata, and definitions.
 * In: plain JSON. Out: FieldErrors with the real server's messages, and the Status for them.
 */
export { type CompiledSchema, compileSchema, SchemaError } from './compile.js';
export { validateCustomResourceDefinition } from './custom-resource-definition.js';
export { errorText, type FieldError, invalid, type Status, type StatusDetails } from './field-error.js';
export type { JsonObject, JsonSchema, ValidationRule } from './json-schema.js';
export { type MetadataRules, validateObjectMeta } from './object-meta.js';
