/**
 * Cache of the live deployment of each requested site. In: refs or names of previews, and the folder of sites. Out:
 * deployments with their files. A changed pointer to the live deployment takes effect within half a second. Memory is
 * limited: the least recently requested sites are evicted.
 */
import { ConcurrencyLimit } from '@slipway/program';
import { type HeaderRule, refOfPreview, type SiteReader } from '@slipway/sites';
import { hasHash } from './caching.js';
import type { SiteContent, SiteFile, SiteFiles } from './lookup.js';
import { Redirects } from './redirects.js';

export interface LiveDeployment extends SiteContent {
  /** Name of a preview, or ref of a project. */
  ref: string;
  id: string;
  headerRules: readonly HeaderRule[];
}

export interface DeploymentBounds {
  sites: number;
  /** Maximum bytes of the heap for manifests. */
  bytes: number;
  pointerMilliseconds: number;
}

const BOUNDS: DeploymentBounds = { sites: 10_000, bytes: 96 * 1024 * 1024, pointerMilliseconds: 100 };

/** Limits of manifests that are decoded at once, each with its text in memory, and of waiting ones. */
const DECODED_AT_ONCE = { most: 4, ofOne: 1, waiting: 1_000, waitingOfOne: 1 };

interface Site {
  /** Undefined: the site has no live deployment. */
  version: string | undefined;
  deployment: LiveDeployment | undefined;
  bytes: number;
  checkedAt: number;
}

/** Maximum number of earlier deployments that are considered, which is more than a site retains. */
const MOST_EARLIER = 20;

/** Estimated heap of a site in addition to its manifest, and of each file in addition to its text there. */
const [SITE_BYTES, FILE_BYTES] = [1024, 400];

export class LiveDeployments {
  /** Entries, the most recently requested last. */
  readonly #sites = new Map<string, Site>();
  readonly #earlier = new WeakMap<LiveDeployment, Promise<SiteFiles>>();
  readonly #loading = new Map<string, Promise<LiveDeployment | undefined>>();
  readonly #decoding = new ConcurrencyLimit(DECODED_AT_ONCE);
  readonly #bounds: DeploymentBounds;
  #bytes = 0;

  constructor(
    private readonly reader: SiteReader,
    bounds: Partial<DeploymentBounds> = {},
  ) {
    this.#bounds = { ...BOUNDS, ...bounds };
  }

  /** Number of cached sites, including those without a deployment. */
  get size(): number {
    return this.#sites.size;
  }

  /** Returns the deployment if its pointer was read a moment ago; otherwise undefined, and `find` reads it. */
  current(ref: string): LiveDeployment | undefined {
    const site = this.#sites.get(ref);
    return site !== undefined && this.#isFresh(site) ? site.deployment : undefined;
  }

  /** Returns undefined if the site has no live deployment. */
  async find(ref: string): Promise<LiveDeployment | undefined> {
    const site = this.#sites.get(ref);
    if (site !== undefined && this.#isFresh(site)) return site.deployment;
    const loading = this.#loading.get(ref) ?? this.#load(ref).finally(() => this.#loading.delete(ref));
    this.#loading.set(ref, loading);
    return loading;
  }

  /** Makes the next request read the pointer again. */
  doubt(deployment: LiveDeployment): void {
    const site = this.#sites.get(deployment.ref);
    if (site?.deployment === deployment) this.#drop(deployment.ref, site);
  }

  /** Files of deployments that the site served before, with a hash in their name. */
  earlierAssets(deployment: LiveDeployment): Promise<SiteFiles> {
    const known = this.#earlier.get(deployment);
    if (known) return known;
    const loading = this.#loadEarlier(deployment);
    this.#earlier.set(deployment, loading);
    loading.catch(() => this.#earlier.delete(deployment));
    return loading;
  }

  async #loadEarlier(deployment: LiveDeployment): Promise<SiteFiles> {
    const { ref, id: live } = deployment;
    const assets = new Map<string, SiteFile>();
    let bytes = 0;
    for (const id of (await this.reader.servedDeployments(ref)).slice(0, MOST_EARLIER)) {
      const read = id === live ? undefined : await this.#decoding.run(ref, () => this.reader.manifest(ref, id));
      for (const [path, file] of Object.entries(read?.manifest.files ?? {})) {
        if (deployment.files.has(path) || assets.has(path) || !hasHash(path)) continue;
        assets.set(path, { ...file, path, deployment: id });
        bytes += path.length + FILE_BYTES;
      }
    }
    this.#count(deployment, bytes);
    return assets;
  }

  /** Their bytes count together with the deployment's. */
  #count(deployment: LiveDeployment, bytes: number): void {
    const site = this.#sites.get(deployment.ref);
    if (site?.deployment !== deployment) return;
    site.bytes += bytes;
    this.#bytes += bytes;
    this.#shrink();
  }

  #isFresh(site: Site): boolean {
    return performance.now() - site.checkedAt < this.#bounds.pointerMilliseconds;
  }

  /** Retries, because a deployment may be pruned between two reads, and the pointer then names another. */
  async #load(ref: string): Promise<LiveDeployment | undefined> {
    const site = (await this.#loadOnce(ref)) ?? (await this.#loadOnce(ref));
    if (site === undefined) throw new Error('the live deployment is missing');
    return site.deployment;
  }

  /** Returns undefined if the deployment of the pointer is missing. */
  async #loadOnce(ref: string): Promise<Site | undefined> {
    const checkedAt = performance.now();
    const pointer = await this.reader.live(ref);
    const known = this.#sites.get(ref);
    if (known !== undefined && known.version === pointer?.version) {
      known.checkedAt = checkedAt;
      this.#sites.delete(ref);
      this.#sites.set(ref, known);
      return known;
    }
    if (!pointer && refOfPreview(ref) !== undefined) return this.#withoutPreview(ref, known, checkedAt);
    const read = pointer && (await this.#decoding.run(ref, () => this.#read(ref, pointer.id)));
    if (pointer && !read) return undefined;
    const site = {
      version: pointer?.version,
      deployment: read?.deployment,
      bytes: SITE_BYTES + (read?.bytes ?? 0),
      checkedAt,
    };
    this.#keep(ref, site);
    return site;
  }

  /** Not cached, because invented names of previews would evict sites. */
  #withoutPreview(name: string, known: Site | undefined, checkedAt: number): Site {
    if (known) this.#drop(name, known);
    return { version: undefined, deployment: undefined, bytes: 0, checkedAt };
  }

  async #read(ref: string, id: string): Promise<{ deployment: LiveDeployment; bytes: number } | undefined> {
    const read = await this.reader.manifest(ref, id);
    if (!read) return undefined;
    const files = new Map<string, SiteFile>();
    for (const [path, file] of Object.entries(read.manifest.files)) files.set(path, { ...file, path });
    const { redirects = [], headers: headerRules = [] } = read.manifest;
    const deployment = { ref, id, files, redirects: new Redirects(redirects), headerRules };
    return { deployment, bytes: read.bytes + (files.size + redirects.length) * FILE_BYTES };
  }

  #keep(ref: string, site: Site): void {
    const former = this.#sites.get(ref);
    if (former) this.#drop(ref, former);
    this.#sites.set(ref, site);
    this.#bytes += site.bytes;
    this.#shrink();
  }

  #shrink(): void {
    for (const [oldest, each] of this.#sites) {
      if (this.#sites.size <= this.#bounds.sites && this.#bytes <= this.#bounds.bytes) break;
      this.#drop(oldest, each);
    }
  }

  #drop(ref: string, site: Site): void {
    this.#sites.delete(ref);
    this.#bytes -= site.bytes;
  }
}
