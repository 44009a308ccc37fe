import type { EngineOutcome } from './outcome.js';
import type { EngineProject } from './project.js';

/** Isolates a project from all others. */
export interface Isolation {
  /**
   * Isolates the project's namespace, before anything runs there. `databaseHost`: undefined for a project without a
   * database.
   */
  ensure(project: EngineProject, databaseHost: string | undefined): Promise<EngineOutcome>;
}
