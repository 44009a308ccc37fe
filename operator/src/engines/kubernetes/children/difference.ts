/**
 * How far a live object is from what was asked of it: pure. In: what is wanted and what is there. Out: the merge patch
 * that makes the one of the other, or undefined. The API server fills in what nobody asked for, and others may add
 * their own, so a map of ours is in a map of theirs; a list has exactly our items. Where all is ours (`exact`), nothing
 * may be beside it; elsewhere nothing that is `forbidden`.
 */
type Json = Record<string, unknown>;

/** One more key in fields that choose means something else; in the others nothing is filled in. */
const WHOLE = new Set([
  ...['selector', 'matchLabels', 'podSelector', 'namespaceSelector'],
  ...['resources', 'lifecycle', 'httpGet', 'securityContext', 'valueFrom', 'secretRef', 'emptyDir'],
]);
/** Fields that hold quantities, of which `1` and `1000m` are the same. */
const QUANTITIES = new Set(['limits', 'requests', 'hard', 'default', 'defaultRequest', 'max', 'min']);

export interface Strictness {
  exact: boolean;
  filled: readonly string[];
  /** Fields at any depth that are there only if somebody says so, and are not to be unless we do. */
  forbidden: ReadonlySet<string>;
}

/** How a map is held against ours. */
interface Strict {
  exact: boolean;
  forbidden: ReadonlySet<string>;
}
const NONE: ReadonlySet<string> = new Set();

/**
 * Compares an object with its specification. In `metadata` only our labels and annotations count; the strictness is for
 * the rest.
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

/** `live` but for what the API server filled in. */
function without(live: unknown, wanted: unknown, filled: readonly string[]): unknown {
  if (filled.length === 0 || !isMap(live) || !isMap(wanted)) return live;
  return Object.fromEntries(Object.entries(live).filter(([name]) => name in wanted || !filled.includes(name)));
}

const SAME = Symbol('same');

function compare(field: string, wanted: unknown, live: unknown, strict: Strict, quantities: boolean): unknown {
  if (Array.isArray(wanted)) return sameList(wanted, live, strict) ? SAME : wanted;
  if (isMap(wanted) && isMap(live)) {
    // An empty map of ours is meant: in a selector it is all there is.
    const exact = strict.exact || WHOLE.has(field) || Object.keys(wanted).length === 0;
    // Of the marks of a template ours are those that we name.
    const forbidden = field === 'metadata' ? NONE : strict.forbidden;
    return compareMaps(wanted, live, { exact, forbidden }, QUANTITIES.has(field)) ?? SAME;
  }
  if (wanted === live) return SAME;
  // The API server leaves out what is empty.
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
  // In thousandths, so that what a fraction can't hold exactly is still the same.
  return digits === undefined || scale === undefined ? undefined : Math.round(Number(digits) * scale * 1000);
}
