/**
 * The folder e2e/fixtures. It has a folder for each release, with the files that the release wrote, and a description
 * of the state in them.
 */
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { WrittenState } from './written-state.js';

const FIXTURES = fileURLToPath(new URL('../../fixtures', import.meta.url));

/** Where a release ran: its home on one machine, or a cluster. */
export type Kind = 'home' | 'cluster';

export interface Fixture {
  release: string;
  archive: string;
  /** A JSON file with the WrittenState. */
  state: string;
}

export function fixtureOf(release: string, kind: Kind): Fixture {
  const file = (name: string) => path.join(FIXTURES, release, name);
  return {
    release,
    archive: file(`${kind}.tar.zst`),
    state: file(kind === 'home' ? 'state.json' : 'cluster-state.json'),
  };
}

export async function storedFixtures(kind: Kind): Promise<Fixture[]> {
  const entries = await readdir(FIXTURES, { withFileTypes: true });
  const releases = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
  return releases.map((release) => fixtureOf(release, kind)).filter(({ archive }) => existsSync(archive));
}

export async function writeStateFile({ state }: Fixture, written: WrittenState): Promise<void> {
  await mkdir(path.dirname(state), { recursive: true });
  await writeFile(state, `${JSON.stringify(written, undefined, 2)}\n`);
}

export const readStateFile = async ({ state }: Fixture) => JSON.parse(await readFile(state, 'utf8')) as WrittenState;
