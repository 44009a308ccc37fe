/** Reads processor time and memory of a process and its children from Linux. On other systems it returns nothing. */
import { readdir, readFile } from 'node:fs/promises';

/** Ticks in a second, the kernel's unit of processor time, on every Linux that Node runs on. */
const TICKS_PER_SECOND = 100;

interface ProcessStat {
  pid: number;
  parent: number;
  command: string;
  /** Ticks of the process itself, and of ended children whose exit status it has read. */
  ticks: number;
}

async function readStat(pid: number): Promise<ProcessStat | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  if (!text) return undefined;
  // The name is in parentheses and may contain anything, so fields are counted from the last parenthesis.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = [11, 12, 13, 14].reduce((sum, index) => sum + Number(fields[index]), 0);
  const command = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'));
  return { pid, parent: Number(fields[1]), command, ticks };
}

async function allProcesses(): Promise<ProcessStat[]> {
  const names = await readdir('/proc').catch(() => []);
  const matching = await Promise.all(names.filter((name) => /^\d+$/.test(name)).map((name) => readStat(Number(name))));
  return matching.filter((stat) => stat !== undefined);
}

/** Returns `root` and its descendants. */
async function processTree(root: number): Promise<number[]> {
  const processes = await allProcesses();
  const tree = [root];
  for (let at = 0; at < tree.length; at++) {
    for (const { pid, parent } of processes) if (parent === tree[at]) tree.push(pid);
  }
  return tree;
}

/** Direct children of `parent` with their command lines. */
export async function children(parent: number): Promise<{ pid: number; commandLine: string }[]> {
  const matching = (await allProcesses()).filter((stat) => stat.parent === parent);
  return await Promise.all(
    matching.map(async ({ pid }) => ({
      pid,
      commandLine: (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).replaceAll('\0', ' ').trim(),
    })),
  );
}

/**
 * Returns the processor seconds used so far by `root` and its descendants. Ended children count, as their parents have
 * read their exit status.
 */
export async function cpuSeconds(root: number): Promise<number> {
  const stats = await Promise.all((await processTree(root)).map(readStat));
  return stats.reduce((sum, stat) => sum + (stat?.ticks ?? 0), 0) / TICKS_PER_SECOND;
}

/**
 * Returns the memory of `root` and its descendants in MiB: a page that n processes share counts for 1/n in each (PSS).
 */
export const memoryMiB = (root: number) => sumOfMiB(root, 'Pss');

/** Returns the memory of `root` and its descendants in MiB: all resident pages, shared or not (RSS). */
export const residentMiB = (root: number) => sumOfMiB(root, 'Rss');

async function sumOfMiB(root: number, kind: 'Pss' | 'Rss'): Promise<number> {
  const sizes = await Promise.all((await processTree(root)).map((pid) => kibibytes(pid, kind)));
  return sizes.reduce((sum, size) => sum + size, 0) / 1024;
}

async function kibibytes(pid: number, kind: 'Pss' | 'Rss'): Promise<number> {
  const text = await readFile(`/proc/${pid}/smaps_rollup`, 'utf8').catch(() => '');
  return Number(new RegExp(`^${kind}:\\s+(\\d+) kB`, 'm').exec(text)?.[1] ?? 0);
}
