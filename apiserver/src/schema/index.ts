/**
 * Pure checks of what clients send: a CustomResourceDefinition's schema compiled to closures, metadata, definitions.
 * In: plain JSON. Out: FieldErrors in the real server's words, and the Status that carries them.
 */
export { type CompiledSchema, compileSchema, SchemaError } from './compile.js';
export { validateCustomResourceDefinition } from './custom-resource-definition.js';
export { errorText, type FieldError, invalid, type Status, type StatusDetails } from './field-error.js';
export type { JsonObject, JsonSchema, ValidationRule } from './json-schema.js';
export { type MetadataRules, validateObjectMeta } from './object-meta.js';
