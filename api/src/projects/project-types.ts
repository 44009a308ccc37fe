/**
 * Rejects requests that are for projects of other types. In: a project. Out: nothing, or a 400 that names its type, and
 * the route or field to use instead.
 */
import { hasOwnMachine, isHosted, type Project, type ProjectType, TYPES, typeOf } from '@slipway/crds';
import { Problem } from '../http/problem.js';

/** Returns the type with its article: `an app`. */
export const oneOfType = (type: ProjectType): string => `${type.startsWith('a') ? 'an' : 'a'} ${type}`;

export const isApp = (project: Project): boolean => TYPES[typeOf(project)].needs.includes('apps');
const isSite = (project: Project): boolean => isHosted(typeOf(project)) && !isApp(project);

/** Rejects a type that is not built from a git repository. */
export function refuseUnbuilt(project: Project): void {
  if (TYPES[typeOf(project)].isBuilt) return;
  throw wrongType(project, 'Only a frontend or app project is built from a git repository');
}

/** `ofApp` says what to use for an app instead. */
export function refuseExceptSites(project: Project, ofApp: string): void {
  if (isSite(project)) return;
  refuseUnbuilt(project);
  throw wrongType(project, 'This route is for frontend projects', ofApp);
}

/** `ofSite` says what to use for a site instead. */
export function refuseExceptApps(project: Project, ofSite: string): void {
  if (isApp(project)) return;
  throw wrongType(project, 'This route is for app projects', isSite(project) ? ofSite : undefined);
}

/** Rejects a type without machines of its own. */
export function refuseExceptDedicated(project: Project): void {
  if (hasOwnMachine(typeOf(project))) return;
  throw wrongType(project, 'Only a dedicated project has a machine with services');
}

function wrongType(project: Project, rule: string, instead?: string): Problem {
  const detail = `${rule}; this is ${oneOfType(typeOf(project))} project.`;
  return new Problem('wrong_type', instead === undefined ? detail : `${detail} ${instead}`);
}
