import { Environment, Optional } from '@marcbachmann/cel-js';
import { CostExceeded, startMeter } from './cel/cost.js';
import { CompilationError, compileExpression, type Expression } from './cel/expression.js';
import { registerFunctions } from './cel/functions.js';
import { type CelType, CelTypes } from './cel/values.js';
import { correlateItems } from './correlation.js';
import { sameJson } from './equality.js';
import type { FieldError, FieldErrorType } from './field-error.js';
import { isObject, type JsonObject, type JsonSchema, type ValidationRule } from './json-schema.js';
import { compileFieldPath } from './rule-field-path.js';

/** Evaluates all rules of a schema (`x-kubernetes-validations`) for an object with valid types. */
export type Rules = (object: JsonObject, old: JsonObject | undefined, errors: FieldError[]) => void;

type NodeRules = (value: unknown, old: unknown, path: string, errors: FieldError[]) => void;

const kubernetes = new Environment({ enableOptionalTypes: true, homogeneousAggregateLiterals: false });
registerFunctions(kubernetes);

/**
 * Compiles the rules. `rules` is undefined if the schema has none. `errors` has the rules that can't be compiled, with
 * their places in the schema.
 */
export function compileRules(schema: JsonSchema, schemaPath: string): { rules?: Rules; errors: FieldError[] } {
  if (!hasRules(schema)) return { errors: [] };
  const compiler = new RuleCompiler();
  const run = compiler.compile(schema, schemaPath);
  if (!run) return { errors: compiler.errors };
  const rules: Rules = (object, old, errors) => {
    startMeter();
    try {
      run(object, old, '', errors);
    } catch (error) {
      if (!(error instanceof CostExceeded)) throw error;
      errors.push({
        type: 'FieldValueInvalid',
        field: '<nil>',
        badValue: null,
        detail: 'validation failed due to running out of cost budget, no further validation rules will be run',
      });
    }
  };
  return { rules, errors: compiler.errors };
}

function hasRules(schema: JsonSchema): boolean {
  if (schema['x-kubernetes-validations']?.length) return true;
  const below = [...Object.values(schema.properties ?? {}), schema.items, schema.additionalProperties];
  return below.some((child) => typeof child === 'object' && hasRules(child));
}

class RuleCompiler {
  readonly errors: FieldError[] = [];
  readonly #environment = kubernetes.clone();
  readonly #types = new CelTypes(this.#environment);

  compile(schema: JsonSchema, schemaPath: string): NodeRules | undefined {
    // Declares all types first, because an environment can't be extended after another was cloned from it.
    this.#types.typeOf(schema, true);
    return this.#node(schema, schemaPath, true, true);
  }

  #node(schema: JsonSchema, path: string, isRoot: boolean, hasOld: boolean): NodeRules | undefined {
    if (!hasRules(schema)) return undefined;
    const at = (step: string) => (path === '' ? step : `${path}.${step}`);
    const own = this.#own(schema, path, isRoot, hasOld);
    const properties = Object.entries(schema.properties ?? {})
      .map(([name, property]) => ({ name, run: this.#node(property, at(`properties[${name}]`), false, hasOld) }))
      .filter((property): property is { name: string; run: NodeRules } => property.run !== undefined);
    const additional = schema.additionalProperties;
    const runValue =
      typeof additional === 'object' ? this.#node(additional, at('additionalProperties'), false, hasOld) : undefined;
    const correlate = correlateItems(schema);
    const runItem = schema.items && this.#node(schema.items, at('items'), false, hasOld && correlate !== undefined);

    return (value, old, valuePath, errors) => {
      if (value === null || value === undefined) return;
      for (const run of own) run(value, old, valuePath, errors);
      if (Array.isArray(value)) {
        const before = correlate && Array.isArray(old) ? correlate(old) : undefined;
        if (runItem) value.forEach((item, index) => runItem(item, before?.(item), `${valuePath}[${index}]`, errors));
      } else if (isObject(value)) {
        const prefix = valuePath === '' ? '' : `${valuePath}.`;
        const before = isObject(old) ? old : undefined;
        for (const { name, run } of properties) run(value[name], before?.[name], prefix + name, errors);
        if (runValue) {
          for (const name of Object.keys(value)) runValue(value[name], before?.[name], `${valuePath}[${name}]`, errors);
        }
      }
    };
  }

  #own(schema: JsonSchema, path: string, isRoot: boolean, hasOld: boolean): NodeRules[] {
    const rules = schema['x-kubernetes-validations'] ?? [];
    const type = this.#types.typeOf(schema, isRoot || undefined);
    return rules.flatMap((rule, index) => {
      const place = `${path === '' ? '' : `${path}.`}x-kubernetes-validations[${index}]`;
      return this.#rule(rule, schema, type, place, hasOld) ?? [];
    });
  }

  #rule(
    rule: ValidationRule,
    schema: JsonSchema,
    type: CelType,
    place: string,
    hasOld: boolean,
  ): NodeRules | undefined {
    const oldType = rule.optionalOldSelf ? `optional<${type.name}>` : type.name;
    const environment = this.#environment
      .clone()
      .registerVariable('self', type.name)
      .registerVariable('oldSelf', oldType);
    const condition = this.#expression(environment, rule, 'rule', place);
    const words = rule.messageExpression ? this.#expression(environment, rule, 'messageExpression', place) : undefined;
    const fieldPath = compileFieldPath(rule.fieldPath ?? '', schema);
    if (fieldPath === undefined) this.#refuse(`${place}.fieldPath`, rule.fieldPath, 'must be a valid path');
    if (condition?.usesOldSelf && !hasOld) {
      const detail = 'oldSelf cannot be used on the uncorrelatable portion of the schema';
      this.#refuse(`${place}.rule`, printable(rule), detail);
    }
    if (!condition || fieldPath === undefined) return undefined;
    return evaluator({ rule, type, condition, words, fieldPath, schemaType: schema.type ?? '' });
  }

  #expression(environment: Environment, rule: ValidationRule, part: 'rule' | 'messageExpression', place: string) {
    const wanted = part === 'rule' ? 'bool' : 'string';
    if (part === 'rule' && rule.rule.trim() === '') {
      this.errors.push({ type: 'FieldValueRequired', field: `${place}.rule`, detail: 'rule is not specified' });
      return undefined;
    }
    try {
      return compileExpression(environment, rule[part] ?? '', wanted);
    } catch (error) {
      const subject = part === 'rule' ? 'cel expression' : 'messageExpression';
      const { message } = error as Error;
      const prefix = part === 'messageExpression' ? 'messageExpression ' : '';
      const detail = error instanceof CompilationError ? `${prefix}${message}` : `${subject} ${message}`;
      this.#refuse(`${place}.${part}`, printable(rule), detail);
      return undefined;
    }
  }

  #refuse(field: string, badValue: unknown, detail: string): void {
    this.errors.push({ type: 'FieldValueInvalid', field, badValue, detail });
  }
}

/** Returns a rule as the real server prints it. */
const printable = (rule: ValidationRule) => ({
  Rule: rule.rule,
  Message: rule.message ?? '',
  MessageExpression: rule.messageExpression ?? '',
  Reason: rule.reason ?? null,
  FieldPath: rule.fieldPath ?? '',
  OptionalOldSelf: rule.optionalOldSelf ?? null,
});

interface CompiledRule {
  rule: ValidationRule;
  type: CelType;
  condition: Expression;
  words: Expression | undefined;
  fieldPath: string;
  schemaType: string;
}

function evaluator({ rule, type, condition, words, fieldPath, schemaType }: CompiledRule): NodeRules {
  const named = rule.message?.trim() || rule.rule.trim();
  return (value, old, path, errors) => {
    const hasOld = old !== undefined && old !== null;
    if (condition.usesOldSelf && !hasOld && !rule.optionalOldSelf) return;
    const variables = {
      self: type.of(value),
      ...(condition.usesOldSelf ? { oldSelf: oldValue(rule, type, old) } : {}),
    };
    const refuse = (detail: string, field = path) => {
      // A value that was stored before the rule existed may stay.
      if (hasOld && !condition.usesOldSelf && sameJson(value, old)) return;
      errors.push(ruleError(rule, field, schemaType, detail));
    };
    try {
      if (condition.evaluate(variables) === true) return;
    } catch (error) {
      if (error instanceof CostExceeded) throw error;
      return refuse(`${(error as Error).message} evaluating rule: ${named}`);
    }
    refuse(spoken(rule, words, variables), path + fieldPath);
  };
}

function oldValue(rule: ValidationRule, type: CelType, old: unknown): unknown {
  if (!rule.optionalOldSelf) return type.of(old);
  return old === undefined || old === null ? Optional.none() : Optional.of(type.of(old));
}

/** Returns the error message: messageExpression's text if it is one line, or else message, or else the rule itself. */
function spoken(rule: ValidationRule, words: Expression | undefined, variables: Record<string, unknown>): string {
  try {
    const text = words?.evaluate(variables);
    if (typeof text === 'string' && text.trim() !== '' && !text.includes('\n')) return text.trim();
  } catch (error) {
    if (error instanceof CostExceeded) throw error;
    // The rule's failure must be reported even if its message can't be computed.
  }
  return rule.message ? rule.message.trim() : `failed rule: ${rule.rule.trim()}`;
}

function ruleError(rule: ValidationRule, field: string, badValue: string, detail: string): FieldError {
  const type = (rule.reason ?? 'FieldValueInvalid') as FieldErrorType;
  return { type, field, badValue, detail: type === 'FieldValueDuplicate' ? '' : detail };
}
