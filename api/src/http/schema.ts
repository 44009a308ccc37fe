/** Pieces of request and response schemas that features share, and their conversion to OpenAPI 3.0. */
import Type, { type TSchema } from 'typebox';

/** The largest id: the maximum of PostgreSQL's type `integer`. */
export const MAX_ID = 2_147_483_647;

export const Id = (description: string) => Type.Integer({ minimum: 1, maximum: MAX_ID, description });

export const oneOf = <const V extends readonly string[]>(values: V, options: Record<string, unknown> = {}) =>
  Type.Unsafe<V[number]>({ type: 'string', enum: [...values], ...options });

export const Nullable = <S extends TSchema>(schema: S, options: Record<string, unknown> = {}) =>
  Type.Union([schema, Type.Null()], options);

export const Time = (description: string) => Type.String({ format: 'date-time', description });

/**
 * Matches one line of text without control characters, which are unsafe in terminals and invalid in PostgreSQL's
 * `text`.
 */
export const Line = (options: { minLength?: number; maxLength: number; description: string; examples?: string[] }) =>
  Type.String({ pattern: '^[^\\u0000-\\u001f\\u007f]*$', ...options });

type Json = Record<string, unknown>;

/**
 * Converts a TypeBox schema to OpenAPI 3.0.3: `nullable` for a union with null, `additionalProperties` for a map, and a
 * `$ref` into `components` for each schema with an `$id`.
 */
export function openApiSchema(schema: unknown, components: Record<string, unknown>): unknown {
  if (Array.isArray(schema)) return schema.map((item) => openApiSchema(item, components));
  if (schema === null || typeof schema !== 'object') return schema;
  const { $id, ...rest } = schema as Json;
  if (typeof $id !== 'string') return inline(rest, components);
  if (!(($id as string) in components)) {
    components[$id] = null;
    components[$id] = inline(rest, components);
  }
  return { $ref: `#/components/schemas/${$id}` };
}

function inline(schema: Json, components: Record<string, unknown>): unknown {
  const { anyOf, patternProperties, examples, const: constant, ...rest } = schema;
  const converted: Json = {};
  for (const [key, value] of Object.entries(rest)) {
    converted[key] = key === 'properties' ? mapValues(value as Json, components) : keyword(key, value, components);
  }
  if (constant !== undefined) converted.enum = [constant];
  if (Array.isArray(examples)) converted.example = examples[0];
  if (patternProperties) {
    converted.additionalProperties = openApiSchema(Object.values(patternProperties as Json)[0], components);
  }
  if (!Array.isArray(anyOf)) return converted;
  const others = anyOf.filter((branch: Json) => branch.type !== 'null');
  const nullable = others.length < anyOf.length ? { nullable: true } : {};
  const branches = others.map((branch) => openApiSchema(branch, components) as Json);
  if (branches.length > 1) return { ...converted, anyOf: branches, ...nullable };
  // OpenAPI 3.0 ignores every other keyword beside a $ref.
  const [only] = branches;
  return only && '$ref' in only ? { ...converted, allOf: [only], ...nullable } : { ...only, ...converted, ...nullable };
}

const NESTED = new Set(['items', 'additionalProperties', 'allOf', 'not']);
const keyword = (key: string, value: unknown, components: Record<string, unknown>) =>
  NESTED.has(key) ? openApiSchema(value, components) : value;

const mapValues = (properties: Json, components: Record<string, unknown>) =>
  Object.fromEntries(Object.entries(properties).map(([name, value]) => [name, openApiSchema(value, components)]));

export const OK = Type.Object(
  { ok: Type.Literal(true, { description: 'The request succeeded.' }) },
  { $id: 'Ok', additionalProperties: false },
);
export type Ok = Type.Static<typeof OK>;
