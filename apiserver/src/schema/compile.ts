import { compileDefaults } from './defaults.js';
import { embeddedObjectErrors } from './embedded-objects.js';
import type { FieldError, FieldErrorType } from './field-error.js';
import type { JsonObject, JsonSchema } from './json-schema.js';
import { compileUniqueness } from './list-uniqueness.js';
import { compilePrune } from './prune.js';
import { compileRules } from './rules.js';
import { compileChecks } from './value-checks.js';

/**
 * A compiled schema. It is compiled once for each version of a CustomResourceDefinition. All methods are pure CPU work.
 */
export interface CompiledSchema {
  readonly source: JsonSchema;
  /** Removes unknown fields in place. Returns their paths (`spec.foo`, `spec.list[0].bar`). */
  prune(object: JsonObject): string[];
  /** Sets defaults in place. Removes nulls where the schema does not allow them. */
  applyDefaults(object: JsonObject): void;
  /** Validates the whole object except its metadata. `old` is the stored object, for transition rules. */
  validate(object: JsonObject, old?: JsonObject): FieldError[];
}

/** A schema that can't be compiled, because a CEL rule or a pattern is malformed. */
export class SchemaError extends Error {
  constructor(readonly errors: readonly FieldError[]) {
    super(errors.map((error) => `${error.field}: ${error.detail}`).join('; '));
  }
}

/**
 * Errors after which the rules of a value are not evaluated, because the value may have another type than its rules
 * expect.
 */
const BLOCKING = new Set<FieldErrorType>([
  'FieldValueRequired',
  'FieldValueTooLong',
  'FieldValueTooMany',
  'FieldValueNotSupported',
  'FieldValueTypeInvalid',
]);

const RULES_NOT_CHECKED: FieldError = {
  type: 'FieldValueInvalid',
  field: '<nil>',
  badValue: null,
  detail:
    'some validation rules were not checked because the object was invalid; correct the existing errors to complete ' +
    'validation',
};

export function compileSchema(openAPIV3Schema: JsonSchema): CompiledSchema {
  const prune = compilePrune(openAPIV3Schema, true);
  const applyDefaults = compileDefaults(openAPIV3Schema);
  const check = compileChecks(openAPIV3Schema);
  const embedded = embeddedObjectErrors(openAPIV3Schema);
  const uniqueness = compileUniqueness(openAPIV3Schema);
  const { rules, errors: ruleErrors } = compileRules(openAPIV3Schema, '');
  if (ruleErrors.length > 0) throw new SchemaError(ruleErrors);

  return {
    source: openAPIV3Schema,
    prune(object) {
      const unknown: string[] = [];
      prune(object, '', unknown);
      return unknown.sort();
    },
    applyDefaults(object) {
      applyDefaults?.(object);
    },
    validate(object, old) {
      const errors: FieldError[] = [];
      check(object, old, '', errors);
      embedded?.(object, '', errors);
      uniqueness?.(object, '', errors);
      if (!rules) return errors;
      if (errors.some((error) => BLOCKING.has(error.type))) errors.push(RULES_NOT_CHECKED);
      else rules(object, old, errors);
      return errors;
    },
  };
}
