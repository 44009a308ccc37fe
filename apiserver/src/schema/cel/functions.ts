import type { Environment } from '@marcbachmann/cel-js';
import { RE2JS } from 're2js';
import { charge, chargeText } from './cost.js';

/**
 * Registers the functions of Kubernetes' CEL that the engine does not have: lists, regular expressions in linear time,
 * strings, sets, URLs. Called once, on the environment that all others are cloned from.
 */
export function registerFunctions(environment: Environment): void {
  registerExpressions(environment);
  registerStrings(environment);
  registerLists(environment);
  registerSets(environment);
  registerUrls(environment);
}

const EXPRESSIONS_KEPT = 500;
const expressions = new Map<string, RE2JS>();

/** Compiles a pattern. The cache is small, because a rule can compute patterns from data. */
function expressionOf(pattern: string): RE2JS {
  const known = expressions.get(pattern);
  if (known) return known;
  const compiled = RE2JS.compile(pattern);
  if (expressions.size >= EXPRESSIONS_KEPT) expressions.clear();
  expressions.set(pattern, compiled);
  return compiled;
}

/** Name of the function that replaces `matches`. The engine's own function uses a backtracking matcher. */
export const LINEAR_MATCHES = 'matchesInLinearTime';

function registerExpressions(environment: Environment): void {
  const matches = (text: string, pattern: string) => {
    chargeText(text);
    return expressionOf(pattern).test(text);
  };
  const findAll = (text: string, pattern: string, most = Number.POSITIVE_INFINITY) => {
    chargeText(text);
    const found: string[] = [];
    const matcher = expressionOf(pattern).matcher(text);
    while (found.length < most && matcher.find()) found.push(matcher.group() ?? '');
    return found;
  };
  environment
    .registerFunction(`string.${LINEAR_MATCHES}(string): bool`, matches)
    .registerFunction(`${LINEAR_MATCHES}(string, string): bool`, matches)
    .registerFunction(
      'string.find(string): string',
      (text: string, pattern: string) => findAll(text, pattern, 1)[0] ?? '',
    )
    .registerFunction('string.findAll(string): list<string>', (text: string, pattern: string) => findAll(text, pattern))
    .registerFunction('string.findAll(string, int): list<string>', (text: string, pattern: string, most: bigint) =>
      findAll(text, pattern, most < 0n ? undefined : Number(most)),
    );
}

function registerStrings(environment: Environment): void {
  const replace = (text: string, from: string, to: string, most?: bigint) => {
    chargeText(text);
    if (most === undefined || most < 0n) return bounded(text.replaceAll(from, () => to));
    let result = text;
    let start = 0;
    for (let times = 0n; times < most; times++) {
      const at = result.indexOf(from, start);
      if (at < 0) break;
      charge(1);
      result = bounded(result.slice(0, at) + to + result.slice(at + from.length));
      start = at + to.length + (from === '' ? 1 : 0);
    }
    return result;
  };
  environment
    .registerFunction('string.replace(string, string): string', (text: string, from: string, to: string) =>
      replace(text, from, to),
    )
    .registerFunction('string.replace(string, string, int): string', replace)
    .registerFunction('string.charAt(int): string', (text: string, index: bigint) => {
      if (index < 0n || index > BigInt(text.length)) throw new Error(`index out of range: ${index}`);
      return text.charAt(Number(index));
    })
    .registerFunction('string.reverse(): string', (text: string) => [...text].reverse().join(''));
}

function bounded(text: string): string {
  chargeText(text);
  return text;
}

type Ordered = string | number | bigint | boolean | Date | { valueOf(): number | bigint };

const isSorted = (list: readonly Ordered[]) =>
  list.every((item, index) => index === 0 || (list[index - 1] ?? item) <= item);

function extreme(name: string, wins: (a: Ordered, b: Ordered) => boolean) {
  return (list: readonly Ordered[]) => {
    const [first, ...rest] = list;
    if (first === undefined) throw new Error(`${name} called on empty list`);
    return rest.reduce((best, item) => (wins(item, best) ? item : best), first);
  };
}

function registerLists(environment: Environment): void {
  const min = extreme('min', (a, b) => a < b);
  const max = extreme('max', (a, b) => a > b);
  for (const type of ['int', 'double', 'string', 'bool', 'google.protobuf.Timestamp', 'google.protobuf.Duration']) {
    environment
      .registerFunction(`list<${type}>.isSorted(): bool`, isSorted)
      .registerFunction(`list<${type}>.min(): ${type}`, min)
      .registerFunction(`list<${type}>.max(): ${type}`, max);
  }
  environment
    .registerFunction('list<int>.sum(): int', (list: bigint[]) => list.reduce((sum, item) => sum + item, 0n))
    .registerFunction('list<double>.sum(): double', (list: number[]) => list.reduce((sum, item) => sum + item, 0));
  for (const type of ['int', 'double', 'string', 'bool']) {
    environment
      .registerFunction(`list<${type}>.indexOf(${type}): int`, (list: unknown[], item: unknown) => {
        charge(list.length);
        return BigInt(list.indexOf(item));
      })
      .registerFunction(`list<${type}>.lastIndexOf(${type}): int`, (list: unknown[], item: unknown) => {
        charge(list.length);
        return BigInt(list.lastIndexOf(item));
      });
  }
}

/** The receiver of `sets.contains(…)`, a namespace as in Google's extension library. */
class Sets {}

function registerSets(environment: Environment): void {
  const holds = (outer: unknown[], inner: unknown[]) => {
    charge(outer.length + inner.length);
    const known = new Set(outer);
    return inner.every((item) => known.has(item));
  };
  environment.registerType('Sets', Sets).registerConstant('sets', 'Sets', new Sets());
  for (const type of ['int', 'double', 'string', 'bool']) {
    const two = `list<${type}>, list<${type}>`;
    environment
      .registerFunction(`Sets.contains(${two}): bool`, (_: Sets, a: unknown[], b: unknown[]) => holds(a, b))
      .registerFunction(
        `Sets.equivalent(${two}): bool`,
        (_: Sets, a: unknown[], b: unknown[]) => holds(a, b) && holds(b, a),
      )
      .registerFunction(`Sets.intersects(${two}): bool`, (_: Sets, a: unknown[], b: unknown[]) => {
        charge(a.length + b.length);
        const known = new Set(a);
        return b.some((item) => known.has(item));
      });
  }
}

function registerUrls(environment: Environment): void {
  const parse = (text: string) => {
    chargeText(text);
    if (text.startsWith('/')) return URL.canParse(text, 'http://none') ? new URL(text, 'http://none') : undefined;
    return URL.canParse(text) ? new URL(text) : undefined;
  };
  const isAbsolute = (url: URL) => url.host !== 'none';
  environment
    .registerType('kubernetes.URL', URL)
    .registerFunction('isURL(string): bool', (text: string) => parse(text) !== undefined)
    .registerFunction('url(string): kubernetes.URL', (text: string) => {
      const url = parse(text);
      if (!url) throw new Error(`URL parse error during conversion from string: ${text}`);
      return url;
    })
    .registerFunction('kubernetes.URL.getScheme(): string', (url: URL) =>
      isAbsolute(url) ? url.protocol.slice(0, -1) : '',
    )
    .registerFunction('kubernetes.URL.getHost(): string', (url: URL) => (isAbsolute(url) ? url.host : ''))
    .registerFunction('kubernetes.URL.getHostname(): string', (url: URL) => (isAbsolute(url) ? url.hostname : ''))
    .registerFunction('kubernetes.URL.getPort(): string', (url: URL) => url.port)
    .registerFunction('kubernetes.URL.getEscapedPath(): string', (url: URL) => url.pathname);
}
