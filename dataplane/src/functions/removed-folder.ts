/** Folders that a function could write in: it may have closed parts of them to everybody. */
import { chmodSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

/** False: something of it is still there. Never throws: whoever tidies up goes on. */
export function removeFolder(folder: string): boolean {
  if (isRemoved(folder)) return true;
  open(folder);
  return isRemoved(folder);
}

function isRemoved(folder: string): boolean {
  try {
    rmSync(folder, { recursive: true, force: true });
    return true;
  } catch {
    return false;
  }
}

function open(folder: string): void {
  try {
    chmodSync(folder, 0o700);
    const entries = readdirSync(folder, { withFileTypes: true });
    for (const entry of entries) if (entry.isDirectory()) open(path.join(folder, entry.name));
  } catch {
    // What is left is told by whoever asked.
  }
}
