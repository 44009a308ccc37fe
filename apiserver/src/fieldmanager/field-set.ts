/**
 * A set of fields as a tree, in the form of `fieldsV1` (sigs.k8s.io/structured-merge-diff): each step of a path is
 * `f:<name>`, `k:{"key":"value"}` for an item of a keyed list, or `v:<value>` for one of a set.
 */
export interface FieldSet {
  /** Whether the place itself is in the set, apart from what is below it. */
  member: boolean;
  children: Map<string, FieldSet>;
}

export const emptySet = (): FieldSet => ({ member: false, children: new Map() });

export const isEmpty = (set: FieldSet): boolean => !set.member && set.children.size === 0;

/** The child at `step`, made if it isn't there. */
export function childOf(set: FieldSet, step: string): FieldSet {
  let child = set.children.get(step);
  if (!child) {
    child = emptySet();
    set.children.set(step, child);
  }
  return child;
}

type FieldsV1 = { [step: string]: FieldsV1 };

/** Steps nested deeper than this are no object of ours. */
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

/** Builds a set place by place from two others; what ends up empty is left out. */
function combine(
  a: FieldSet | undefined,
  b: FieldSet | undefined,
  member: (inA: boolean, inB: boolean) => boolean,
): FieldSet {
  const result: FieldSet = { member: member(a?.member ?? false, b?.member ?? false), children: new Map() };
  for (const step of new Set([...(a?.children.keys() ?? []), ...(b?.children.keys() ?? [])])) {
    const child = combine(a?.children.get(step), b?.children.get(step), member);
    if (!isEmpty(child)) result.children.set(step, child);
  }
  return result;
}

export const union = (a: FieldSet, b: FieldSet) => combine(a, b, (inA, inB) => inA || inB);
export const difference = (a: FieldSet, b: FieldSet) => combine(a, b, (inA, inB) => inA && !inB);
export const intersection = (a: FieldSet, b: FieldSet) => combine(a, b, (inA, inB) => inA && inB);

export function sameSet(a: FieldSet, b: FieldSet): boolean {
  if (a.member !== b.member || a.children.size !== b.children.size) return false;
  for (const [step, child] of a.children) {
    const other = b.children.get(step);
    if (!other || !sameSet(child, other)) return false;
  }
  return true;
}

/** Each member's path as people read it, `.spec.ports[name="http"].port`, in the real server's order: members first. */
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
  const keys = Object.entries(JSON.parse(value) as Record<string, unknown>);
  return `[${keys.map(([key, inner]) => `${key}=${JSON.stringify(inner)}`).join(',')}]`;
}
