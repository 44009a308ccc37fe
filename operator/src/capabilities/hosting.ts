import type { EngineOutcome, EnginePart } from './outcome.js';
import type { EngineProject } from './project.js';

/** Sites of projects. Each site has an origin of its own. */
export interface Hosting {
  /** `site`: the ref of a project, or the name of a preview. */
  siteUrl(site: string): string;
  /**
   * Ready when the project's site answers at its address, with or without a deployment. `previews`: the names of all
   * previews that the project has now. Each is reachable at an address of its own.
   */
  ensure(
    project: EngineProject,
    previews: readonly string[],
  ): Promise<{ outcome: EngineOutcome; parts: readonly EnginePart[] }>;
  /** Deletes the objects that route requests to the site and its previews. */
  remove(ref: string): Promise<void>;
}
