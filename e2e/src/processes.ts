/** The descendants of a process, from /proc. */
import { readdir, readFile } from 'node:fs/promises';

/** Returns `pid` and all running processes that it or its descendants started. */
export async function processTree(pid: number): Promise<number[]> {
  const numbers = (await readdir('/proc')).map(Number).filter(Boolean);
  const parents = new Map(await Promise.all(numbers.map(async (each) => [each, await parentOf(each)] as const)));
  const tree = [pid];
  // The array grows in the loop: the children of each process are appended.
  for (const parent of tree) {
    for (const [child, itsParent] of parents) if (itsParent === parent) tree.push(child);
  }
  return tree;
}

async function parentOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The program's name is in parentheses and may contain any character.
  return Number(status.slice(status.lastIndexOf(')') + 2).split(' ')[1] ?? 0);
}

/** Returns its program and arguments, or the title that it set. Empty if the process has ended. */
export async function commandOf(pid: number): Promise<string> {
  return (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ').trim();
}

/** Sends a signal. Ignores a process that has ended already. */
export function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
