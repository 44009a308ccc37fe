/**
 * Matches paths with the redirect rules of a deployment. In: the rules, and decoded paths. Out: the first matching
 * rule, with its target filled in. Pure. Each rule with `*` or `:name` costs one comparison.
 */
import { isPlaceholder, type RedirectRule } from '@slipway/sites';
import { encodedPath } from './encoding.js';

export interface Match {
  rule: RedirectRule;
  /** Path of the site, with a query if the rule has one, or the URL of a redirect. ASCII only. */
  target: string;
}

type Numbered = RedirectRule & { at: number };
type Dynamic = Numbered & { segments: string[] };

export class Redirects {
  readonly #fixed = new Map<string, Numbered>();
  readonly #dynamic: Dynamic[] = [];

  constructor(rules: readonly RedirectRule[]) {
    for (const [at, rule] of rules.entries()) {
      const segments = rule.from.split('/');
      if (segments.some((each) => each === '*' || isPlaceholder(each))) this.#dynamic.push({ ...rule, at, segments });
      else if (!this.#fixed.has(rule.from)) this.#fixed.set(rule.from, { ...rule, at });
    }
  }

  /** Finds the first matching rule. `path` is decoded, without its leading slash; a trailing slash is ignored. */
  find(path: string): Match | undefined {
    if (this.#fixed.size === 0 && this.#dynamic.length === 0) return undefined;
    const from = `/${path.endsWith('/') ? path.slice(0, -1) : path}`;
    const fixed = this.#fixed.get(from);
    const segments = from.split('/');
    for (const rule of this.#dynamic) {
      if (fixed && fixed.at < rule.at) break;
      const values = valuesOf(rule.segments, segments);
      if (values) return { rule, target: filled(rule.to, values) };
    }
    return fixed && { rule: fixed, target: fixed.to };
  }
}

/** Returns the values of the placeholders; undefined if the path does not match. */
function valuesOf(pattern: readonly string[], path: readonly string[]): Map<string, string> | undefined {
  const hasSplat = pattern.at(-1) === '*';
  const least = hasSplat ? pattern.length - 1 : pattern.length;
  if (path.length < least || (!hasSplat && path.length > least)) return undefined;
  const values = new Map<string, string>();
  for (let at = 0; at < least; at += 1) {
    const [wanted, part] = [pattern[at] as string, path[at] as string];
    if (part !== '' && isPlaceholder(wanted)) values.set(wanted.slice(1), part);
    else if (wanted !== part) return undefined;
  }
  if (hasSplat) values.set('splat', path.slice(least).join('/'));
  return values;
}

/** A value can neither end the path of the target nor begin a host. */
function filled(to: string, values: ReadonlyMap<string, string>): string {
  const target = to.replace(/:([A-Za-z_]\w*)/g, (placeholder, name: string) => {
    const value = values.get(name);
    return value === undefined ? placeholder : encodedPath(value);
  });
  return target.startsWith('/') ? target.replace(/^\/+/, '/') : target;
}
