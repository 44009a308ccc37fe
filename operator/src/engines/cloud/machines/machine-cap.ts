/**
 * The number of machines that an installation may have, by REST and by kubectl. In: the machines at the provider. Out:
 * a place for the machine of a project, or the reason why there is none. Only the operator that leads gives places, so
 * they are kept in its memory; a machine that exists has one.
 */
import type { Machine } from '../provider.js';
import { uidOf } from './labels.js';
import { StageProblem } from './stages.js';

export interface MachineCapOptions {
  max: number;
  /** Returns all machines of the installation, as they are now. */
  list(signal: AbortSignal): Promise<readonly Machine[]>;
}

export class MachineCap {
  /** Uids of projects whose machine may be ordered at any moment. */
  readonly #claims = new Set<string>();
  /** Claims are decided one by one, so that two don't get the last place. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(private readonly options: MachineCapOptions) {}

  /** Rejects with a StageProblem if all places are taken. The place stays until `release`. */
  claim(uid: string, signal: AbortSignal): Promise<void> {
    const claimed = this.#turn.then(() => this.#claim(uid, signal));
    this.#turn = claimed.catch(() => undefined);
    return claimed;
  }

  release(uid: string): void {
    this.#claims.delete(uid);
  }

  async #claim(uid: string, signal: AbortSignal): Promise<void> {
    if (this.#claims.has(uid)) return;
    const { max, list } = this.options;
    const taken = new Set([...(await list(signal)).flatMap(({ labels }) => uidOf(labels) ?? []), ...this.#claims]);
    if (!taken.has(uid) && taken.size >= max) {
      const message =
        `this installation has its ${max} machines. Delete a dedicated project, ` +
        'or ask an administrator to increase SLIPWAY_HCLOUD_MAX_MACHINES.';
      throw new StageProblem('MachineLimit', message, false);
    }
    this.#claims.add(uid);
  }
}
