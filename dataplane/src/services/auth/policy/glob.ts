/**
 * Matches upstream's globs: `*` and `?` stop at `.` and `/`, `**` matches all characters, `{a,b}` matches either text.
 * Matching takes time proportional to glob length times URL length, because callers choose the URL: each part of the
 * glob is applied to all positions that the parts before it can reach.
 */

export type Matcher = (text: string) => boolean;

/**
 * Returns the positions after this part of the glob. In: the reachable positions, one for each character and one for
 * the end, and the text.
 */
type Part = (from: Uint8Array, text: string) => Uint8Array;

const isSeparator = (character: string | undefined) => character === '.' || character === '/';

const anything: Part = (from) => new Uint8Array(from.length).fill(1, from.indexOf(1));

const run: Part = (from, text) => {
  const to = Uint8Array.from(from);
  for (let at = 1; at < to.length; at++) if (to[at - 1] && !isSeparator(text[at - 1])) to[at] = 1;
  return to;
};

const one: Part = (from, text) => {
  const to = new Uint8Array(from.length);
  for (let at = 1; at < to.length; at++) if (from[at - 1] && !isSeparator(text[at - 1])) to[at] = 1;
  return to;
};

const either =
  (options: readonly string[]): Part =>
  (from, text) => {
    const to = new Uint8Array(from.length);
    for (let at = from.indexOf(1); at >= 0; at = from.indexOf(1, at + 1)) {
      for (const option of options) if (text.startsWith(option, at)) to[at + option.length] = 1;
    }
    return to;
  };

function partOf(token: string): Part {
  if (token === '**') return anything;
  if (token === '*') return run;
  if (token === '?') return one;
  return either(/^\{[^{}]*\}$/.test(token) ? token.slice(1, -1).split(',') : [token]);
}

export function globMatcher(glob: string): Matcher {
  const parts = (glob.match(/\*\*|\*|\?|\{[^{}]*\}|[{}]|[^*?{}]+/g) ?? []).map(partOf);
  return (text) => {
    let reached: Uint8Array = new Uint8Array(text.length + 1);
    reached[0] = 1;
    for (const part of parts) {
      reached = part(reached, text);
      if (!reached.includes(1)) return false;
    }
    return reached[text.length] === 1;
  };
}
