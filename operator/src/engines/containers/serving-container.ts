/**
 * The container of an app that serves, in a file that a reboot removes, as it removes the container. In: the folder of
 * the project. Out: its slot, and how often it ended.
 */
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { parseJson, replaceFile, unlessMissing } from '@slipway/program';
import type { Slot } from './project-containers.js';

export interface ServingContainer {
  slot: Slot;
  build: string;
  restarts: number;
  lastExitCode?: number;
}

const FILE = 'serving.json';
const MOST = { bytes: 4096, depth: 2, values: 20 };

export async function readServing(folder: string): Promise<ServingContainer | undefined> {
  const text = await readFile(path.join(folder, FILE)).catch(unlessMissing);
  return text && (parseJson(text, MOST) as ServingContainer);
}

export async function writeServing(folder: string, serving: ServingContainer): Promise<ServingContainer> {
  await replaceFile(path.join(folder, FILE), JSON.stringify(serving));
  return serving;
}

export const removeServing = (folder: string): Promise<void> => rm(path.join(folder, FILE), { force: true });
