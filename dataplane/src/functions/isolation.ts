/**
 * Determines how this system isolates one project's processes from the files of the platform and of other projects. In:
 * the account that starts the platform, and what the system grants it. Out: the kind of isolation, and a sentence for
 * the administrator. Read at the start by the functions service and by `npm start`; builds will use it too.
 */
import { accountOf, asAccount, hasManyIds, isRoot } from './account.js';
import { canSandbox } from './sandbox.js';

export interface Isolation {
  kind: /** Each project has a user id of its own: the kernel refuses files and processes of all others. */
    | 'account-per-project'
    /** Each process has a root folder with nothing in it but the system's programs and its project's files. */
    | 'sandbox'
    /**
     * All projects run as `nobody`: the kernel refuses the platform's files, and Deno's permissions those of other
     * projects.
     */
    | 'shared-account'
    /** Functions run as the account that runs the platform: Deno's permissions are the only wall. */
    | 'permissions-only';
  description: string;
}

const DESCRIPTIONS: Record<Isolation['kind'], string> = {
  'account-per-project': 'each project runs as a user id of its own, beside Deno’s permissions',
  sandbox: 'each function runs in a root folder without files of others, beside Deno’s permissions',
  'shared-account':
    'the system gives too few user ids and no user namespaces, so all projects run as nobody: Deno’s permissions alone separate projects',
  'permissions-only':
    'not started by root, and the system gives no user namespaces, so functions run as the account of the platform: Deno’s permissions alone protect its files',
};

export interface System {
  root: boolean;
  manyIds: boolean;
  /** Asked for where there is no user id for each project: a start in a sandbox takes longer. */
  namespaces(): boolean;
}

export function isolationOn({ root, manyIds, namespaces }: System): Isolation {
  const kind =
    root && manyIds ? 'account-per-project' : namespaces() ? 'sandbox' : root ? 'shared-account' : 'permissions-only';
  return { kind, description: DESCRIPTIONS[kind] };
}

let own: Isolation | undefined;

/** This system's, found out once. */
export function isolation(): Isolation {
  own ??= isolationOn({
    root: isRoot(),
    manyIds: hasManyIds(),
    namespaces: () => canSandbox(asAccount(accountOf(''))),
  });
  return own;
}
