/**
 * Names of previews. A preview is a site at the host name `<name>.<projects' domain>`. In: the ref of a project, and a
 * branch. Out: a DNS label that is longer than any ref, so that it can't be equal to one.
 */
import { createHash } from 'node:crypto';

/** Minimum length of a preview's name: a ref has at most 39 characters, and a DNS label 63. */
const SHORTEST = 40;
const SHORTEST_DIGEST = 20;
const SEPARATOR = '--';
const DIGITS = 'abcdefghijklmnopqrstuvwxyz234567';
const NAME = /^[a-z2-7]{20,38}--([a-z0-9][a-z0-9-]*)$/;

/** Returns the preview's name. The digest comes first, because a name that began with a ref could begin with `xn--`. */
export function previewName(ref: string, branch: string): string {
  const length = Math.max(SHORTEST_DIGEST, SHORTEST - SEPARATOR.length - ref.length);
  return `${digest(`${ref} ${branch}`, length)}${SEPARATOR}${ref}`;
}

/** Returns the ref of the preview's project, or undefined if `name` is not the name of a preview. */
export function refOfPreview(name: string): string | undefined {
  return name.length < SHORTEST ? undefined : NAME.exec(name)?.[1];
}

/** Returns the ref of the project that the site belongs to. `site`: that ref, or the name of a preview. */
export const refOfSite = (site: string): string => refOfPreview(site) ?? site;

/** Returns `length` characters with five bits of SHA-256 each. `length` is at most 51. */
function digest(text: string, length: number): string {
  const bytes = createHash('sha256').update(text).digest();
  const bits = Array.from(bytes, (byte) => byte.toString(2).padStart(8, '0')).join('');
  return Array.from({ length }, (_, at) => DIGITS[Number.parseInt(bits.slice(at * 5, at * 5 + 5), 2)]).join('');
}
