/** The progress of a part of a project. Every method of a capability returns it. */

export type EngineOutcome<T = undefined> =
  /**
   * `restored`: descriptions of repairs after others changed or deleted objects: `Service auth, which was deleted`.
   * `lookAgainMs`: the time of a later clean-up. `databaseId`: the id of the project's database, if the request named
   * another one.
   */
  | { state: 'ready'; value: T; restored?: readonly string[]; lookAgainMs?: number; databaseId?: string }
  /** In progress. `message` is for the project's owner. `restored`: repairs that are not ready yet. */
  | { state: 'progressing'; reason?: string; message: string; lookAgainMs: number; restored?: readonly string[] }
  /**
   * `retry`: the same call may succeed later. `terminal`: only a change of the object can help, so there is no retry
   * before. `reason` is CamelCase, for programs.
   */
  | { state: 'failed'; reason: string; message: string; retry: boolean; terminal?: true };

/** A part that has a condition of its own. */
export interface EnginePart {
  condition: string;
  outcome: EngineOutcome;
  /** True for a condition that does not count for the readiness of the project. */
  advisory?: boolean;
}
