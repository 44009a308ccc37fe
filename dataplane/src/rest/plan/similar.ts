/** The name that was probably meant, for hints: the one with the least edits in proportion to its length. */

/** Beyond these a comparison costs more than a hint is worth. */
const MAX_LENGTH = 63;
const MAX_NAMES = 1000;

export function closest(name: string, candidates: readonly string[], least: number): string | undefined {
  if (name.length > MAX_LENGTH) return undefined;
  let best: { score: number; candidate: string } | undefined;
  for (const candidate of candidates.slice(0, MAX_NAMES)) {
    const score = 1 - edits(name, candidate) / Math.max(name.length, candidate.length, 1);
    if (score >= least && score > (best?.score ?? 0)) best = { score, candidate };
  }
  return best?.candidate;
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
