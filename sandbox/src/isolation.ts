/**
 * Determines how this system isolates a project's processes from files of the platform and of other projects. In: the
 * account that runs the platform, and the system's features. Out: the kind of isolation.
 */
import { accountOf, asAccount, hasManyIds, isRoot } from './account.js';
import { canSandbox } from './sandbox.js';

export type IsolationKind =
  /** Each project has its own user id: the kernel denies files and processes of all others. */
  | 'account-per-project'
  /** Each process has a root folder with only the system's programs and its project's files. */
  | 'sandbox'
  /** All projects run as `nobody`: the kernel denies the platform's files, but not those of other projects. */
  | 'shared-account'
  /** Processes run as the platform's account: the kernel denies them none of its files. */
  | 'permissions-only';

export interface System {
  root: boolean;
  manyIds: boolean;
  /** Called only if projects have no user ids of their own, because starting a sandbox takes longer. */
  namespaces(): boolean;
}

export function isolationOn({ root, manyIds, namespaces }: System): IsolationKind {
  if (root && manyIds) return 'account-per-project';
  if (namespaces()) return 'sandbox';
  return root ? 'shared-account' : 'permissions-only';
}

let own: IsolationKind | undefined;

/** Returns this system's kind of isolation, detected once. */
export function isolationKind(): IsolationKind {
  own ??= isolationOn({
    root: isRoot(),
    manyIds: hasManyIds(),
    namespaces: () => canSandbox(asAccount(accountOf(''))),
  });
  return own;
}
