/** Podman's own settings for the containers of one project. */
import { chown, mkdir } from 'node:fs/promises';
import path from 'node:path';
import { replaceFile } from '@slipway/program';
import type { PodmanPlace } from './podman.js';
import { seccompProfile } from './seccomp-profile.js';

/**
 * Limits of open files and processes for each process, as podman's usual ones are above those of some machines. Locks
 * are files: the usual ones are in memory that all projects of this machine would share.
 */
const textOf = (volatile: string) => `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
lock_type = "file"
lock_file_dir = ${JSON.stringify(path.join(volatile, 'locks'))}
`;

/** Makes the folders and the files of settings that podman needs, and gives them to the space's root. */
export async function preparePodman(
  { store, volatile, settings, seccomp }: PodmanPlace,
  firstId: number,
): Promise<void> {
  for (const folder of [store, volatile]) {
    await mkdir(folder, { recursive: true, mode: 0o711 });
    await chown(folder, firstId, firstId);
  }
  for (const [file, text] of [
    [settings, textOf(volatile)],
    [seccomp, await seccompProfile()],
  ] as const) {
    await replaceFile(file, text);
    await chown(file, firstId, firstId);
  }
}
