/**
 * Finds out whether this machine can build and run containers, by doing it. In: folders for the attempt. Out:
 * the form of the engine that works, or the reason why none does, for users.
 */
import { mkdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { BUILD_LIMITS, type ContainerEngine, type EngineForm } from '@slipway/installation';
import { NOT_PUBLIC } from '@slipway/program';
import { copyPrograms } from './machine-programs.js';
import { ProjectContainers } from './project-containers.js';
import { ProjectNumbers } from './project-numbers.js';
import { linesOf, systemCommand } from './system-command.js';

export interface TrialPlace {
  /** A folder on the disk of this machine, which is deleted afterwards. */
  folder: string;
  /** A short path that a reboot empties, which is deleted afterwards. */
  volatile: string;
}

/** Programs that are needed, with the package of Debian that has each. */
const NEEDED = { podman: 'podman', ip: 'iproute2', nft: 'nftables', 'mkfs.ext4': 'e2fsprogs' } as const;
const RUNTIMES = ['crun', 'runc'] as const;
const FORMS: readonly EngineForm[] = (['overlay', 'vfs'] as const).flatMap((driver) =>
  RUNTIMES.map((runtime) => ({ runtime, driver })),
);
const DOCKERFILE = 'FROM scratch\nCOPY . /\nRUN ["/bin/true"]\nCMD ["/bin/true"]\n';
const MOST_OF_REASON = 300;
const MIB = 2 ** 20;
const DISK_BYTES = 256 * MIB;
const LIMITS = { memoryBytes: 64 * MIB, processors: 0.5, processes: 16, logBytes: MIB };

/** `missing` returns the programs that this machine does not have. It differs only in tests. */
export async function findEngine(
  place: TrialPlace,
  missing: (programs: readonly string[]) => Promise<string[]> = missingPrograms,
): Promise<ContainerEngine> {
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
  return { lacking: `its container engine runs no container: ${last}` };
}

async function missingPrograms(names: readonly string[]): Promise<string[]> {
  const script = 'for name; do command -v "$name" >/dev/null || echo "$name"; done';
  return linesOf(await systemCommand(['sh', '-c', script, 'sh', ...names]));
}

/** Builds an image and runs it, as for a project. Returns the reason if that fails. */
async function failureOf(form: EngineForm, { folder, volatile }: TrialPlace): Promise<string | undefined> {
  const numbers = new ProjectNumbers();
  const context = path.join(volatile, 'trial-context');
  let containers: ProjectContainers | undefined;
  try {
    const number = await numbers.of(volatile);
    const place = { ref: 'trial', number, folder, volatile, diskBytes: DISK_BYTES, form, closed: NOT_PUBLIC };
    containers = await ProjectContainers.open({ ...place, linked: [], keepOutput: async () => {} });
    await mkdir(context, { recursive: true, mode: 0o755 });
    await copyPrograms(context, ['/bin/true']);
    const dockerfile = path.join(context, 'Dockerfile');
    await writeFile(dockerfile, DOCKERFILE);
    const order = { context, dockerfile, egress: [], proxyUrl: undefined, secrets: {} };
    const image = await containers.build(order, BUILD_LIMITS.free, () => undefined);
    await containers.start(0, { build: 'trial', image, variables: {}, limits: LIMITS, restart: 0 });
    return undefined;
  } catch (error) {
    const { message } = error as Error;
    return message.replaceAll(/\s+/g, ' ').slice(0, MOST_OF_REASON);
  } finally {
    await containers?.close();
    await numbers.release(volatile);
    for (const made of [folder, volatile]) await rm(made, { recursive: true, force: true });
  }
}
