import type { FieldError } from './field-error.js';
import { isObject, type JsonObject, type JsonSchema } from './json-schema.js';
import { annotationErrors, labelErrors } from './object-meta.js';

type EmbeddedCheck = (value: unknown, path: string, errors: FieldError[]) => void;

/**
 * Checks embedded objects (`x-kubernetes-embedded-resource`): apiVersion, kind and labels. Returns undefined if the
 * schema has none.
 */
export function embeddedObjectErrors(schema: JsonSchema): EmbeddedCheck | undefined {
  const properties = Object.entries(schema.properties ?? {})
    .map(([name, property]) => ({ name, check: embeddedObjectErrors(property) }))
    .filter((property): property is { name: string; check: EmbeddedCheck } => property.check !== undefined);
  const additional = schema.additionalProperties;
  const checkValue = typeof additional === 'object' ? embeddedObjectErrors(additional) : undefined;
  const checkItem = schema.items && embeddedObjectErrors(schema.items);
  const isEmbedded = schema['x-kubernetes-embedded-resource'] === true;
  if (properties.length === 0 && !checkValue && !checkItem && !isEmbedded) return undefined;

  return (value, path, errors) => {
    if (Array.isArray(value)) {
      if (checkItem) value.forEach((item, index) => checkItem(item, `${path}[${index}]`, errors));
    } else if (isObject(value)) {
      const prefix = path === '' ? '' : `${path}.`;
      if (isEmbedded) checkEmbedded(value, path, errors);
      for (const { name, check } of properties) check(value[name], prefix + name, errors);
      if (checkValue) for (const name of Object.keys(value)) checkValue(value[name], prefix + name, errors);
    }
  };
}

function checkEmbedded(object: JsonObject, path: string, errors: FieldError[]): void {
  for (const name of ['apiVersion', 'kind']) {
    const field = `${path}.${name}`;
    if (object[name] === undefined) errors.push({ type: 'FieldValueRequired', field, detail: '' });
    else if (object[name] === '') {
      errors.push({ type: 'FieldValueInvalid', field, badValue: '', detail: 'must not be empty' });
    }
  }
  if (!isObject(object.metadata)) return;
  errors.push(...labelErrors(object.metadata.labels, `${path}.metadata.labels`));
  errors.push(...annotationErrors(object.metadata.annotations, `${path}.metadata.annotations`));
}
