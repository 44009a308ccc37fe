/**
 * Compares the disk that sites use with the shares of a project and its account. In: the sizes that the engine reports.
 * Out: which share is exceeded, if any.
 */
import { type Project, TYPES, typeOf } from '@slipway/crds';
import { SITE_BYTES } from '@slipway/installation';
import type { Builds } from '../../capabilities/index.js';
import { accountOf } from './turn.js';

/** Share of all sites of an account, as a multiple of the share of its largest plan. */
const SITES_OF_ACCOUNT = 4;
const MIB = 2 ** 20;

export interface LackOfDisk {
  /** The projects whose caches are cleared to make room. */
  refs: string[];
  /** The reason, and what its owner can do. */
  message: string;
}

/** Undefined: a build may start. */
export async function lackOfDisk(
  { engine, projects }: { engine: Builds; projects: { list(): Project[] } },
  project: Project,
): Promise<LackOfDisk | undefined> {
  const ref = project.metadata.name;
  const own = (await engine.diskBytes(ref)) ?? 0;
  const limit = SITE_BYTES[planOf(project)];
  if (own >= limit) {
    return { refs: [ref], message: `the site uses ${inWords(own, limit)}: remove previews, or use a larger plan` };
  }
  const account = accountOf(project);
  const all = projects.list().filter((each) => TYPES[typeOf(each)].isBuilt && accountOf(each) === account);
  // A store that does not answer keeps no other site from being built.
  const sizes = await Promise.all(all.map(({ metadata }) => engine.diskBytes(metadata.name).catch(() => 0)));
  const sum = sizes.reduce<number>((total, bytes) => total + (bytes ?? 0), 0);
  const share = SITES_OF_ACCOUNT * Math.max(...all.map((each) => SITE_BYTES[planOf(each)]), limit);
  if (sum < share) return undefined;
  return {
    refs: all.map(({ metadata }) => metadata.name),
    message: `all sites of its owner use ${inWords(sum, share)}: delete sites or previews, or use a larger plan`,
  };
}

const planOf = ({ spec }: Project) => spec.plan ?? 'free';

const inWords = (used: number, limit: number) =>
  `${Math.round(used / MIB)} MiB of the ${limit / MIB} MiB of disk for deployments, build caches and build logs`;
