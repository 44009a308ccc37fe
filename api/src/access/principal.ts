/** The caller and their rights: made by the bearer strategy, read by guards and services. */
import { type Account, accountOf } from '../accounts/account.schema.js';
import type { User } from '../accounts/user.entity.js';
import { type Scope, withoutAdministration } from './scopes.js';

export interface Principal {
  user: Account;
  /** Limits that an administrator set for the account; null: the installation's default. */
  allowed: { plans: readonly string[] | null; types: readonly string[] | null; maxProjects: number | null };
  scopes: readonly Scope[];
  /** The only projects that it may see, when it is limited to some. */
  projectIds: readonly number[] | null;
  /**
   * Id of the personal access token of the request, which is the parent of all tokens that it creates; null: a user
   * token.
   */
  tokenId: number | null;
  /**
   * The session of the user token that it came with; null: a personal access token, or a user token of an earlier
   * release.
   */
  sessionId: number | null;
  /** When a personal access token ends, and with it all that it makes; null: never, or a user token. */
  tokenEnds: Date | null;
}

/** The account's part of a principal; undefined for a disabled account, whose tokens are refused. */
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
    },
    scopes: user.isAdministrator ? scopes : withoutAdministration(scopes),
  };
}

export const maySee = (principal: Principal, projectId: number) =>
  principal.projectIds === null || principal.projectIds.includes(projectId);
