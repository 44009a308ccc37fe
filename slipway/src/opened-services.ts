/**
 * Stores the choice of additional services for shared projects in the home. A later start without the setting keeps the
 * choice, so it closes no service that apps use. In: the home and the setting. Out: the setting to start with, and the
 * closed services. Called by the supervisor.
 */

import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import { DEFAULT_TYPE, type ProjectService } from '@slipway/crds';
import { availableServices, openedServices, SHARED_SERVICES_SETTING } from '@slipway/installation';
import { writeAtomically } from '@slipway/postgres';
import type { Home } from './home.js';
import { StartProblem } from './problem.js';

export interface ChosenServices {
  /** The setting for the programs: `storage,functions`, `all`, `none`, or empty if nothing was ever chosen. */
  setting: string;
  /** Services that were open at the last start and are closed at this one. */
  closed: ProjectService[];
}

/** Returns the services of the setting `given`, and stores it. Without a setting, returns the stored choice. */
export async function chooseServices(home: Home, given: string | undefined): Promise<ChosenServices> {
  const file = path.join(home.folder, 'services-shared');
  const before = await readRemembered(file);
  if (!given) return { setting: before, closed: [] };
  if (given !== before) await writeAtomically(file, given);
  const [opened, openedBefore] = [servicesOf(given), servicesOf(before)];
  return { setting: given, closed: openedBefore.filter((name) => !opened.includes(name)) };
}

/** Returns the services of shared projects for a setting. */
export const servicesOf = (setting: string): readonly ProjectService[] =>
  availableServices(DEFAULT_TYPE, 'free', openedServices(setting));

async function readRemembered(file: string): Promise<string> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error;
    return '';
  });
  try {
    openedServices(text);
    return text.trim();
  } catch (error) {
    throw new StartProblem(`${file}: ${(error as Error).message}. Remove the file, or set ${SHARED_SERVICES_SETTING}`);
  }
}

/** The number of projects that use a closed service. Undefined if this machine can't count them. */
export interface Usage {
  functions: number | undefined;
  storage: number | undefined;
}

/** Returns the line that names the services that a start has closed. */
export function closedMessage(closed: readonly ProjectService[], usage: Usage): string {
  const uses = closed.map((name) => {
    const count = name === 'functions' || name === 'storage' ? usage[name] : undefined;
    if (count === undefined) return name;
    const items = name === 'storage' ? 'files' : 'functions';
    return `${name} (${count} ${count === 1 ? 'project has' : 'projects have'} ${items})`;
  });
  return (
    `! closed to shared projects now: ${uses.join(', ')}. All data stays; ` +
    `${SHARED_SERVICES_SETTING}=all npm start opens them again`
  );
}

/** Counts the projects that have files in the storage folder. */
export async function countProjectsWithFiles(folder: string): Promise<number> {
  const names = (target: string) => readdir(target).catch(() => []);
  const projects = await names(folder);
  const contents = await Promise.all(projects.map((ref) => names(path.join(folder, ref, 'content'))));
  return contents.filter(({ length }) => length > 0).length;
}
