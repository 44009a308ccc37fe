import type { JsonObject, JsonSchema } from '../schema/json-schema.js';
import type { FieldSet } from './field-set.js';
import { fieldSchema, isNamed, type Shape, shapeOf } from './merge-type.js';

/**
 * Merges `applied` over `live`. Has the fields and items of both. If both have a value, `applied` wins. May share parts
 * with its inputs.
 */
export function merge(live: unknown, applied: unknown, schema: JsonSchema | undefined): unknown {
  if (live === undefined) return applied;
  const base = shapeOf(live, schema);
  const top = shapeOf(applied, schema);
  if (base.kind === 'map' && top.kind === 'map') {
    const merged: JsonObject = { ...base.fields };
    for (const [name, value] of Object.entries(top.fields)) {
      merged[name] = merge(base.fields[name], value, fieldSchema(schema, name));
    }
    return merged;
  }
  if (base.kind === 'list' && top.kind === 'list') return mergeItems(base, top);
  return applied;
}

type ListShape = Extract<Shape, { kind: 'list' }>;

/** Merges two lists of items in the order of `top`. Items of `base` alone keep their places among the others. */
function mergeItems(base: ListShape, top: ListShape): unknown[] {
  const baseByStep = new Map(base.items.map((item) => [base.stepOf(item), item]));
  const topSteps = top.items.map((item) => top.stepOf(item));
  const inTop = new Set(topSteps);
  const merged: unknown[] = [];
  const waiting = [...baseByStep.keys()];
  topSteps.forEach((name, index) => {
    while (waiting[0] !== undefined && waiting[0] !== name && !inTop.has(waiting[0])) {
      merged.push(baseByStep.get(waiting.shift() ?? ''));
    }
    const place = waiting.indexOf(name);
    if (place >= 0) waiting.splice(place, 1);
    merged.push(merge(baseByStep.get(name), top.items[index], top.itemSchema));
  });
  return [...merged, ...waiting.map((name) => baseByStep.get(name))];
}

/**
 * Returns `value` without the paths that its manager owned before (`last`) and that nobody owns now. A path is removed
 * with everything below it, unless somebody owns a part of it.
 */
export function removeUnowned(
  value: unknown,
  schema: JsonSchema | undefined,
  last: FieldSet,
  owned: FieldSet,
): unknown {
  const shape = shapeOf(value, schema);
  if (shape.kind === 'leaf') return value;
  const keep = (child: unknown, childSchema: JsonSchema | undefined, name: string, named: boolean) => {
    const lastChild = last.children.get(name);
    if (!lastChild) return child;
    const ownedChild = owned.children.get(name);
    if (counts(lastChild, named) && !counts(ownedChild, named)) return undefined;
    return ownedChild ? removeUnowned(child, childSchema, lastChild, ownedChild) : child;
  };
  if (shape.kind === 'list') {
    return shape.items
      .map((item) => keep(item, shape.itemSchema, shape.stepOf(item), false))
      .filter((item) => item !== undefined);
  }
  const kept = Object.entries(shape.fields).map(
    ([name, field]) => [name, keep(field, fieldSchema(schema, name), `f:${name}`, isNamed(schema, name))] as const,
  );
  return Object.fromEntries(kept.filter(([, field]) => field !== undefined));
}

/** True if a set has the path itself. A named field is in the set as soon as something below it is. */
const counts = (set: FieldSet | undefined, named: boolean) =>
  set !== undefined && (set.member || (named && set.children.size > 0));
