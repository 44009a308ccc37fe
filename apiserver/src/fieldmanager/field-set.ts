/**
 * A set of fields as a tree, in the format of `fieldsV1` (sigs.k8s.io/structured-merge-diff). Each step of a path is
 * `f:<name>`, `k:{"key":"value"}` for an item of a keyed list, or `v:<value>` for an item of a set.
 */
import { parseJson } from '@slipway/program';

export interface FieldSet {
  /** True if the set contains the path itself, not only paths below it. */
  member: boolean;
  children: Map<string, FieldSet>;
}

export const emptySet = (): FieldSet => ({ member: false, children: new Map() });

export const isEmpty = (set: FieldSet): boolean => !set.member && set.children.size === 0;

/** Returns the child at `step`, and makes it first if it is missing. */
export function childOf(set: FieldSet, step: string): FieldSet {
  let child = set.children.get(step);
  if (!child) {
    child = emptySet();
    set.children.set(step, child);
  }
  return child;
}

type FieldsV1 = { [step: string]: FieldsV1 };

/** Maximum depth of a field path. No object of the platform is nested deeper. */
const DEEPEST = 200;

export function parseFields(fields: unknown, depth = 0): FieldSet {
  if (typeof fields !== 'object' || fields === null || depth > DEEPEST) throw new Error('fieldsV1 is malformed');
  const entries = Object.entries(fields);
  const set: FieldSet = { member: entries.length === 0 && depth > 0, children: new Map() };
  for (const [step, child] of entries) {
    if (step === '.') set.member = true;
    else set.children.set(step, parseFields(child, depth + 1));
  }
  return set;
}

export function formatFields(set: FieldSet): FieldsV1 {
  const fields: FieldsV1 = {};
  if (set.member && set.children.size > 0) fields['.'] = {};
  for (const step of [...set.children.keys()].sort()) {
    const child = set.children.get(step);
    if (child) fields[step] = formatFields(child);
  }
  return fields;
}

interface Combination {
  member(inA: boolean, inB: boolean): boolean;
  /** True if the result has the fields that only one of the sets has. */
  keepsA: boolean;
  keepsB: boolean;
}

/** Combines two sets. The result may share parts with them. Empty parts are left out. */
function combine(a: FieldSet, b: FieldSet, of: Combination): FieldSet {
  const result: FieldSet = { member: of.member(a.member, b.member), children: new Map() };
  for (const [step, child] of a.children) {
    const other = b.children.get(step);
    if (!other && !of.keepsA) continue;
    const made = other ? combine(child, other, of) : child;
    if (!isEmpty(made)) result.children.set(step, made);
  }
  if (!of.keepsB) return result;
  for (const [step, child] of b.children) if (!a.children.has(step)) result.children.set(step, child);
  return result;
}

const UNION: Combination = { member: (inA, inB) => inA || inB, keepsA: true, keepsB: true };
const DIFFERENCE: Combination = { member: (inA, inB) => inA && !inB, keepsA: true, keepsB: false };
const INTERSECTION: Combination = { member: (inA, inB) => inA && inB, keepsA: false, keepsB: false };

export const union = (a: FieldSet, b: FieldSet) => combine(a, b, UNION);
export const difference = (a: FieldSet, b: FieldSet) => combine(a, b, DIFFERENCE);
export const intersection = (a: FieldSet, b: FieldSet) => combine(a, b, INTERSECTION);

export function sameSet(a: FieldSet, b: FieldSet): boolean {
  if (a.member !== b.member || a.children.size !== b.children.size) return false;
  for (const [step, child] of a.children) {
    const other = b.children.get(step);
    if (!other || !sameSet(child, other)) return false;
  }
  return true;
}

/**
 * Returns each member's path for people, such as `.spec.ports[name="http"].port`, in the real server's order: members
 * first.
 */
export function paths(set: FieldSet, at = ''): string[] {
  const children = [...set.children]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([step, child]) => ({ path: at + printStep(step), child }));
  return [
    ...children.filter(({ child }) => child.member).map(({ path }) => path),
    ...children.flatMap(({ path, child }) => paths(child, path)),
  ];
}

function printStep(step: string): string {
  const value = step.slice(2);
  if (step.startsWith('f:')) return `.${value}`;
  if (step.startsWith('v:')) return `[=${value}]`;
  const keys = Object.entries(parseJson(value) as Record<string, unknown>);
  return `[${keys.map(([key, inner]) => `${key}=${JSON.stringify(inner)}`).join(',')}]`;
}
