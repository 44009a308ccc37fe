/**
 * Describes the isolation of a project's functions from files of the platform and of other projects, and from private
 * IPv6 networks. Out: the kind of isolation, and a sentence for the administrator. Used at start by the functions
 * service and by `npm start`.
 */
import { canFilterSockets, type IsolationKind, installedDeno, isolationKind } from '@slipway/sandbox';

export interface Isolation {
  kind: IsolationKind;
  /** True if the kernel denies functions sockets other than IPv4, so that they can't reach private IPv6 networks. */
  filtersSockets: boolean;
  description: string;
}

const DESCRIPTIONS: Record<IsolationKind, string> = {
  'account-per-project':
    'the code of each project runs as a system user of its own, and Deno’s permissions confine it further',
  sandbox: 'the code of each function sees no files but its own project’s, and Deno’s permissions confine it further',
  'shared-account':
    'the code of all projects runs as the user nobody: Deno’s permissions alone keep projects apart, ' +
    'as the system gives too few user ids and no user namespaces',
  'permissions-only':
    'their code runs as the user that started the platform: ' +
    'Deno’s permissions alone protect its files, as that user is not root and the system gives no user namespaces',
};
const UNFILTERED = '; the system filters no sockets, so functions reach private IPv6 networks';

export const descriptionOf = (kind: IsolationKind, filtersSockets: boolean) =>
  `${DESCRIPTIONS[kind]}${filtersSockets ? '' : UNFILTERED}`;

let own: Isolation | undefined;

/** Returns this system's isolation, detected once. */
export function isolation(): Isolation {
  if (own) return own;
  const kind = isolationKind();
  const filtersSockets = canFilterSockets(installedDeno());
  own = { kind, filtersSockets, description: descriptionOf(kind, filtersSockets) };
  return own;
}
