/** The sites of one machine, which its data plane serves. In: the data plane's address, and the addresses of sites. */
import type { EngineOutcome, EnginePart, EngineProject, Hosting } from '../../capabilities/index.js';
import { SiteProbe } from '../site-probe.js';

export class MachineHosting implements Hosting {
  readonly #probe: SiteProbe;

  constructor(
    dataplaneUrl: string,
    readonly siteUrl: (ref: string) => string,
    private readonly certificatesOf: (ref: string) => readonly EnginePart[],
  ) {
    this.#probe = new SiteProbe(dataplaneUrl);
  }

  async ensure({ ref }: EngineProject): Promise<{ outcome: EngineOutcome; parts: readonly EnginePart[] }> {
    return { outcome: await this.#probe.ask(ref, this.siteUrl(ref)), parts: this.certificatesOf(ref) };
  }

  /** Nothing to do: the data plane drops a site by itself once the Project is deleted. */
  async remove(): Promise<void> {}

  close(): Promise<void> {
    return this.#probe.close();
  }
}
