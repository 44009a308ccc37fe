/** The input and the result of every bench. */
import type { Plan } from './measure/rounds.js';

export interface BenchContext {
  plan: Plan;
  /** The one part to be measured, by a bench that has parts; undefined: all of it. */
  only: string | undefined;
  /** Another checkout, built, that `releases` measures this one against. */
  before: string | undefined;
  /** Environment of this process: its PATH is searched for programs, and child processes inherit it. */
  environment: NodeJS.ProcessEnv;
  /** Kubeconfig of a real Kubernetes API server; undefined: there is none. */
  kubeconfig: string | undefined;
  /** Tells what is being done. */
  say(text: string): void;
}

export interface Table {
  title: string;
  head: string[];
  rows: string[][];
}

export interface Target {
  what: string;
  value: number;
  target: number;
  /** Whether a good value is at least or at most the target. */
  bound: 'at least' | 'at most';
}

export interface BenchResult {
  tables: Table[];
  targets: Target[];
  /** Parts that could not run, and what they need. */
  skipped: string[];
  data: unknown;
}

export type Bench = (context: BenchContext) => Promise<BenchResult>;

/** The parts that are to be measured. */
export function chosen<T>(parts: readonly T[], name: (part: T) => string, only: string | undefined): readonly T[] {
  const found = parts.filter((part) => only === undefined || name(part) === only);
  if (found.length === 0) throw new Error(`there is no part ${only}; there are: ${parts.map(name).join(', ')}`);
  return found;
}

export const isMet = ({ value, target, bound }: Target) => (bound === 'at least' ? value >= target : value <= target);
