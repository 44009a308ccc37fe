import { isObject, type JsonSchema } from './json-schema.js';

/**
 * Sets defaults in place. Removes nulls where the schema does not allow them, because a client's null means "not set".
 */
export type ApplyDefaults = (value: unknown) => void;

/** Returns undefined if nothing under `schema` has a default or can contain a null to remove. */
export function compileDefaults(schema: JsonSchema): ApplyDefaults | undefined {
  const properties = Object.entries(schema.properties ?? {}).map(([name, property]) => ({
    name,
    nullable: property.nullable === true,
    fallback: property.default,
    descend: compileDefaults(property),
  }));
  const additional = typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined;
  const descendValue = additional && compileDefaults(additional);
  const descendItem = schema.items && compileDefaults(schema.items);
  if (properties.length === 0 && !additional && !descendItem && schema.items?.default === undefined) return undefined;

  return (value) => {
    if (Array.isArray(value)) {
      defaultItems(value, schema.items, descendItem);
    } else if (isObject(value)) {
      for (const { name, nullable, fallback, descend } of properties) {
        if (value[name] === null && !nullable) delete value[name];
        if (value[name] === undefined && fallback !== undefined) value[name] = structuredClone(fallback);
        if (descend && value[name] !== undefined) descend(value[name]);
      }
      if (additional) defaultEntries(value, additional, descendValue);
    }
  };
}

function defaultItems(items: unknown[], schema: JsonSchema | undefined, descend: ApplyDefaults | undefined): void {
  for (let index = 0; index < items.length; index++) {
    if (items[index] === null && schema?.default !== undefined && !schema.nullable) {
      items[index] = structuredClone(schema.default);
    }
    descend?.(items[index]);
  }
}

function defaultEntries(entries: Record<string, unknown>, schema: JsonSchema, descend?: ApplyDefaults): void {
  for (const key of Object.keys(entries)) {
    if (entries[key] === null && !schema.nullable) {
      if (schema.default === undefined) delete entries[key];
      else entries[key] = structuredClone(schema.default);
    }
    descend?.(entries[key]);
  }
}
