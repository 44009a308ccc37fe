/** Applies several objects concurrently. If the API server rejects an object, the outcome quotes the reason. */

import type { EngineOutcome } from '../../../capabilities/index.js';
import { refusedOutcome } from '../../../runtime/refusal.js';
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

/** Returns the outcome with earlier repairs added. */
export function withRestored(outcome: EngineOutcome, restored: readonly string[] = []): EngineOutcome {
  if (outcome.state === 'failed' || restored.length === 0) return outcome;
  return { ...outcome, restored: [...restored, ...(outcome.restored ?? [])] };
}
