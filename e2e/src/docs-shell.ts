/**
 * Runs the shell blocks of a page that are marked `run`, as a reader pastes them: all in one bash, and twice unless the
 * page says otherwise. In: a page and a platform. Out: the output of each block, compared with the expected one. The
 * tests of the docs' commands use it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import * as assert from 'uvu/assert';
import { ROOT } from './cluster/find.js';
import type { RunningPlatform } from './platform.js';

const README = 'README.md';
const PATIENCE_MS = 300_000;
const SEPARATOR = '\u0001';

export interface Page {
  page: string;
  /** True if the page says to start with the README's first commands. */
  needsReadme?: true;
  /** The expected output of each block, in order. */
  blocks: RegExp[];
  /** The number of blocks that run, on a machine without the programs of the others. Default: all. */
  only?: number;
  /** How often the blocks run. Default: twice. */
  passes?: number;
  /** Placeholders with the values that a reader would insert. */
  replace?: readonly [placeholder: string, value: string][];
  environment?: Record<string, string>;
}

/** Returns the shell blocks of a page that have this mark. */
export function commandsOf(page: string, mark = 'run'): string[] {
  const markdown = readFileSync(path.join(ROOT, page), 'utf8');
  const block = new RegExp(`^( *)<!-- block: ${mark} -->\\n *\`\`\`sh\\n([\\s\\S]*?)^ *\`\`\`$`, 'gm');
  const marked = markdown.matchAll(block);
  return [...marked].map(([, indent = '', code = '']) => code.replaceAll(new RegExp(`^${indent}`, 'gm'), ''));
}

export const needsKubectl = ({ page }: Page): boolean => commandsOf(page).some((code) => code.includes('kubectl'));

/** Runs the blocks of a page, and compares the output of each. `~` is `home`. */
export async function followPage(page: Page, platform: RunningPlatform, home: string): Promise<void> {
  const outputs = await inOneShell(page, platform, home);
  for (const [pass, found] of outputs.entries()) {
    const expectations = page.blocks.slice(0, page.only);
    assert.is(found.length, expectations.length, `the blocks of ${page.page}`);
    for (const [index, expected] of expectations.entries()) {
      const output = found[index] ?? '';
      assert.match(output, expected, `block ${index + 1}, pass ${pass + 1}:\n${output}`);
    }
  }
}

/** Returns the output of each block, by pass. */
async function inOneShell(page: Page, platform: RunningPlatform, home: string): Promise<string[][]> {
  const { passes = 2, replace = [], environment = {} } = page;
  const before = page.needsReadme ? commandsOf(README).slice(0, 1) : [];
  const blocks = commandsOf(page.page)
    .slice(0, page.only)
    .map((code) => `printf '\\001'\n${code}`);
  const values = [
    ['http://localhost:4000', platform.url],
    ['$PWD/.slipway/kubeconfig', platform.kubeconfig],
    ...replace,
  ];
  const script = values.reduce(
    (text, [placeholder = '', value = '']) => text.replaceAll(placeholder, value),
    [...before, ...Array.from({ length: passes }, () => blocks).flat()].join('\n'),
  );
  const shell = spawn('bash', ['-s'], {
    cwd: ROOT,
    env: { ...process.env, ...environment, HOME: home },
    stdio: ['pipe', 'pipe', 'pipe'],
    timeout: PATIENCE_MS,
  });
  shell.stdin.end(script);
  const [stdout, stderr] = await Promise.all([text(shell.stdout), text(shell.stderr), once(shell, 'close')]);
  const outputs = stdout.split(SEPARATOR).slice(1);
  assert.is(outputs.length, passes * blocks.length, `${stdout}\n${stderr}`);
  return Array.from({ length: passes }, (_, pass) => outputs.slice(pass * blocks.length, (pass + 1) * blocks.length));
}
