/**
 * Refuses Dockerfiles and images that make podman do more than build and run. Distributions keep podman for years, so
 * known holes are closed here too. In: the text of a Dockerfile, or the labels and annotations of an image. Out:
 * Refused, with a message for the owner.
 */
import { Refused } from '@slipway/kaniko-build-wrapper';

/**
 * The first version of buildah without CVE-2024-1753, CVE-2024-9675 and CVE-2024-11218: mounts of a step that follow
 * links or `..` out of the build.
 */
const MENDED = [1, 38, 1] as const;
const MOST_OF_DOCKERFILE = 2 ** 20 - 1;
/** Podman takes these for its own: it restores a container from an image that says so, without its sandbox. */
const OF_PODMAN = /^(io\.podman\.|io\.containers\.|org\.criu\.|io\.kubernetes\.cri-o\.)/i;

/** Throws Refused if this version of buildah must not build the Dockerfile. */
export function refuseDockerfile(text: string, buildahVersion: string): void {
  if (text.length > MOST_OF_DOCKERFILE) throw new Refused('The Dockerfile is larger than 1 MiB.');
  if (isMended(buildahVersion)) return;
  for (const mount of mountsIn(text)) {
    const why = whyRefused(mount);
    if (why === undefined) continue;
    const instead = 'Use COPY --from, or a cache without `from` and with a plain `id`.';
    const hole = `The builder of this server has a known hole there, which buildah ${MENDED.join('.')} closes.`;
    throw new Refused(`The Dockerfile has the option --mount=${mount.slice(0, 100)}, which ${why}. ${hole} ${instead}`);
  }
}

/** Throws Refused if the image has a label or an annotation that podman takes for its own. */
export function refuseImage({ labels, annotations }: ImageNotes): void {
  for (const [kind, notes] of Object.entries({ label: labels, annotation: annotations })) {
    const name = Object.keys(notes ?? {}).find((each) => OF_PODMAN.test(each));
    if (name === undefined) continue;
    const shown = name.slice(0, 100);
    throw new Refused(
      `The image has the ${kind} ${shown}, which is reserved. Remove it from the Dockerfile or its base.`,
    );
  }
}

export interface ImageNotes {
  labels: Record<string, string> | null;
  annotations: Record<string, string> | null;
}

/** Returns the values of the options, wherever the text has them: also in triggers and in documents of a shell. */
function mountsIn(text: string): string[] {
  const lines = text.split(/\r?\n/).filter((line) => !/^\s*#/.test(line));
  const joined = lines.join('\n').replaceAll(/[\\`][ \t]*\n/g, '');
  return [...joined.matchAll(/--mount[= \t]+("[^"]*"|'[^']*'|\S+)/gi)].map(([, value]) => value as string);
}

function whyRefused(mount: string): string | undefined {
  if (/[$"'\\]/.test(mount)) return 'has a variable or quotes';
  const parts = mount.toLowerCase().split(',');
  if (parts.some((part) => part.startsWith('from='))) return 'mounts files of another image';
  return parts.some((part) => part.includes('..')) ? 'has a path with ..' : undefined;
}

function isMended(version: string): boolean {
  const parts = version.split(/[.-]/).map(Number);
  for (const [place, least] of MENDED.entries()) {
    const part = parts[place] ?? 0;
    if (part !== least) return part > least;
  }
  return true;
}
