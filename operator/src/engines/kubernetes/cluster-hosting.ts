/** The sites of a cluster: a route to each site and preview. The shared data plane responds to requests for sites. */
import { projectUrlByHost, type Site } from '@slipway/installation';
import type { EngineOutcome, EnginePart, EngineProject, Hosting } from '../../capabilities/index.js';
import { SiteProbe } from '../site-probe.js';
import type { Children } from './children/children.js';
import { ensureRoutes, removeRoutes } from './route.js';

export class ClusterHosting implements Hosting {
  readonly #probe: SiteProbe;

  constructor(
    private readonly children: Children,
    private readonly site: Site,
    dataplaneUrl: string,
  ) {
    this.#probe = new SiteProbe(dataplaneUrl);
  }

  siteUrl(site: string): string {
    return projectUrlByHost(this.site, site);
  }

  async ensure(
    project: EngineProject,
    previews: readonly string[],
  ): Promise<{ outcome: EngineOutcome; parts: readonly EnginePart[] }> {
    const parts = await ensureRoutes(this.children, project, this.site, previews);
    return { outcome: await this.#probe.ask(project.ref, this.siteUrl(project.ref)), parts };
  }

  remove(ref: string): Promise<void> {
    return removeRoutes(this.children, ref);
  }

  close(): Promise<void> {
    return this.#probe.close();
  }
}
