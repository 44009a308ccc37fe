import type { Environment } from '@marcbachmann/cel-js';
import { Environment as CelEnvironment } from '@marcbachmann/cel-js';
import { sameJson } from '../equality.js';
import { isObject, type JsonSchema } from '../json-schema.js';

/** Values of one schema in CEL: the name of their type, and the function that converts JSON to them. */
export interface CelType {
  name: string;
  of(value: unknown): unknown;
}

const same: (value: unknown) => unknown = (value) => value;
const asDate = (value: unknown) => new Date(String(value));

/** Declares the types of a schema's objects in `environment`. Each compiled schema needs its own instance. */
export class CelTypes {
  #count = 0;
  readonly #known = new Map<JsonSchema, CelType>();

  constructor(private readonly environment: Environment) {}

  /** `carriesObject`: apiVersion, kind and metadata exist although the schema does not name them. */
  typeOf(schema: JsonSchema, carriesObject = schema['x-kubernetes-embedded-resource'] === true): CelType {
    const known = this.#known.get(schema);
    if (known) return known;
    const type = this.#declare(schema, carriesObject);
    // CEL has no nullable types here. Such a value is dynamic, so that it may be compared with null.
    const celType = schema.nullable ? { name: 'dyn', of: nullOr(type.of) } : type;
    this.#known.set(schema, celType);
    return celType;
  }

  #declare(schema: JsonSchema, carriesObject: boolean): CelType {
    if (schema['x-kubernetes-int-or-string']) return { name: 'dyn', of: dynamic };
    switch (schema.type) {
      case 'string':
        return stringType(schema.format);
      case 'integer':
        return { name: 'int', of: (value) => BigInt(value as number) };
      case 'number':
        return { name: 'double', of: same };
      case 'boolean':
        return { name: 'bool', of: same };
      case 'array':
        return this.#list(schema);
      case 'object':
        return this.#object(schema, carriesObject);
      default:
        return { name: 'dyn', of: dynamic };
    }
  }

  #list(schema: JsonSchema): CelType {
    const item = schema.items ? this.typeOf(schema.items) : { name: 'dyn', of: dynamic };
    return { name: `list<${item.name}>`, of: (value) => (value as unknown[]).map(item.of) };
  }

  #object(schema: JsonSchema, carriesObject: boolean): CelType {
    const { properties, additionalProperties } = schema;
    if (typeof additionalProperties === 'object') {
      const entry = this.typeOf(additionalProperties);
      return {
        name: `map<string, ${entry.name}>`,
        of: (value) => new Map(Object.entries(value as object).map(([key, inner]) => [key, entry.of(inner)])),
      };
    }
    if (!properties && !carriesObject && schema['x-kubernetes-preserve-unknown-fields']) {
      return { name: 'dyn', of: dynamic };
    }
    return this.#message({
      ...(carriesObject ? OBJECT_PROPERTIES : {}),
      ...properties,
      ...(carriesObject ? METADATA : {}),
    });
  }

  #message(properties: Record<string, JsonSchema>): CelType {
    const fields = Object.entries(properties).map(([property, schema]) => ({
      property,
      field: escapeField(property),
      type: this.typeOf(schema),
    }));
    const name = `Object${++this.#count}`;
    const ctor = messageClass(fields);
    const fieldTypes = Object.fromEntries(fields.map(({ field, type }) => [field, type.name]));
    this.environment
      .registerType(name, { ctor, fields: fieldTypes })
      .registerOperator(`${name} == ${name}`, (a: Message, b: Message) => sameJson(a.json, b.json));
    return { name, of: (value) => new ctor(isObject(value) ? value : {}) };
  }
}

const OBJECT_PROPERTIES: Record<string, JsonSchema> = { apiVersion: { type: 'string' }, kind: { type: 'string' } };
/** The fields of metadata that rules may read. */
const METADATA: Record<string, JsonSchema> = {
  metadata: { type: 'object', properties: { name: { type: 'string' }, generateName: { type: 'string' } } },
};

interface Message {
  readonly json: Record<string, unknown>;
}

/** Makes a class whose getters convert a field to its CEL value on the first read. */
function messageClass(fields: readonly { property: string; field: string; type: CelType }[]) {
  class ObjectMessage implements Message {
    readonly read = new Map<string, unknown>();
    constructor(readonly json: Record<string, unknown>) {}
  }
  for (const { property, field, type } of fields) {
    Object.defineProperty(ObjectMessage.prototype, field, {
      get(this: ObjectMessage) {
        const known = this.read.get(property);
        if (known !== undefined) return known;
        const json = Object.hasOwn(this.json, property) ? this.json[property] : undefined;
        if (json === undefined) return undefined;
        const value = type.of(json);
        this.read.set(property, value);
        return value;
      },
    });
  }
  return ObjectMessage;
}

function stringType(format: string | undefined): CelType {
  switch (format) {
    case 'date-time':
    case 'date':
      return { name: 'google.protobuf.Timestamp', of: asDate };
    case 'duration':
      return { name: 'google.protobuf.Duration', of: (value) => durations.evaluate('duration(text)', { text: value }) };
    case 'byte':
      return { name: 'bytes', of: (value) => new Uint8Array(Buffer.from(String(value), 'base64')) };
    default:
      return { name: 'string', of: same };
  }
}

const durations = new CelEnvironment().registerVariable('text', 'string');

const nullOr = (of: (value: unknown) => unknown) => (value: unknown) => (value === null ? null : of(value));

/** Converts JSON without a schema: whole numbers become ints, and other values stay unchanged. */
function dynamic(value: unknown): unknown {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(dynamic);
  if (!isObject(value)) return value;
  return new Map(Object.entries(value).map(([key, inner]) => [key, dynamic(inner)]));
}

const RESERVED = new Set(
  (
    'true false null in as break const continue else for function if ' +
    'import let loop package namespace return var void while'
  ).split(' '),
);

/** Escapes a property's name for CEL: `my-prop` is `my__dash__prop`, `namespace` is `__namespace__`. */
function escapeField(property: string): string {
  if (RESERVED.has(property)) return `__${property}__`;
  return property
    .replaceAll('__', '__underscores__')
    .replaceAll('.', '__dot__')
    .replaceAll('-', '__dash__')
    .replaceAll('/', '__slash__');
}
