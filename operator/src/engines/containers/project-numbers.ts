/**
 * Gives each project a number that no other project of this machine has, in whatever installation. Its ids and its
 * addresses follow from the number. In: the project's folder. Out: the number, which stays until the project is
 * removed: files on its disk belong to its ids, and requests go to its addresses.
 *
 * A link for each number names the folder of its project. Making a link is atomic, so no number is given out twice.
 */
import { createHash } from 'node:crypto';
import { mkdir, readlink, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { namesIn, unlessMissing } from '@slipway/program';
import { IDS } from './project-space.js';

/** The folder of links, which a reboot must not empty. */
export const NUMBERS = '/var/lib/slipway-apps';

/** Folders of projects, which a reboot empties. Podman needs a short path. */
const VOLATILE = '/run/slipway';
/** The number of projects: ids and pairs of addresses are enough for them. */
const COUNT = 32_766;
/** The first id, above those of systemd, of useradd and of the sandbox. */
const FIRST_ID = 0x8000_0000;
const ATTEMPTS = 64;

export const firstIdOf = (number: number): number => FIRST_ID + number * IDS;
/** Returns the number of a pair of addresses for each of two containers of a project. */
export const pairOf = (number: number, slot: 0 | 1): number => number * 2 + slot;

/** Returns the folder of the project with this number which a reboot empties. */
export const volatileOf = (number: number): string => path.join(VOLATILE, String(number));

export class ProjectNumbers {
  constructor(private readonly folder = NUMBERS) {}

  /** Returns the number of the project with this folder, and reserves one if it has none. */
  async of(project: string): Promise<number> {
    const known = await this.#find(project);
    if (known !== undefined) return known;
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    for (const number of candidatesOf(project)) {
      const isOurs = await symlink(project, this.#link(number)).then(() => true, unlessTaken);
      if (isOurs) return number;
    }
    throw new Error(
      'this machine has no number left for an app: `npm run uninstall -- --orphans` frees those of deleted apps',
    );
  }

  async release(project: string): Promise<void> {
    const number = await this.#find(project);
    if (number !== undefined) await rm(this.#link(number), { force: true });
  }

  /** Returns the folders of all projects that have a number, in all installations. */
  async projects(): Promise<string[]> {
    const links = (await namesIn(this.folder)).map((name) => readlink(path.join(this.folder, name)));
    return await Promise.all(links);
  }

  async #find(project: string): Promise<number | undefined> {
    for (const number of candidatesOf(project)) {
      if ((await readlink(this.#link(number)).catch(unlessMissing)) === project) return number;
    }
    return undefined;
  }

  #link(number: number): string {
    return path.join(this.folder, String(number));
  }
}

/** The numbers that a project may have: few, so that it finds its own after a process was killed. */
function candidatesOf(project: string): number[] {
  const digest = createHash('sha256').update(project).digest();
  const first = digest.readUInt32BE();
  return Array.from({ length: ATTEMPTS }, (_, attempt) => ((first + attempt * 509) % COUNT) + 1);
}

function unlessTaken(error: NodeJS.ErrnoException): false {
  if (error.code === 'EEXIST') return false;
  throw error;
}
