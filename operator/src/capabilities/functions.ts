/** Runs the functions of projects. Each method is idempotent: a repeated call changes nothing. */
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
  /** The code can't be served. The previous version is served as before. A retry with the same code is of no use. */
  | { state: 'refused'; problems: FunctionProblems }
  /** `lost`: the previous version is not served any longer. */
  | { state: 'busy'; message: string; lost?: true };

/** Receives `isLost`, which returns whether a project's functions may no longer be served. */
export type LossListener = (isLost: (ref: string) => boolean) => void;

export interface FunctionEngine {
  /** Serves this version. Replaces the previous one without a failed request. */
  ensureFunction(request: FunctionRequest): Promise<FunctionOutcome>;
  removeFunction(ref: string, name: string): Promise<void>;
  /** Calls the listener when the engine has lost deployed functions. */
  onLost?(listener: LossListener): void;
  /** Deletes functions that were removed while the engine was unreachable. */
  keepOnly?(isWanted: (ref: string, name: string) => boolean): void;
}
