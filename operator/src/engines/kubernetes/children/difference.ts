/**
 * The difference between a live object and the desired one: pure. In: both objects. Out: the merge patch that turns the
 * live one into the desired one. Undefined: they are equal.
 *
 * The API server fills in defaults, and others may add fields, so a live map may have more keys than ours. A list must
 * have exactly our items. In an `exact` object no other field is allowed. Elsewhere only `forbidden` fields are not.
 */
type Json = Record<string, unknown>;

/**
 * Fields that must have no additional keys. In selectors, one more key changes the meaning. In the other fields, the
 * API server adds no defaults.
 */
const WHOLE = new Set([
  ...['selector', 'matchLabels', 'podSelector', 'namespaceSelector'],
  ...['resources', 'lifecycle', 'httpGet', 'securityContext', 'valueFrom', 'secretRef', 'emptyDir'],
]);
/** Fields that contain quantities, in which `1` and `1000m` are equal. */
const QUANTITIES = new Set(['limits', 'requests', 'hard', 'default', 'defaultRequest', 'max', 'min']);

export interface Strictness {
  exact: boolean;
  filled: readonly string[];
  /** Fields, at any depth, that exist only if somebody sets them. They must not exist unless we set them. */
  forbidden: ReadonlySet<string>;
}

/** The strictness of the comparison of a map with ours. */
interface Strict {
  exact: boolean;
  forbidden: ReadonlySet<string>;
}
const NONE: ReadonlySet<string> = new Set();

/**
 * Compares an object with its specification. In `metadata` only our labels and annotations count. The strictness
 * applies to the rest.
 */
export function objectDifference(wanted: Json, live: Json, { exact, filled, forbidden }: Strictness): Json | undefined {
  const { apiVersion: _apiVersion, kind: _kind, metadata, ...rest } = wanted;
  const { name: _name, namespace: _namespace, ...marks } = metadata as Json;
  const patch: Json = {};
  const markPatch = compareMaps(marks, live.metadata as Json, { exact: false, forbidden: NONE }, false);
  if (markPatch) patch.metadata = markPatch;
  for (const [field, value] of Object.entries(rest)) {
    const fieldPatch = compare(field, value, without(live[field], value, filled), { exact, forbidden }, false);
    if (fieldPatch !== SAME) patch[field] = fieldPatch;
  }
  return Object.keys(patch).length > 0 ? patch : undefined;
}

/** Returns `live` without the fields that the API server filled in. */
function without(live: unknown, wanted: unknown, filled: readonly string[]): unknown {
  if (filled.length === 0 || !isMap(live) || !isMap(wanted)) return live;
  return Object.fromEntries(Object.entries(live).filter(([name]) => name in wanted || !filled.includes(name)));
}

const SAME = Symbol('same');

function compare(field: string, wanted: unknown, live: unknown, strict: Strict, quantities: boolean): unknown {
  if (Array.isArray(wanted)) return sameList(wanted, live, strict) ? SAME : wanted;
  if (isMap(wanted) && isMap(live)) {
    // An empty map of ours is meant to be empty: in a selector it selects everything.
    const exact = strict.exact || WHOLE.has(field) || Object.keys(wanted).length === 0;
    // Only the labels and annotations that we set in a template are ours.
    const forbidden = field === 'metadata' ? NONE : strict.forbidden;
    return compareMaps(wanted, live, { exact, forbidden }, QUANTITIES.has(field)) ?? SAME;
  }
  if (wanted === live) return SAME;
  // The API server leaves out empty maps.
  if (live === undefined && isMap(wanted) && Object.keys(wanted).length === 0) return SAME;
  return quantities && sameQuantity(wanted, live) ? SAME : wanted;
}

function compareMaps(wanted: Json, live: Json, strict: Strict, quantities: boolean): Json | undefined {
  const patch: Json = {};
  for (const [key, value] of Object.entries(wanted)) {
    const inner = compare(key, value, live[key], strict, quantities);
    if (inner !== SAME) patch[key] = inner;
  }
  for (const key of Object.keys(live)) {
    if (!(key in wanted) && (strict.exact || strict.forbidden.has(key))) patch[key] = null;
  }
  return Object.keys(patch).length > 0 ? patch : undefined;
}

function sameList(wanted: unknown[], live: unknown, strict: Strict): boolean {
  if (live === undefined) return wanted.length === 0;
  if (!Array.isArray(live) || live.length !== wanted.length) return false;
  return wanted.every((item, index) => compare('', item, live[index], strict, false) === SAME);
}

const isMap = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value);

const SCALES: Readonly<Record<string, number>> = {
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
};

function sameQuantity(a: unknown, b: unknown): boolean {
  const [first, second] = [amountOf(a), amountOf(b)];
  return first !== undefined && first === second;
}

function amountOf(quantity: unknown): number | undefined {
  const [, digits, unit] = String(quantity).match(/^(\d+(?:\.\d+)?)([a-zA-Z]*)$/) ?? [];
  const scale = SCALES[unit ?? ''];
  // In thousandths, so that fractions with a rounding error are still equal.
  return digits === undefined || scale === undefined ? undefined : Math.round(Number(digits) * scale * 1000);
}
