/** Finds a folder that a tenant names within another folder. The tenant controls the content of both. */
import { lstatSync, realpathSync } from 'node:fs';
import path from 'node:path';
import { Refused } from './request.js';

/**
 * Returns the real path. Throws Refused if the path leads out of `parent`, does not exist, or is not a folder.
 * `foundInstead` adds to the message of a missing folder.
 */
export function innerFolder(parent: string, name: string, setting: string, foundInstead = () => ''): string {
  const target = path.resolve(parent, name);
  const shown = JSON.stringify(name.slice(0, 200));
  if (path.isAbsolute(name) || name.includes('\0') || !isWithin(target, parent))
    throw new Refused(`${setting} ${shown} leads out of the repository. Set a path below it.`);
  let real: string;
  try {
    real = realpathSync(target);
  } catch {
    const missing = `${setting} ${shown} does not exist.`;
    const remedy = `Set the folder that the build makes, or that the sources have. ${foundInstead()}`;
    throw new Refused(`${missing} ${remedy.trim()}`);
  }
  if (!isWithin(real, realpathSync(parent)))
    throw new Refused(`${setting} ${shown} is a link that leads out of the repository. Replace the link by a folder.`);
  if (!lstatSync(real).isDirectory()) throw new Refused(`${setting} ${shown} is not a folder.`);
  return real;
}

function isWithin(place: string, parent: string): boolean {
  const relative = path.relative(parent, place);
  return relative !== '..' && !relative.startsWith('../') && !path.isAbsolute(relative);
}
