import type { FieldError } from './field-error.js';
import type { JsonObject } from './json-schema.js';

/** What is wrong with a CustomResourceDefinition, after its defaults were set (`old` on update). */
export declare function validateCustomResourceDefinition(crd: JsonObject, old?: JsonObject): FieldError[];
