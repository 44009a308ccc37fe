import type { FieldError } from './field-error.js';
import type { JsonObject } from './json-schema.js';

export interface MetadataRules {
  namespaced: boolean;
  /** `label` for Namespaces (63 characters, no dots); else `subdomain`. */
  name?: 'subdomain' | 'label';
}

/** What is wrong with `metadata`, as it is after generateName was resolved and the namespace set; `old` on update. */
export declare function validateObjectMeta(metadata: JsonObject, rules: MetadataRules, old?: JsonObject): FieldError[];
