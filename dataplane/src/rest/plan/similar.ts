/**
 * The name that was probably meant, for hints. As PostgREST finds it: among the names that share a run of three letters
 * with what was asked for, or else of two, the one with the fewest edits in proportion to its length.
 */

/** Beyond these a comparison costs more than a hint is worth. */
const MAX_LENGTH = 63;
const MAX_NAMES = 1000;

/**
 * `least`: how alike they must be, of 1 for the name itself. PostgREST wants 0.75 of tables and functions, 0.33 of all
 * else.
 */
export function closest(name: string, candidates: readonly string[], least: number): string | undefined {
  if (name.length > MAX_LENGTH) return undefined;
  const known = candidates.slice(0, MAX_NAMES);
  return best(name, known, least, 3) ?? best(name, known, least, 2);
}

function best(name: string, candidates: readonly string[], least: number, letters: number): string | undefined {
  const own = runsOf(name, letters);
  let found: { score: number; candidate: string } | undefined;
  for (const candidate of candidates) {
    const runs = runsOf(candidate, letters);
    if (!own.some((run) => runs.includes(run))) continue;
    const [one, other] = [name.toLowerCase(), candidate.toLowerCase()];
    const score = 1 - edits(one, other) / Math.max(one.length, other.length, 1);
    if (score >= least && score > (found?.score ?? 0)) found = { score, candidate };
  }
  return found?.candidate;
}

/** Returns the runs of letters, digits, commas and spaces; a dash stands for either end. */
function runsOf(name: string, letters: number): string[] {
  const text = `-${name.toLowerCase().replaceAll(/[^\p{L}\p{N}, ]/gu, '')}-`;
  return Array.from({ length: Math.max(1, text.length - letters + 1) }, (_, at) => text.slice(at, at + letters));
}
function edits(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = (row[j - 1] as number) + (one[i - 1] === other[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] as number) + 1, (next[j - 1] as number) + 1));
    }
    row = next;
  }
  return row[other.length] as number;
}
