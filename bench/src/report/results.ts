/** Writes the results of a bench to its own file, and prints them. */
import { mkdir, rename, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BenchResult, isMet } from '../bench.js';
import type { Machine } from '../measure/machine.js';
import { decimals, renderTable } from './table.js';

const FOLDER = fileURLToPath(new URL('../../results', import.meta.url));

export async function writeResult(
  name: string,
  machine: Machine,
  settings: unknown,
  result: BenchResult,
): Promise<string> {
  await mkdir(FOLDER, { recursive: true });
  const file = path.join(FOLDER, `${name}.json`);
  const text = JSON.stringify({ bench: name, at: new Date().toISOString(), machine, settings, ...result }, null, 2);
  await writeFile(`${file}.new`, `${text}\n`);
  await rename(`${file}.new`, file);
  return file;
}

export function render({ tables, targets, skipped }: BenchResult): string {
  const parts = tables.map(({ title, head, rows }) => `${title}\n\n${renderTable(head, rows)}`);
  if (targets.length > 0) {
    const rows = targets.map((target) => [
      target.what,
      decimals(target.value),
      `${target.bound} ${target.target}`,
      isMet(target) ? 'yes' : 'NO',
    ]);
    parts.push(renderTable(['target', 'measured', 'wanted', 'met'], rows));
  }
  return [...parts, ...skipped.map((reason) => `skipped: ${reason}`)].join('\n\n');
}
