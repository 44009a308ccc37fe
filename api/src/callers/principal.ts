/** The caller and its rights. The bearer strategy creates it; guards and services read it. */

import { type Scope, withoutAdministration } from '../http/scopes.js';
import { type Account, accountOf } from './account.js';
import type { User } from './user.entity.js';

export interface Principal {
  user: Account;
  /** Limits that an administrator set for the account; null: the installation's default. */
  allowed: {
    plans: readonly string[] | null;
    types: readonly string[] | null;
    maxProjects: number | null;
    maxMachines: number | null;
  };
  scopes: readonly Scope[];
  /** The projects that the token is limited to; null: all of the account. */
  projectIds: readonly number[] | null;
  /**
   * Id of the personal access token of the request, which becomes the parent of tokens that it creates; null: a user
   * token.
   */
  tokenId: number | null;
  /** Session of the user token; null: a personal access token, or a user token of an earlier release. */
  sessionId: number | null;
  /** Expiry of the personal access token and of all tokens that it creates; null: never, or a user token. */
  tokenEnds: Date | null;
}

/** Returns the account's part of a principal; undefined if the account is disabled, which revokes its tokens. */
export function accountPart(
  user: User,
  scopes: readonly Scope[],
): Pick<Principal, 'user' | 'allowed' | 'scopes'> | undefined {
  if (user.disabledAt) return undefined;
  return {
    user: accountOf(user),
    allowed: {
      plans: user.allowedPlans ?? null,
      types: user.allowedTypes ?? null,
      maxProjects: user.maxProjects ?? null,
      maxMachines: user.maxMachines ?? null,
    },
    scopes: user.isAdministrator ? scopes : withoutAdministration(scopes),
  };
}

export const maySee = (principal: Principal, projectId: number) =>
  principal.projectIds === null || principal.projectIds.includes(projectId);
