/**
 * Removes machines of projects, also while a call of the provider takes minutes. In: a project. Out: the progress of
 * its removal, which continues by itself.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { EngineOutcome, EngineProject } from '../../../capabilities/index.js';
import type { Labels } from '../provider.js';
import { ProviderError } from '../provider-error.js';
import { isRetained, labelsOf, retainedLabels, snapshotNameOf } from './labels.js';
import type { MachineOrders } from './machine-orders.js';
import { deleteRecord, findRecord } from './record.js';

type Removal = Pick<EngineProject, 'ref' | 'uid' | 'owner' | 'retain'>;

const LOOK_AGAIN_MS = 5_000;
/** A request that was sent may still be executed in this time. It is longer than the timeout of a request. */
const LATE_MS = 40_000;
const LATE_LOOK_MS = 2_000;

export class MachineRemovals {
  readonly #outcomes = new Map<string, EngineOutcome>();
  readonly #underWay = new Set<Promise<void>>();
  readonly #stop = new AbortController();

  constructor(
    private readonly orders: MachineOrders,
    private readonly onChange: (ref: string) => void,
    private readonly log: Logger,
    private readonly lateMs = LATE_MS,
  ) {}

  remove(removal: Removal): EngineOutcome {
    const { ref, uid } = removal;
    const known = this.#outcomes.get(uid);
    if (known?.state === 'progressing') return known;
    this.#outcomes.delete(uid);
    if (known) return known;
    const message = removal.retain ? 'keeping a snapshot of the machine' : 'deleting the machine';
    const progress: EngineOutcome = { state: 'progressing', message, lookAgainMs: LOOK_AGAIN_MS };
    this.#outcomes.set(uid, progress);
    const work = this.#remove(removal)
      .then(
        (): EngineOutcome => ({ state: 'ready', value: undefined }),
        (error: Error): EngineOutcome => {
          this.log.warn({ ref, why: error.message }, 'machine not removed yet');
          const reason = error instanceof ProviderError ? 'ProviderError' : 'MachineError';
          return { state: 'failed', reason, message: error.message, retry: true };
        },
      )
      .then((outcome) => {
        this.#underWay.delete(work);
        this.#outcomes.set(uid, outcome);
        this.onChange(ref);
      });
    this.#underWay.add(work);
    return progress;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('the operator ends'));
    await Promise.all(this.#underWay);
  }

  async #remove(removal: Removal): Promise<void> {
    const { provider, installation, client } = this.orders;
    const { signal } = this.#stop;
    const labels = labelsOf(installation, removal);
    const [machine] = removal.retain ? await provider.list(labels, signal) : [];
    if (machine) {
      await provider.shutDown(machine.id, signal);
      const description = `${removal.ref} of ${removal.owner}`;
      const request = { labels: retainedLabels(installation, removal), description };
      await provider.createSnapshot(machine.id, request, signal);
    }
    const record = await findRecord(client, removal);
    await this.orders.delete(removal, signal);
    if (record?.ordered && record.machineId === undefined) await this.#deleteLate(labels);
    await this.#deleteSnapshots(removal);
    await deleteRecord(client, removal);
  }

  /**
   * Deletes the snapshots that the owner named. If the project's data is to be retained and its machine was lost, the
   * data is in these snapshots alone, so they stay.
   */
  async #deleteSnapshots(removal: Removal): Promise<void> {
    const { signal } = this.#stop;
    const { provider, installation } = this.orders;
    const all = await provider.listSnapshots(labelsOf(installation, removal), signal);
    if (removal.retain && !all.some(({ labels }) => isRetained(labels))) return;
    for (const { id, labels } of all) {
      if (snapshotNameOf(labels) !== undefined) await provider.deleteSnapshot(id, signal);
    }
  }

  /**
   * Deletes a machine that the provider creates after the first deletion, because the request for it was interrupted.
   * The record stays until then, so that a killed operator waits again.
   */
  async #deleteLate(labels: Labels): Promise<void> {
    const { signal } = this.#stop;
    const { provider } = this.orders;
    const until = performance.now() + this.lateMs;
    while (performance.now() < until) {
      await sleep(Math.min(LATE_LOOK_MS, this.lateMs), undefined, { signal });
      if ((await provider.list(labels, signal)).length === 0) continue;
      await provider.delete(labels, signal);
      return;
    }
  }
}
