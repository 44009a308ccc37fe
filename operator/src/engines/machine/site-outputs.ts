/** Sites of this machine: builds run in sealed processes, and their output becomes a deployment in a folder. */
import { type Detected, runBuild } from '@slipway/kaniko-build-wrapper';
import type { Reach } from '@slipway/program';
import { OutputRefused, Sites } from '@slipway/sites';
import type { Logger } from 'pino';
import type { BuildName, BuildOrder, BuildState, KeptBuilds, Rollback } from '../../capabilities/index.js';
import { keptOutputs, outputLimitsOf } from '../outputs.js';
import { BuildCaches } from './build-caches.js';
import { type BuildAttempt, type BuildOutputs, OutputFailed } from './build-outputs.js';

export interface SiteOutputsOptions {
  sitesFolder: string;
  cacheFolder: string;
  reach: Reach;
  certificates: string | undefined;
  siteUrl(site: string): string;
  log: Logger;
}

export class SiteOutputs implements BuildOutputs {
  readonly #sites: Sites;
  readonly #caches: BuildCaches;

  constructor(private readonly options: SiteOutputsOptions) {
    this.#sites = new Sites(options.sitesFolder);
    this.#caches = new BuildCaches(options.cacheFolder, options.log);
  }

  /** Deletes files of caches that were being deleted when an earlier process ended. */
  begin(): void {
    this.#caches
      .begin()
      .catch((error: Error) => this.options.log.error({ why: error.message }, 'former caches not deleted'));
  }

  async make(attempt: BuildAttempt): Promise<number> {
    const { order, signal } = attempt;
    const { site, name } = order;
    const cache = await this.#caches.open(builderOf(order));
    try {
      // An interrupted attempt may have left the output of an older commit.
      await this.#sites.discard(site, name);
      const { output, detected } = await this.#build(attempt, cache);
      attempt.built(shown(detected));
      const { warnings, bytes } = await this.#sites.publish(site, name, output, outputLimitsOf(order), signal);
      for (const warning of warnings) attempt.line(warning);
      await this.#sites.goLive(site, name);
      return bytes;
    } catch (error) {
      if (!(error instanceof OutputRefused)) throw error;
      throw new OutputFailed('OutputRefused', error.message);
    } finally {
      this.#caches.release(builderOf(order));
    }
  }

  #build({ order, work, credentials, memoryBytes, events, signal }: BuildAttempt, cache: string) {
    const { name, site, repoUrl, revision, branch, unless, submodules, settings, env, limits } = order;
    const { reach, certificates, siteUrl } = this.options;
    return runBuild(
      {
        ref: builderOf(order),
        build: name,
        source: { repoUrl, revision, submodules, unless },
        credentials,
        settings: { ...settings, framework: undefined },
        deployment: { BRANCH: branch, SITE_URL: siteUrl(site) },
        env,
        folders: { work, cache },
        limits: { ...limits, memoryBytes, processMemoryBytes: memoryBytes },
        reach,
        certificates,
      },
      events,
      signal,
    );
  }

  async goLive({ ref, name }: BuildName): Promise<Rollback> {
    if (!(await this.#sites.has(ref, name))) return { kind: 'absent' };
    await this.#sites.goLive(ref, name);
    return { kind: 'live' };
  }

  liveBuild(site: string): Promise<string | undefined> {
    return this.#sites.liveId(site);
  }

  async keepOnly(ref: string, { previews, deployments }: KeptBuilds, written: readonly string[]): Promise<void> {
    await this.#sites.keepOnly(ref, keptOutputs(previews, written, deployments));
  }

  async bytes(ref: string): Promise<number> {
    const caches = buildersOf(ref).reduce((sum, builder) => sum + this.#caches.bytes(builder), 0);
    return caches + (await this.#sites.bytes(ref));
  }

  async clearCache(ref: string): Promise<void> {
    for (const builder of buildersOf(ref)) await this.#caches.clear(builder);
  }

  async remove(ref: string): Promise<void> {
    await this.#sites.remove(ref);
    for (const builder of buildersOf(ref)) await this.#caches.remove(builder);
  }

  close(): Promise<void> {
    return this.#caches.close();
  }
}

/**
 * Returns the name of the build's account and cache. Builds of previews have others than builds of the site: they run
 * at the same time, and more people can push to their branches.
 */
const builderOf = ({ ref, site }: BuildOrder) => (site === ref ? ref : previewBuilderOf(ref));
/** Name of the builder of previews. It is unambiguous, because no ref has a dot. */
const previewBuilderOf = (ref: string) => `${ref}.previews`;
const buildersOf = (ref: string) => [ref, previewBuilderOf(ref)];

/** Drops values that were not detected, as a status does. */
const shown = (detected: Detected): NonNullable<BuildState['detected']> =>
  Object.fromEntries(Object.entries(detected).filter(([, value]) => value !== undefined));
