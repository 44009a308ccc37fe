/**
 * The apps of all installations on this machine, for the removal of an installation. Their containers and their numbers
 * outlive a platform that is killed. In: the folder of an app. Out: nothing of the app is left, except in its folder.
 */
import path from 'node:path';
import { endContainers } from './project-containers.js';
import { ProjectNumbers, volatileOf } from './project-numbers.js';

const numbers = new ProjectNumbers();

/** Returns the folder of each app, `<apps of the installation>/<ref>`, also of deleted ones. Only root runs apps. */
export const appFolders = async (): Promise<string[]> => (process.getuid?.() === 0 ? await numbers.projects() : []);

/** Ends the containers of the app with this folder, and gives its number free. */
export async function endApp(folder: string): Promise<void> {
  const number = await numbers.of(folder);
  await endContainers({ ref: path.basename(folder), number, volatile: volatileOf(number) });
  await numbers.release(folder);
}
