/**
 * Parses the code blocks of the README, in order, each with its mark. The mark says whether a reader runs the block. It
 * is an HTML comment above the block, which a renderer hides. In: Markdown. Out: blocks. Used by the test on a fresh
 * machine.
 */

/** A block is run to its end, or left running once it is ready, or not run here. */
export type Mark = { kind: 'run' } | { kind: 'background'; ready: string } | { kind: 'not here' };

export interface Block {
  mark: Mark;
  /** The word after the fence: `sh` or `yaml`. */
  language: string;
  /** The line number of the fence, from 1. */
  line: number;
  code: string;
}

/** Language of blocks that show output. */
const SHOWN = 'text';

const FENCE = /^```(\S*)\s*$/;
const MARK = /^<!-- block: (run|not here|background, ready at "([^"]+)") -->$/;

/** Returns the code blocks, and the text of blocks that show output. Throws for a block without a mark. */
export function blocksOf(markdown: string): { blocks: Block[]; shown: string[] } {
  const lines = markdown.split('\n');
  const blocks: Block[] = [];
  const shown: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const language = FENCE.exec(lines[at] as string)?.[1];
    if (language === undefined) continue;
    const end = lines.indexOf('```', at + 1);
    if (end === -1) throw new Error(`line ${at + 1}: the code block has no end`);
    const code = lines.slice(at + 1, end).join('\n');
    if (language === SHOWN) shown.push(code);
    else blocks.push({ mark: markOf(lines[at - 1] ?? '', at + 1), language, line: at + 1, code });
    at = end;
  }
  return { blocks, shown };
}

function markOf(line: string, at: number): Mark {
  const [, words, ready] = MARK.exec(line) ?? [];
  if (words === undefined) {
    throw new Error(`line ${at}: the code block has no mark above it, such as <!-- block: run -->`);
  }
  if (ready !== undefined) return { kind: 'background', ready };
  return words === 'run' ? { kind: 'run' } : { kind: 'not here' };
}
