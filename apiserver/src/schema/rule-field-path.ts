import type { JsonSchema } from './json-schema.js';

/**
 * Returns a rule's `fieldPath` (`.spec.max`, `.labels['a.b']`) as errors print it, or '' without a path. Undefined if
 * the path is not in `schema`.
 */
export function compileFieldPath(fieldPath: string, schema: JsonSchema): string | undefined {
  let printed = '';
  let place: JsonSchema | undefined = schema;
  let rest = fieldPath.trim();
  while (rest !== '') {
    const step = /^\.([A-Za-z_][A-Za-z0-9_-]*)|^\['((?:[^'\\]|\\.)+)'\]/.exec(rest);
    if (!step || !place) return undefined;
    const name = step[1] ?? (step[2] ?? '').replaceAll(/\\(.)/g, '$1');
    const properties: Readonly<Record<string, JsonSchema>> = place.properties ?? {};
    const isProperty = Object.hasOwn(properties, name);
    const value: JsonSchema | boolean | undefined = isProperty ? properties[name] : place.additionalProperties;
    if (typeof value !== 'object') return undefined;
    printed += isProperty ? `.${name}` : `[${name}]`;
    place = value;
    rest = rest.slice(step[0].length);
  }
  return printed;
}
