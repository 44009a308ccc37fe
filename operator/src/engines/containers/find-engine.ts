/**
 * Finds out whether this machine can build and run containers, by building an image. In: folders for the attempt. Out:
 * the form of the engine that works, or the reason why none does, for users.
 */
import { chmod, mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { copyPrograms } from './machine-programs.js';
import { type EngineForm, Podman } from './podman.js';
import { preparePodman } from './podman-settings.js';
import { ProjectSpace } from './project-space.js';
import { CommandFailed, linesOf, systemCommand } from './system-command.js';

export type FoundEngine = { form: EngineForm } | { lacking: string };

export interface TrialPlace {
  /** An empty folder on the disk that the images will be on. */
  folder: string;
  /** A short path that a reboot empties. */
  volatile: string;
  firstId: number;
}

/** Programs that are needed, with the package of Debian that has each. */
const NEEDED = { podman: 'podman', ip: 'iproute2', nft: 'nftables', 'mkfs.ext4': 'e2fsprogs' } as const;
const RUNTIMES = ['crun', 'runc'] as const;
const FORMS: readonly EngineForm[] = (['overlay', 'vfs'] as const).flatMap((driver) =>
  RUNTIMES.map((runtime) => ({ runtime, driver })),
);
const DOCKERFILE = 'FROM scratch\nCOPY . /\nRUN ["/bin/true"]\n';

/** `missing` returns the programs that this machine does not have. It differs only in tests. */
export async function findEngine(
  place: TrialPlace,
  missing: (programs: readonly string[]) => Promise<string[]> = missingPrograms,
): Promise<FoundEngine> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return { lacking: 'containers need root on Linux' };
  const packages = (await missing(Object.keys(NEEDED))).map((name) => NEEDED[name as keyof typeof NEEDED]);
  if (packages.length > 0) return { lacking: `it has no container engine: install ${packages.join(', ')}` };
  const absent = new Set(await missing(RUNTIMES));
  let last = 'install crun or runc';
  for (const form of FORMS.filter(({ runtime }) => !absent.has(runtime))) {
    const failure = await failureOf(form, place);
    if (failure === undefined) return { form };
    last = failure;
  }
  return { lacking: `its container engine builds no image: ${last}` };
}

async function missingPrograms(names: readonly string[]): Promise<string[]> {
  const script = 'for name; do command -v "$name" >/dev/null || echo "$name"; done';
  return linesOf(await systemCommand(['sh', '-c', script, 'sh', ...names]));
}

/** Builds an image. Returns the reason if that fails. */
async function failureOf(form: EngineForm, { folder, volatile, firstId }: TrialPlace): Promise<string | undefined> {
  const space = await ProjectSpace.open({ folder: volatile, firstId }).catch((error: Error) => error);
  if (space instanceof Error) return space.message;
  const place = {
    store: path.join(folder, 'store'),
    volatile: path.join(volatile, 'engine'),
    settings: path.join(volatile, 'containers.conf'),
  };
  try {
    await preparePodman(place, firstId);
    const context = path.join(folder, 'context');
    await mkdir(context, { recursive: true, mode: 0o755 });
    await copyPrograms(context, ['/bin/true']);
    await writeFile(path.join(context, 'Dockerfile'), DOCKERFILE);
    await chmod(folder, 0o711);
    await systemCommand(['chown', '--recursive', `${firstId}:${firstId}`, context]);
    const dockerfile = path.join(context, 'Dockerfile');
    await new Podman(space, place, form).build(
      { context, dockerfile, egress: [], proxyUrl: undefined },
      () => undefined,
    );
    return undefined;
  } catch (error) {
    if (error instanceof CommandFailed) return error.complaint.split('\n').at(-1) ?? error.message;
    throw error;
  } finally {
    await space.close();
    for (const made of [folder, volatile]) await rm(made, { recursive: true, force: true });
  }
}
