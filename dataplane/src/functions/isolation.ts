/**
 * What stands between one project's processes and the files of the platform and of other projects, on this system. In: who starts the
 * platform, and which user ids the system gives it. Out: the kind of isolation, and a sentence for whoever runs the platform. Read at the
 * start by the functions service and by `npm start`; builds will ask it too.
 */
import { hasManyIds, isRoot } from './account.js';

export interface Isolation {
  kind: /** Each project has a user id of its own: the kernel refuses files and processes of all others. */
    | 'account-per-project'
    /** All projects run as `nobody`: the kernel refuses the platform's files, and Deno's permissions those of other projects. */
    | 'shared-account'
    /** Functions run as the account that runs the platform: Deno's permissions are the only wall. */
    | 'permissions-only';
  description: string;
}

const DESCRIPTIONS: Record<Isolation['kind'], string> = {
  'account-per-project': 'each project runs as a user id of its own, beside Deno’s permissions',
  'shared-account':
    'the system gives too few user ids, so all projects run as nobody: Deno’s permissions alone separate projects',
  'permissions-only':
    'not started by root, so functions run as the account of the platform: Deno’s permissions alone protect its files',
};

export function isolationOf({ root, manyIds } = { root: isRoot(), manyIds: hasManyIds() }): Isolation {
  const kind = !root ? 'permissions-only' : manyIds ? 'account-per-project' : 'shared-account';
  return { kind, description: DESCRIPTIONS[kind] };
}
