/** The processes below one process, by /proc. */
import { readdir, readFile } from 'node:fs/promises';

/** `pid` and all that it or its children started and that still runs. */
export async function processTree(pid: number): Promise<number[]> {
  const numbers = (await readdir('/proc')).map(Number).filter(Boolean);
  const parents = new Map(await Promise.all(numbers.map(async (each) => [each, await parentOf(each)] as const)));
  const tree = [pid];
  // Grows while it is walked: each found process's children follow it.
  for (const parent of tree) {
    for (const [child, itsParent] of parents) if (itsParent === parent) tree.push(child);
  }
  return tree;
}

async function parentOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The program's name stands in parentheses and may hold any character.
  return Number(status.slice(status.lastIndexOf(')') + 2).split(' ')[1] ?? 0);
}

/** Its program and arguments, or the title that it gave itself; empty where it is gone. */
export async function commandOf(pid: number): Promise<string> {
  return (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ').trim();
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
