/** Rejects requests that need the database of a project whose type has none. */
import { type Project, typeOf } from '@slipway/crds';
import { Problem } from '../http/problem.js';
import { oneOfType } from './project-types.js';
import { hasDatabase } from './project-view.js';

/** `what` is the requested service, in the plural or as a name. */
export function refuseWithoutDatabase(project: Project, what: string): void {
  if (hasDatabase(project)) return;
  const type = oneOfType(typeOf(project)).replace(/^a/, 'A');
  throw new Problem(
    'no_database',
    `${type} project has no database, and therefore no ${what}. Use a project with a database.`,
  );
}
