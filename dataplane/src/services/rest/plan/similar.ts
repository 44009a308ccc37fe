/**
 * Finds the name that the caller probably intended, for hints, as PostgREST does. Among the names that share a run of
 * three letters with the requested one, or else of two letters, it is the name with the fewest edits in proportion to
 * its length.
 */

/** Maximum length of a name that is compared. Longer names cost more than a hint is worth. */
const MAX_LENGTH = 63;
const MAX_NAMES = 1000;
/**
 * Maximum number of compared pairs of letters: 125 names of maximum length, or 1,000 names of 22 letters. They take 5
 * ms.
 */
const MOST_PAIRS = 500_000;

/** `least` is the minimum similarity, from 0 to 1. PostgREST uses 0.75 for tables and functions, 0.33 for others. */
export function closest(name: string, candidates: readonly string[], least: number): string | undefined {
  if (name.length > MAX_LENGTH) return undefined;
  const known = candidates.slice(0, MAX_NAMES).filter((candidate) => mostAlike(name, candidate) >= least);
  return best(name, known, least, 3) ?? best(name, known, least, 2);
}

/** Upper bound of the score for names of these lengths. */
const mostAlike = (one: string, other: string) => Math.min(one.length, other.length) / longer(one, other);

const longer = (one: string, other: string) => Math.max(one.length, other.length, 1);

function best(name: string, candidates: readonly string[], least: number, letters: number): string | undefined {
  const own = runsOf(lettersOf(name), letters);
  let best: { score: number; candidate: string } | undefined;
  let pairs = 0;
  for (const candidate of candidates) {
    const text = lettersOf(candidate);
    if (!own.some((run) => text.includes(run))) continue;
    pairs += name.length * candidate.length;
    if (pairs > MOST_PAIRS) break;
    const score = 1 - edits(name.toLowerCase(), candidate.toLowerCase()) / longer(name, candidate);
    if (score >= least && score > (best?.score ?? 0)) best = { score, candidate };
  }
  return best?.candidate;
}

/** Returns the letters, digits, commas and spaces; a dash marks either end. */
const lettersOf = (name: string) => `-${name.toLowerCase().replaceAll(/[^\p{L}\p{N}, ]/gu, '')}-`;

const runsOf = (text: string, letters: number): string[] =>
  Array.from({ length: Math.max(1, text.length - letters + 1) }, (_, at) => text.slice(at, at + letters));

/** Returns the Levenshtein distance. */
function edits(one: string, other: string): number {
  let row = Uint16Array.from({ length: other.length + 1 }, (_, i) => i);
  let next = new Uint16Array(other.length + 1);
  for (let i = 1; i <= one.length; i++) {
    next[0] = i;
    const code = one.charCodeAt(i - 1);
    for (let j = 1; j <= other.length; j++) {
      const replaced = (row[j - 1] as number) + (code === other.charCodeAt(j - 1) ? 0 : 1);
      next[j] = Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1);
    }
    [row, next] = [next, row];
  }
  return row[other.length] as number;
}
