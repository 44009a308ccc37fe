/** Makes several objects as they are wanted, side by side; what the API server refuses is an outcome that quotes it. */
import { refusalOf } from '../../../runtime/refusal.js';
import type { EngineOutcome } from '../../engine.js';
import type { Children, DesiredObject } from './children.js';

export async function ensureAll(children: Children, objects: readonly DesiredObject[]): Promise<EngineOutcome> {
  const results = await Promise.allSettled(objects.map((object) => children.ensure(object)));
  const failure = results.findIndex(({ status }) => status === 'rejected');
  if (failure >= 0) {
    return failed(objects[failure] as DesiredObject, (results[failure] as PromiseRejectedResult).reason);
  }
  const restored = results.flatMap((result) => (result.status === 'fulfilled' ? (result.value ?? []) : []));
  return { state: 'ready', value: undefined, ...(restored.length > 0 ? { restored } : {}) };
}

/** What is no refusal is thrown on, to be tried again. */
function failed({ kind, metadata }: DesiredObject, error: unknown): EngineOutcome {
  const refusal = refusalOf(error);
  if (!refusal) throw error;
  const message = `the API server refuses ${kind} ${metadata.name}: ${refusal.words}`;
  return { state: 'failed', reason: refusal.reason, message, retry: true };
}

/** The outcome, and what had been put right before it. */
export function withRestored(outcome: EngineOutcome, restored: readonly string[] = []): EngineOutcome {
  if (outcome.state === 'failed' || restored.length === 0) return outcome;
  return { ...outcome, restored: [...restored, ...(outcome.restored ?? [])] };
}
