/** Tests that a broken block of a small README fails the check, without a platform. */
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'uvu';
import * as assert from 'uvu/assert';
import { blocksOf } from './readme-blocks.js';
import { type Expectation, runBlocks } from './run-blocks.js';
import { Terminal } from './terminal.js';

const RUN = '<!-- block: run -->';
const BACKGROUND = '<!-- block: background, ready at "is ready" -->';
const EXPECTED: Expectation[] = [
  ['hello', () => /^hello$/m],
  ['afterwards', () => /^$/],
];

/** Writes a README with a block that works, the given one, and one that leaves a file behind. Runs it. */
async function runReadme(mark: string, code: string) {
  const folder = await mkdtemp(path.join(tmpdir(), 'slipway-readme-'));
  const file = path.join(folder, 'README.md');
  const block = (...[above, text]: [string, string]) => `${above}\n\`\`\`sh\n${text}\n\`\`\`\n`;
  const parts = [block(RUN, 'GREETING=hello; echo $GREETING'), block(mark, code), block(RUN, 'touch afterwards')];
  await writeFile(file, parts.join('\n'));
  const shell = spawn('bash', ['--noprofile', '--norc'], { cwd: folder, stdio: ['pipe', 'pipe', 'pipe'] });
  const ended = new Promise((resolve) => shell.once('close', resolve));
  try {
    const { blocks } = blocksOf(await readFile(file, 'utf8'));
    const page = { page: 'README.md', blocks, expected: EXPECTED };
    const error = await runBlocks(new Terminal(shell), page, 1).then(
      () => undefined,
      (failure: Error) => failure.message,
    );
    return { error, wentOn: existsSync(path.join(folder, 'afterwards')) };
  } finally {
    shell.stdin.end();
    await ended;
    await rm(folder, { recursive: true, force: true });
  }
}

for (const [what, mark, code] of [
  ['with the expected output', RUN, 'echo $GREETING # hello'],
  ['in the background', BACKGROUND, 'echo it is ready; while kill -0 $$ 2>/dev/null; do sleep 0.05; done'],
  ['that is not run here', '<!-- block: not here -->', 'false'],
] as const) {
  test(`the check of the README passes for a block ${what}`, async () => {
    assert.equal(await runReadme(mark, code), { error: undefined, wentOn: true });
  });
}

for (const [what, mark, code, error] of [
  ['has another output', RUN, 'echo hullo # hello', /^the block at line 7 of README.md, pass 1:[\s\S]*hullo/],
  ['names a missing program', RUN, 'no-such-program hello', /line 7 of README.md[\s\S]*status 127[\s\S]*not found/],
  ['fails after the expected output', RUN, 'echo hello; false', /line 7 of README.md[\s\S]*status 1:\nhello/],
  ['is not shell', RUN, 'echo hello; if', /line 7 of README.md[\s\S]*syntax error/],
  ['ends the shell', RUN, 'echo hello; exit 0', /^the terminal ended/],
  ['has no expected output', RUN, 'echo', /^the expected output of the block at line 7 of README.md.* is missing/],
  ['ends before it is ready', BACKGROUND, 'echo broken', /^it ended before it was ready:[\s\S]*broken/],
] as const) {
  test(`the check of the README fails at a block that ${what}, and runs no later block`, async () => {
    const ran = await runReadme(mark, code);
    assert.match(ran.error ?? 'the check passed', error);
    assert.not(ran.wentOn);
  });
}

test.run();
