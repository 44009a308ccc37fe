/** The input and the result of every bench. */
import type { Plan } from './measure/rounds.js';

export interface BenchContext {
  plan: Plan;
  /** The one part to measure, for a bench that has parts; undefined: all parts. */
  only: string | undefined;
  /** Folder of another built checkout, with which `releases` compares this one. */
  before: string | undefined;
  /** Environment of this process: its PATH is searched for programs, and child processes inherit it. */
  environment: NodeJS.ProcessEnv;
  /** Kubeconfig of a real Kubernetes API server; undefined: no server. */
  kubeconfig: string | undefined;
  /** Prints progress. */
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
  /** Parts that could not run, with what they need. */
  skipped: string[];
  data: unknown;
}

export type Bench = (context: BenchContext) => Promise<BenchResult>;

export type Closers = (() => unknown)[];

/** Runs `measure`, then calls the functions that it added to `closers`, also after a failure, in reverse order. */
export const closing =
  (measure: (context: BenchContext, closers: Closers) => Promise<BenchResult>): Bench =>
  async (context) => {
    const closers: Closers = [];
    try {
      return await measure(context, closers);
    } finally {
      for (const close of closers.reverse()) await close();
    }
  };

/** Returns the parts to measure. */
export function chosen<T>(parts: readonly T[], name: (part: T) => string, only: string | undefined): readonly T[] {
  const selected = parts.filter((part) => only === undefined || name(part) === only);
  if (selected.length === 0) throw new Error(`there is no part ${only}; there are: ${parts.map(name).join(', ')}`);
  return selected;
}

export const isMet = ({ value, target, bound }: Target) => (bound === 'at least' ? value >= target : value <= target);
