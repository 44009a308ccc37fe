/** Who asks, and what they may: made by the bearer strategy, read by guards and services. */
import type { Scope } from './scopes.js';

export interface Principal {
  user: { id: number; email: string; full_name: string | null; created_at: string };
  scopes: readonly Scope[];
  /** The only projects that it may see, when it is limited to some. */
  projectIds: readonly number[] | null;
  /** Of the personal access token that it came with, which is the parent of all that it makes; null: a user token. */
  tokenId: number | null;
  /** When a personal access token ends, and with it all that it makes; null: never, or a user token. */
  tokenEnds: Date | null;
}

export const maySee = (principal: Principal, projectId: number) =>
  principal.projectIds === null || principal.projectIds.includes(projectId);
