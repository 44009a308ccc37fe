/**
 * Finds the container engine of this machine at the start of the platform. In: a folder on the disk of apps. Out: the
 * engine that works, or the reason why there is none. A trial takes seconds, so its result is kept until a reboot, or
 * until a program of the engine changes.
 */
import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { type ContainerEngine, containerEngineSetting, readContainerEngine } from '@slipway/installation';
import { findEngine } from '@slipway/operator/find-engine.js';
import { writeAtomically } from '@slipway/postgres';

const run = promisify(execFile);
/** A folder of root that a reboot empties. Podman needs a short path. */
const VOLATILE = '/run/slipway';
const RESULT = path.join(VOLATILE, 'container-engine');
const PATIENCE_MS = 10_000;

export async function containerEngine(apps: string): Promise<ContainerEngine> {
  const versions = await versionsOfPrograms();
  const known = versions && (await readFile(RESULT, 'utf8').catch(() => undefined));
  if (versions !== undefined && known?.startsWith(`${versions}\n`))
    return readContainerEngine(known.slice(versions.length + 1).trim());
  const name = `trial-${randomBytes(4).toString('hex')}`;
  const [folder, volatile] = [path.join(apps, name), path.join(VOLATILE, name)];
  const found = await findEngine({ folder, volatile }).finally(() => rm(folder, { recursive: true, force: true }));
  if (versions !== undefined) {
    await mkdir(VOLATILE, { recursive: true, mode: 0o711 });
    await writeAtomically(RESULT, `${versions}\n${containerEngineSetting(found)}\n`, 0o600);
  }
  return found;
}

/** Undefined: there is no podman, so a trial takes no time. */
async function versionsOfPrograms(): Promise<string | undefined> {
  const versionOf = (program: string) =>
    run(program, ['--version'], { timeout: PATIENCE_MS }).then(
      ({ stdout }) => stdout.split('\n')[0] as string,
      () => 'none',
    );
  if (process.getuid?.() !== 0) return undefined;
  const [podman, ...others] = await Promise.all(['podman', 'runc', 'crun', 'nft', 'ip'].map(versionOf));
  return podman === 'none' ? undefined : [podman, ...others].join(', ');
}
