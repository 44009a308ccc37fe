import { itemKey } from './correlation.js';
import { canonicalJson } from './equality.js';
import type { FieldError } from './field-error.js';
import { isObject, type JsonSchema } from './json-schema.js';

type UniquenessCheck = (value: unknown, path: string, errors: FieldError[]) => void;

/**
 * Compiles a check that rejects duplicate items in lists declared as sets or maps. Returns undefined if the schema has
 * no such list.
 */
export function compileUniqueness(schema: JsonSchema): UniquenessCheck | undefined {
  const properties = Object.entries(schema.properties ?? {})
    .map(([name, property]) => ({ name, check: compileUniqueness(property) }))
    .filter((property): property is { name: string; check: UniquenessCheck } => property.check !== undefined);
  const additional = schema.additionalProperties;
  const checkValue = typeof additional === 'object' ? compileUniqueness(additional) : undefined;
  const checkItem = schema.items && compileUniqueness(schema.items);
  const checkList = duplicatesCheck(schema);
  if (properties.length === 0 && !checkValue && !checkItem && !checkList) return undefined;

  return (value, path, errors) => {
    if (Array.isArray(value)) {
      checkList?.(value, path, errors);
      if (checkItem) value.forEach((item, index) => checkItem(item, `${path}[${index}]`, errors));
    } else if (isObject(value)) {
      const prefix = path === '' ? '' : `${path}.`;
      for (const { name, check } of properties) check(value[name], prefix + name, errors);
      if (checkValue) for (const name of Object.keys(value)) checkValue(value[name], `${path}[${name}]`, errors);
    }
  };
}

function duplicatesCheck(schema: JsonSchema) {
  const listType = schema['x-kubernetes-list-type'];
  if (listType !== 'set' && listType !== 'map') return undefined;
  const keys = schema['x-kubernetes-list-map-keys'] ?? [];
  const keyOf = listType === 'set' ? canonicalJson : (item: unknown) => itemKey(item, keys);
  const shown = listType === 'set' ? (item: unknown) => item : (item: unknown) => keysOf(item, keys);
  return (list: readonly unknown[], path: string, errors: FieldError[]) => {
    const seen = new Map<string, number>();
    list.forEach((item, index) => {
      const key = keyOf(item);
      const times = (seen.get(key) ?? 0) + 1;
      seen.set(key, times);
      // Each duplicate value is reported once, at its second position.
      if (times !== 2) return;
      errors.push({ type: 'FieldValueDuplicate', field: `${path}[${index}]`, badValue: shown(item), detail: '' });
    });
  };
}

function keysOf(item: unknown, keys: readonly string[]): unknown {
  if (!isObject(item)) return item;
  return Object.fromEntries(
    [...keys]
      .sort()
      .filter((key) => item[key] !== undefined)
      .map((key) => [key, item[key]]),
  );
}
