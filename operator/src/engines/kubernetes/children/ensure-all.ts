/** Makes several objects as they are wanted, side by side; what the API server refuses is an outcome that quotes it. */
import { KubeError } from '../../../runtime/kube.js';
import type { EngineOutcome } from '../../engine.js';
import type { Children, DesiredObject } from './children.js';

/** Forbidden (quota, admission, rights), and invalid: the next try is refused alike until somebody changes something. */
const REFUSALS = new Set([403, 422]);
const QUOTE_LENGTH = 300;

export async function ensureAll(children: Children, objects: readonly DesiredObject[]): Promise<EngineOutcome> {
  const results = await Promise.allSettled(objects.map((object) => children.ensure(object)));
  const failure = results.findIndex(({ status }) => status === 'rejected');
  if (failure >= 0) {
    return refusal(objects[failure] as DesiredObject, (results[failure] as PromiseRejectedResult).reason);
  }
  const restored = results.flatMap((result) => (result.status === 'fulfilled' ? (result.value ?? []) : []));
  return { state: 'ready', value: undefined, ...(restored.length > 0 ? { restored } : {}) };
}

/** What is no refusal is thrown on, to be tried again. */
function refusal({ kind, metadata }: DesiredObject, error: unknown): EngineOutcome {
  if (!(error instanceof KubeError) || !REFUSALS.has(error.status) || /being terminated/.test(error.message))
    throw error;
  const reason = /exceeded quota/.test(error.message) ? 'QuotaExceeded' : error.reason;
  // The refusal of a Secret may hold what is in it.
  const said = kind === 'Secret' ? error.reason : error.message.slice(0, QUOTE_LENGTH);
  return { state: 'failed', reason, message: `the API server refuses ${kind} ${metadata.name}: ${said}`, retry: true };
}

/** The outcome, and what had been put right before it. */
export function withRestored(outcome: EngineOutcome, restored: readonly string[] = []): EngineOutcome {
  if (outcome.state === 'failed' || restored.length === 0) return outcome;
  return { ...outcome, restored: [...restored, ...(outcome.restored ?? [])] };
}
