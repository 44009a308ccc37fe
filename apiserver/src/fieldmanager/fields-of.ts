import { isObject, type JsonSchema } from '../schema/json-schema.js';
import { childOf, emptySet, type FieldSet, isEmpty } from './field-set.js';
import { fieldSchema, isNamed, shapeOf } from './merge-type.js';

/** Returns all fields that a configuration sets. */
export function fieldsOf(value: unknown, schema: JsonSchema): FieldSet {
  const set = emptySet();
  addFields(value, schema, set);
  return set;
}

function addFields(value: unknown, schema: JsonSchema | undefined, set: FieldSet): void {
  const shape = shapeOf(value, schema);
  if (shape.kind === 'leaf') {
    set.member = true;
  } else if (shape.kind === 'list') {
    for (const item of shape.items) {
      const child = childOf(set, shape.stepOf(item));
      addFields(item, shape.itemSchema, child);
      child.member = true;
    }
  } else {
    for (const [name, field] of Object.entries(shape.fields)) {
      const child = childOf(set, `f:${name}`);
      addFields(field, fieldSchema(schema, name), child);
      if (isEmptyMap(field) || !isNamed(schema, name)) child.member = true;
      if (isEmpty(child)) set.children.delete(`f:${name}`);
    }
  }
}

const isEmptyMap = (value: unknown) => isObject(value) && Object.keys(value).length === 0;
