/**
 * Adds the response headers that the owner of a site sets by path. In: the rules of a deployment, a path, and the
 * headers of a response. Out: the response's headers, with the owner's headers added. Pure. Publishing has removed
 * headers that a site may not set.
 */
import type { OutgoingHttpHeaders } from 'node:http';
import { type HeaderRule, isPlaceholder } from '@slipway/sites';

/** Maximum characters of the owner's headers in a response: clients reject more than 16 KiB of headers. */
const MOST_CHARACTERS = 8 * 1024;

/**
 * Applies the rules. `path` is decoded, without its leading slash. Values of one header from several rules are joined.
 */
export function applyHeaderRules(rules: readonly HeaderRule[], path: string, headers: OutgoingHttpHeaders): void {
  const set = new Map<string, [name: string, value: string]>();
  for (const rule of rules) {
    if (!matches(rule.path, `/${path}`)) continue;
    for (const name of rule.unset) set.delete(name);
    for (const [name, value] of rule.set) {
      const key = name.toLowerCase();
      const former = set.get(key);
      set.set(key, [name, former ? `${former[1]}, ${value}` : value]);
    }
  }
  let characters = 0;
  for (const [key, [name, value]] of set) {
    characters += name.length + value.length;
    if (characters > MOST_CHARACTERS) break;
    for (const own of Object.keys(headers)) if (own.toLowerCase() === key) delete headers[own];
    headers[name] = value;
  }
}

function matches(pattern: string, path: string): boolean {
  const star = pattern.indexOf('*');
  if (star !== -1) {
    const [before, after] = [pattern.slice(0, star), pattern.slice(star + 1)];
    return path.length >= before.length + after.length && path.startsWith(before) && path.endsWith(after);
  }
  const bare = path.length > 1 && path.endsWith('/') ? path.slice(0, -1) : path;
  if (!pattern.includes('/:')) return pattern === bare;
  const [wanted, parts] = [pattern.split('/'), bare.split('/')];
  return (
    wanted.length === parts.length &&
    wanted.every((each, at) => each === parts[at] || (parts[at] !== '' && isPlaceholder(each)))
  );
}
