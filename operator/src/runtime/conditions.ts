/** Conditions by the Kubernetes API conventions: pure functions over a list. */
import type { Condition } from '@slipway/crds';

export type NewCondition = Pick<Condition, 'type' | 'status' | 'reason' | 'message'>;

/** Returns `conditions` with `next` in it. Its transition time changes only when its status does. */
export function withCondition(
  conditions: readonly Condition[],
  next: NewCondition,
  observedGeneration: number,
  now: Date,
): Condition[] {
  const before = conditions.find(({ type }) => type === next.type);
  const lastTransitionTime = before?.status === next.status ? before.lastTransitionTime : timestamp(now);
  const condition = { ...next, observedGeneration, lastTransitionTime };
  return before ? conditions.map((old) => (old === before ? condition : old)) : [...conditions, condition];
}

export const isTrue = (conditions: readonly Condition[] | undefined, type: string) =>
  conditions?.find((condition) => condition.type === type)?.status === 'True';

/** Formats a date as `metav1.Time` does: whole seconds, UTC. */
export const timestamp = (date: Date) => `${date.toISOString().slice(0, 19)}Z`;
