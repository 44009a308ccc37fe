import { sameJson } from '../schema/equality.js';
import { isObject, type JsonSchema } from '../schema/json-schema.js';
import { childOf, emptySet, type FieldSet, isEmpty } from './field-set.js';
import { fieldSchema, type Shape, shapeOf } from './merge-type.js';

export interface Comparison {
  added: FieldSet;
  modified: FieldSet;
  removed: FieldSet;
}

export const isSame = ({ added, modified, removed }: Comparison) =>
  isEmpty(added) && isEmpty(modified) && isEmpty(removed);

/** Returns the fields that were added, modified and removed between two objects. */
export function compare(before: unknown, after: unknown, schema: JsonSchema): Comparison {
  const result = { added: emptySet(), modified: emptySet(), removed: emptySet() };
  compareAt(before, after, schema, result);
  return dropEmptyBranches(result);
}

function compareAt(before: unknown, after: unknown, schema: JsonSchema | undefined, at: Comparison): void {
  const old = before === undefined ? undefined : shapeOf(before, schema);
  const now = after === undefined ? undefined : shapeOf(after, schema);
  if (isLeafPair(old, now)) {
    if (before === undefined) at.added.member = true;
    else if (after === undefined) at.removed.member = true;
    else if (!sameJson(before, after)) at.modified.member = true;
    return;
  }
  const kind = (now ?? old)?.kind;
  if (kind === 'map') compareFields(before, after, schema, at);
  else compareItems(old, now, at);
  if (before === undefined) at.added.member = true;
  else if (after === undefined) at.removed.member = true;
}

const isBare = (shape: Shape | undefined) =>
  shape === undefined ||
  shape.kind === 'leaf' ||
  (shape.kind === 'map' ? Object.keys(shape.fields).length === 0 : shape.items.length === 0);

/** True if two values can't be compared part by part, for example because they have no parts. */
function isLeafPair(old: Shape | undefined, now: Shape | undefined): boolean {
  if (old?.kind === 'leaf' || now?.kind === 'leaf') return true;
  if (old && now && old.kind !== now.kind) return true;
  return isBare(old) && isBare(now);
}

const step = (at: Comparison, name: string): Comparison => ({
  added: childOf(at.added, name),
  modified: childOf(at.modified, name),
  removed: childOf(at.removed, name),
});

function compareFields(before: unknown, after: unknown, schema: JsonSchema | undefined, at: Comparison): void {
  const old = isObject(before) ? before : {};
  const now = isObject(after) ? after : {};
  for (const name of new Set([...Object.keys(old), ...Object.keys(now)])) {
    // The most common case. It avoids building the sets.
    if (old[name] === now[name]) continue;
    compareAt(old[name], now[name], fieldSchema(schema, name), step(at, `f:${name}`));
  }
}

function compareItems(old: Shape | undefined, now: Shape | undefined, at: Comparison): void {
  const before = itemsBySteps(old);
  const after = itemsBySteps(now);
  const schema = (now?.kind === 'list' && now.itemSchema) || (old?.kind === 'list' && old.itemSchema) || undefined;
  for (const name of new Set([...before.keys(), ...after.keys()])) {
    compareAt(before.get(name), after.get(name), schema, step(at, name));
  }
}

function itemsBySteps(shape: Shape | undefined): Map<string, unknown> {
  if (shape?.kind !== 'list') return new Map();
  return new Map(shape.items.map((item) => [shape.stepOf(item), item]));
}

function dropEmptyBranches({ added, modified, removed }: Comparison): Comparison {
  for (const set of [added, modified, removed]) dropEmpty(set);
  return { added, modified, removed };
}

function dropEmpty(set: FieldSet): void {
  for (const [name, child] of set.children) {
    dropEmpty(child);
    if (isEmpty(child)) set.children.delete(name);
  }
}
