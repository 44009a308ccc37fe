/**
 * Parses the files `_redirects` and `_headers` of an output. In: their text, which a tenant wrote. Out: rules for the
 * manifest, and a warning for each line that is left out. An invalid rule is left out as a whole.
 */
import { validateHeaderName, validateHeaderValue } from 'node:http';

export interface RedirectRule {
  /** A decoded path without a trailing slash. Segments may be `:name`, and the last one may be `*`. */
  from: string;
  /** A path of the site, or the URL of a redirect. May contain `:splat` and the `:name` placeholders of `from`. */
  to: string;
  status: 200 | 301 | 302 | 303 | 307 | 308 | 404;
  /** The rule applies even if a file has the path. */
  force?: true;
}

export interface HeaderRule {
  /** A decoded path with one `*`, or with `:name` segments. */
  path: string;
  set: [name: string, value: string][];
  /** Lower-case names of headers to remove, which earlier rules have set. */
  unset: string[];
}

export interface Rules<T> {
  rules: T[];
  /** Warnings for the build's log. */
  warnings: string[];
}

const LIMITS = { fixed: 2000, dynamic: 100, headerRules: 100, characters: 2000, warnings: 20 };
/** Maximum bytes of a file of rules. A larger file is left out. */
export const MOST_RULES_BYTES = 1024 * 1024;

const STATUSES: readonly number[] = [200, 301, 302, 303, 307, 308, 404] satisfies RedirectRule['status'][];

export function parseRedirects(text: string): Rules<RedirectRule> {
  const warnings = new Warnings('_redirects');
  const rules: RedirectRule[] = [];
  const counts = { fixed: 0, dynamic: 0 };
  for (const [number, line] of linesOf(text)) {
    const rule = redirectOf(line);
    if (typeof rule === 'string') {
      warnings.add(number, rule);
      continue;
    }
    const kind = isDynamic(rule.from) ? 'dynamic' : 'fixed';
    if (counts[kind] === LIMITS[kind]) warnings.add(number, `there are more than ${LIMITS[kind]} ${kind} rules`);
    else {
      counts[kind] += 1;
      rules.push(rule);
    }
  }
  return { rules, warnings: warnings.sentences };
}

/** Returns the rule of a line, or the reason why the line is invalid. */
function redirectOf(line: string): RedirectRule | string {
  if (line.length > LIMITS.characters) return `a rule has at most ${LIMITS.characters} characters`;
  const words = line.split(/\s+/);
  const comment = words.findIndex((word) => word.startsWith('#'));
  const [from = '', to = '', code = '301', ...conditions] = comment === -1 ? words : words.slice(0, comment);
  const path = pathOf(from);
  if (path === undefined) return 'the first part must be a path, such as /old';
  if (!isPattern(path)) return 'a * can only be the last part of a path, as in /old/*';
  if (to !== '' && !/^(\/|https?:\/\/)/i.test(to))
    return 'the second part must be a path or a URL: parameters are not matched';
  if (conditions.length > 0) return 'rules with conditions are not supported';
  const status = Number(code.replace(/!$/, ''));
  if (!STATUSES.includes(status)) return `the status must be one of ${STATUSES.join(', ')}`;
  const target = targetOf(to, status >= 300 && status < 400);
  if (target === undefined) {
    return 'the second part must be a path of the site, or a URL if the status is 3xx';
  }
  return {
    from: path,
    to: target,
    status: status as RedirectRule['status'],
    ...(code.endsWith('!') && { force: true }),
  };
}

const isDynamic = (pattern: string) => pattern.endsWith('/*') || pattern.split('/').some(isPlaceholder);
/** True for a segment that matches any other, such as `:name`. */
export const isPlaceholder = (segment: string) => /^:[A-Za-z_]\w*$/.test(segment);
const isPattern = (path: string) => !path.slice(0, -1).includes('*') && (!path.endsWith('*') || path.endsWith('/*'));

/** Returns the decoded path without its trailing slash, or undefined if `text` is not a path. */
function pathOf(text: string): string | undefined {
  if (!text.startsWith('/') || text.startsWith('//')) return undefined;
  try {
    const path = decodeURIComponent(text);
    return path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
  } catch {
    return undefined;
  }
}

/** A placeholder for the site's own origin, which the rules don't know. */
const SITE = 'http://site.invalid';

/**
 * Returns the target in ASCII. Returns undefined if the target is outside of the site and `mayLeave` is false, or if
 * its host has a placeholder.
 */
function targetOf(to: string, mayLeave: boolean): string | undefined {
  const isPath = to.startsWith('/');
  if (!isPath && (!mayLeave || /^https?:\/\/[^/?#]*(@|:[A-Za-z_])/i.test(to))) return undefined;
  if (to === '' || !URL.canParse(to, SITE)) return undefined;
  const { origin, href } = new URL(to, SITE);
  if (!isPath) return href;
  return origin === SITE ? href.slice(SITE.length) : undefined;
}

/**
 * Headers that rules can't set: those that describe the message or the connection, and those that the server sets
 * itself.
 */
const NOT_SETTABLE = new Set([
  ...[
    'connection',
    'keep-alive',
    'proxy-authenticate',
    'proxy-connection',
    'proxy-status',
    'te',
    'trailer',
    'transfer-encoding',
  ],
  ...['upgrade', 'content-length', 'content-encoding', 'content-range', 'accept-ranges', 'age', 'date', 'vary'],
  ...['etag', 'last-modified', 'location', 'x-content-type-options', 'x-request-id'],
]);

export function parseHeaders(text: string): Rules<HeaderRule> {
  const warnings = new Warnings('_headers');
  const rules: HeaderRule[] = [];
  let rule: HeaderRule | undefined;
  let characters = 0;
  for (const [number, line, isIndented] of linesOf(text)) {
    if (!isIndented) {
      const problem = problemOfPath(line, rules.length);
      if (problem) warnings.add(number, problem);
      rule = problem ? undefined : { path: pathOf(line) as string, set: [], unset: [] };
      if (rule) rules.push(rule);
      characters = line.length;
      continue;
    }
    // The path of these lines was left out, with a warning.
    if (!rule) continue;
    characters += line.length;
    const problem =
      characters > LIMITS.characters ? `a rule has at most ${LIMITS.characters} characters` : add(rule, line);
    if (problem) warnings.add(number, problem);
  }
  return { rules, warnings: warnings.sentences };
}

function problemOfPath(line: string, count: number): string | undefined {
  const path = line.length <= LIMITS.characters ? pathOf(line) : undefined;
  if (path === undefined) return 'a line that is not indented must be a path, such as /assets/*';
  const stars = path.split('*').length - 1;
  if (stars > 1 || (stars === 1 && path.split('/').some(isPlaceholder))) {
    return 'a path can have one * or placeholders such as :name, not both';
  }
  return count === LIMITS.headerRules ? `there are more than ${LIMITS.headerRules} rules` : undefined;
}

/** Adds the header of the line. Returns the reason if the line is invalid. */
function add(rule: HeaderRule, line: string): string | undefined {
  if (line.startsWith('!')) {
    rule.unset.push(line.slice(1).trim().toLowerCase());
    return undefined;
  }
  const colon = line.indexOf(':');
  const [name, value] = [line.slice(0, Math.max(colon, 0)).trim(), line.slice(colon + 1).trim()];
  if (NOT_SETTABLE.has(name.toLowerCase())) return `the header ${name} can't be set by a site`;
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  } catch {
    return 'an indented line must be like `Name: value`';
  }
  rule.set.push([name, value]);
  return undefined;
}

/** Yields the lines with their numbers. Skips blank lines and comments. */
function* linesOf(text: string): Iterable<[number: number, line: string, isIndented: boolean]> {
  let number = 0;
  for (const line of text.replace(/^\ufeff/, '').split(/\r?\n/)) {
    number += 1;
    const trimmed = line.trim();
    if (trimmed !== '' && !trimmed.startsWith('#')) yield [number, trimmed, /^\s/.test(line)];
  }
}

class Warnings {
  readonly #sentences: string[] = [];
  #more = 0;

  constructor(private readonly file: string) {}

  add(line: number, problem: string): void {
    if (this.#sentences.length < LIMITS.warnings) this.#sentences.push(`${this.file}, line ${line}: ${problem}`);
    else this.#more += 1;
  }

  get sentences(): string[] {
    return this.#more === 0
      ? this.#sentences
      : [...this.#sentences, `${this.file}: ${this.#more} more lines are left out`];
  }
}
