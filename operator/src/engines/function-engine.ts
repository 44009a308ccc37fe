/** Runs the functions of projects. Each verb is idempotent: a repeated call changes nothing. */
import type { EdgeFunctionStatus } from '@slipway/crds';

export interface FunctionRequest {
  ref: string;
  name: string;
  version: number;
  code: string;
  verifyJwt: boolean;
}

export type FunctionProblems = NonNullable<EdgeFunctionStatus['problems']>;

export type FunctionOutcome =
  | { state: 'ready' }
  /** The code can't be served; what was served before is as it was. Asking again with the same code is of no use. */
  | { state: 'refused'; problems: FunctionProblems }
  /** `lost`: what was served before is served no longer. */
  | { state: 'busy'; message: string; lost?: true };

/** `isLost`: whether a project's functions may be served no more. */
export type LossListener = (isLost: (ref: string) => boolean) => void;

export interface FunctionEngine {
  /** Serves this version, and swaps it for the one before without a failed request. */
  ensureFunction(request: FunctionRequest): Promise<FunctionOutcome>;
  removeFunction(ref: string, name: string): Promise<void>;
  /** Tells of functions that the engine was given and has lost. */
  onLost?(listener: LossListener): void;
  /** Deletes functions that were removed while the engine was unreachable. */
  keepOnly?(isWanted: (ref: string, name: string) => boolean): void;
}
