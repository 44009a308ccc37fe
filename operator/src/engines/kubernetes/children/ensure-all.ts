/** Makes several objects as they are wanted, side by side; what the API server refuses is an outcome that quotes it. */
import { refusedOutcome } from '../../../runtime/refusal.js';
import type { EngineOutcome } from '../../engine.js';
import type { Children, DesiredObject } from './children.js';

export async function ensureAll(children: Children, objects: readonly DesiredObject[]): Promise<EngineOutcome> {
  const results = await Promise.allSettled(objects.map((object) => children.ensure(object)));
  const failure = results.findIndex(({ status }) => status === 'rejected');
  if (failure >= 0) {
    const { kind, metadata } = objects[failure] as DesiredObject;
    const { reason } = results[failure] as PromiseRejectedResult;
    return refusedOutcome(reason, `the API server refuses ${kind} ${metadata.name}`);
  }
  const restored = results.flatMap((result) => (result.status === 'fulfilled' ? (result.value ?? []) : []));
  return { state: 'ready', value: undefined, ...(restored.length > 0 ? { restored } : {}) };
}

/** The outcome, and what had been put right before it. */
export function withRestored(outcome: EngineOutcome, restored: readonly string[] = []): EngineOutcome {
  if (outcome.state === 'failed' || restored.length === 0) return outcome;
  return { ...outcome, restored: [...restored, ...(outcome.restored ?? [])] };
}
