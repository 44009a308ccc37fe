/** Removes folders to which confined code could write, and of which it may have removed permissions. */
import { chmodSync, readdirSync, rmSync } from 'node:fs';
import path from 'node:path';

/** Returns false if a part of it is left. Never throws, so that a clean-up continues. */
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
    // The caller reports leftovers.
  }
}
