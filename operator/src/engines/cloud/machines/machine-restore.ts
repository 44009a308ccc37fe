/**
 * Decides that a machine gives way to one from a snapshot of the project. In: the request in the Project, and the
 * snapshots. Out: the decision in the machine's record, before anything is deleted. The snapshot stays.
 */
import { parseJson } from '@slipway/program';
import type { MachineAnswers } from '../../../capabilities/index.js';
import type { MachineOrders } from './machine-orders.js';
import { isPending, shownError } from './machine-resize.js';
import { isLastTry } from './machine-tries.js';
import type { ProjectSnapshots, RecordHolder } from './project-snapshots.js';
import { type MachineRecord, newBootKeys, type RecordChange, type Restoring, restoringOf } from './record.js';
import { type Failure, StageProblem } from './stages.js';

type Answer = NonNullable<MachineAnswers['restore']>;

export const restoreAnswer = ({ restored }: Pick<MachineRecord, 'restored'>): Answer | undefined =>
  restored === undefined ? undefined : (parseJson(restored) as Answer);

/** Returns the change of the record that answers the request. `error`: the snapshot could not be restored. */
export function answerOf({ number, snapshot }: Pick<Restoring, 'number' | 'snapshot'>, error?: string): RecordChange {
  const answer: Answer = { number, snapshot, at: new Date().toISOString(), ...(error !== undefined && { error }) };
  return { restored: JSON.stringify(answer) };
}

/** Returns the change of the record after the deletion of the machine. The disk of a snapshot has its host key. */
export function afterDeletion(record: MachineRecord): RecordChange {
  const { failing, failed = '0' } = record;
  const restoring = restoringOf(record);
  const failures = failing === 'restore' ? 0 : Number(failed) + 1;
  const { failure } = record;
  const error = restoring && isLastTry(failures) && failure ? (parseJson(failure) as Failure).message : undefined;
  return {
    machineId: undefined,
    ordered: undefined,
    ...(!restoring && { hostKey: undefined }),
    pinnedFor: undefined,
    rebootedAt: undefined,
    failing: undefined,
    failed: failures === 0 ? undefined : String(failures),
    ...(failures === 0 && { failure: undefined }),
    ...(restoring && error !== undefined && answerOf(restoring, error)),
    ...newBootKeys(),
  };
}

/** Returns the change of the record once the machine from a snapshot is configured. */
export function afterRestore(record: MachineRecord): RecordChange {
  const restoring = restoringOf(record);
  return restoring ? { restoring: undefined, ...answerOf(restoring) } : {};
}

/** True for a request that was neither answered nor begun. A suspended project is restored when it is resumed. */
function isDue({ project, record }: RecordHolder): boolean {
  const number = project.machine?.restore?.number;
  if (number === undefined || project.suspended) return false;
  if (number === restoreAnswer(record)?.number || number === restoringOf(record)?.number) return false;
  // A creation that was interrupted may still be executed, from another snapshot.
  return record.ordered === undefined || record.machineId !== undefined;
}

/**
 * From the decision on, the machine is deleted and made from the snapshot, also by another operator. Rejects if the
 * provider can't be used now; then the request stays pending.
 */
export async function decideRestore(
  orders: MachineOrders,
  snapshots: ProjectSnapshots,
  of: RecordHolder,
  signal: AbortSignal,
): Promise<void> {
  const request = of.project.machine?.restore;
  if (!request || !isDue(of)) return;
  try {
    await snapshots.read(of, signal);
    const found = snapshots.complete(request.snapshot);
    if (!found) {
      const message = `There is no complete snapshot ${request.snapshot}. Choose one of GET /projects/{id}/snapshots.`;
      throw new StageProblem('NoSuchSnapshot', message, false);
    }
    const restoring: Restoring = { ...request, image: found.id, diskGb: found.diskGb };
    const decision = { restoring: JSON.stringify(restoring) };
    // Nothing is deleted unless a machine can be ordered.
    await orders.reserve(of.project, { ...of.record, ...decision }, signal);
    await of.change({ ...decision, failing: 'restore' });
  } catch (error) {
    signal.throwIfAborted();
    if (isPending(error)) throw error;
    await of.change(answerOf(request, shownError(error)));
  }
}
