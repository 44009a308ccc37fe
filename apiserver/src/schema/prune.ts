import { isObject, type JsonSchema } from './json-schema.js';
import { METADATA_FIELDS, OBJECT_FIELDS } from './object-fields.js';

/** Removes fields that the schema does not have from `value`, in place, and adds their paths to `unknown`. */
export type Prune = (value: unknown, path: string, unknown: string[]) => void;

export function compilePrune(schema: JsonSchema, isRoot = false): Prune {
  const carriesObject = isRoot || schema['x-kubernetes-embedded-resource'] === true;
  const keepsUnknown = schema['x-kubernetes-preserve-unknown-fields'] === true;
  const properties = new Map(
    Object.entries(schema.properties ?? {})
      .filter(([name]) => !(carriesObject && OBJECT_FIELDS.has(name)))
      .map(([name, property]) => [name, compilePrune(property)]),
  );
  const additional = schema.additionalProperties;
  const pruneValue = typeof additional === 'object' ? compilePrune(additional) : undefined;
  const keepsAdditional = keepsUnknown || pruneValue !== undefined || additional === true;
  const pruneItem = schema.items ? compilePrune(schema.items) : undefined;

  return (value, path, unknown) => {
    if (Array.isArray(value)) {
      if (pruneItem) value.forEach((item, index) => pruneItem(item, `${path}[${index}]`, unknown));
      return;
    }
    if (!isObject(value)) return;
    for (const name of Object.keys(value)) {
      const child = path === '' ? name : `${path}.${name}`;
      const prune = properties.get(name);
      if (prune) prune(value[name], child, unknown);
      else if (carriesObject && OBJECT_FIELDS.has(name)) {
        if (name === 'metadata') pruneMetadata(value[name], child, unknown);
      } else if (pruneValue) pruneValue(value[name], child, unknown);
      else if (!keepsAdditional) {
        delete value[name];
        unknown.push(child);
      }
    }
  };
}

function pruneMetadata(metadata: unknown, path: string, unknown: string[]): void {
  if (!isObject(metadata)) return;
  for (const name of Object.keys(metadata)) {
    if (METADATA_FIELDS.has(name)) continue;
    delete metadata[name];
    unknown.push(`${path}.${name}`);
  }
}
