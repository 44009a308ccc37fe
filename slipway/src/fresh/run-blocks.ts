/**
 * Runs the code blocks of a page in a terminal, in order, as a reader pastes them. In: a terminal, blocks and their
 * expected outputs. Out: what the blocks that run on have printed, or an error that names the broken block. Used by the
 * test on a fresh machine.
 */
import * as assert from 'uvu/assert';
import type { Block } from './readme-blocks.js';
import type { Terminal } from './terminal.js';

/** The output of a block, by a phrase of its code. The first pass has the number 1. */
export type Expectation = readonly [phrase: string, output: (pass: number) => RegExp];

export interface Page {
  /** Path of the page, for errors. */
  page: string;
  blocks: readonly Block[];
  expected: readonly Expectation[];
}

/** Returns the outputs of the blocks in the background. Rejects at the first block that fails or is unexpected. */
export async function runBlocks(terminal: Terminal, { page, blocks, expected }: Page, pass: number): Promise<string[]> {
  const started: string[] = [];
  for (const { mark, code, line } of blocks) {
    const name = `the block at line ${line} of ${page}, pass ${pass}`;
    if (mark.kind === 'not here') continue;
    if (mark.kind === 'background') {
      started.push(await terminal.runInBackground(code, mark.ready));
      continue;
    }
    const [, output] = expected.find(([phrase]) => code.includes(phrase)) ?? [];
    assert.ok(output, `the expected output of ${name} is missing`);
    const ran = await terminal.run(code);
    assert.is(ran.status, 0, `${name}, ended with status ${ran.status}:\n${ran.output}`);
    assert.match(ran.output, output(pass), `${name}:\n${ran.output}`);
  }
  return started;
}
