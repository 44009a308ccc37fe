/**
 * Gives a machine the type of its project's plan, on request. The machine must be off for it. In: the machine, and the
 * request in the Project. Out: the answer, in the record. A request that the provider can't execute now stays pending.
 */
import { type MachineSize, type Plan, SIZE_OF_PLAN } from '@slipway/crds';
import { type Backoff, delayOf, parseJson } from '@slipway/program';
import type { MachineAnswers } from '../../../capabilities/index.js';
import type { Machine, MachineChoice } from '../provider.js';
import { ProviderError } from '../provider-error.js';
import type { MachineOrders } from './machine-orders.js';
import type { RecordHolder } from './project-snapshots.js';
import type { MachineRecord } from './record.js';
import { type MachineStages, StageProblem } from './stages.js';

export interface MaintainedMachine extends RecordHolder {
  /** Shuts the system down. */
  powerOff(machine: Machine, signal: AbortSignal): Promise<void>;
}

type Answer = NonNullable<MachineAnswers['resize']>;

const MOST_SHOWN = 500;

export const resizeAnswer = ({ resized }: Pick<MachineRecord, 'resized'>): Answer | undefined =>
  resized === undefined ? undefined : (parseJson(resized) as Answer);

/** Returns the text of an error for an answer. */
export const shownError = (error: unknown): string => (error as Error).message.slice(0, MOST_SHOWN);

/** True for an error of the provider that may pass, or that a person ends without a change of the request. */
export const isPending = (error: unknown): boolean =>
  error instanceof ProviderError
    ? error.kind === 'unavailable' || error.kind === 'unauthorized'
    : !(error instanceof StageProblem) || error.retryable;

/**
 * Returns the type for the plan at the location of the machine. Throws a StageProblem that names a plan that fits, if
 * the machine's disk is too large.
 */
export function targetOf(
  choices: readonly MachineChoice[],
  plan: Plan,
  { location, diskGb }: Pick<Machine, 'location' | 'diskGb'>,
): MachineChoice {
  const here = choices.filter((choice) => choice.location === location);
  const target = here.find(({ size }) => size === SIZE_OF_PLAN[plan]);
  if (!target) {
    const lacking = `The provider has no machine of the plan ${plan} at ${location}`;
    throw new StageProblem('NoSuchMachine', `${lacking}. Choose another plan.`, false);
  }
  if (target.diskGb >= diskGb) return target;
  const fits = (size: MachineSize) => here.some((choice) => choice.size === size && choice.diskGb >= diskGb);
  const plans = (Object.keys(SIZE_OF_PLAN) as Plan[]).filter((each) => fits(SIZE_OF_PLAN[each]));
  const remedy = plans[0] ? `The smallest plan that fits is ${plans[0]}.` : 'No plan fits.';
  const message = `The plan ${plan} has a disk of ${target.diskGb} GB, and the machine one of ${diskGb} GB.`;
  throw new StageProblem('NoSuchMachine', `${message} ${remedy}`, false);
}

export class MachineResize {
  #attempts = 0;
  /** No attempt is made before, on the clock of `performance.now()`. */
  #retryAt = 0;

  /** `retry`: the pauses after failed attempts, each of which switches the machine off. */
  constructor(
    private readonly orders: MachineOrders,
    private readonly stages: MachineStages,
    private readonly retry: Backoff,
  ) {}

  isDue({ project, record }: RecordHolder): boolean {
    const request = project.machine?.resize;
    const isAnswered = !request || resizeAnswer(record)?.number === request.number;
    return !isAnswered && performance.now() >= this.#retryAt;
  }

  /** Rejects if the request stays pending. The machine may be off afterwards. */
  async run(of: MaintainedMachine, id: string, signal: AbortSignal): Promise<void> {
    const request = of.project.machine?.resize;
    if (!request) return;
    const { number, keepDisk = false } = request;
    try {
      const size = await this.#resize(of, id, !keepDisk, signal);
      await of.change({ size, resized: JSON.stringify({ number, at: new Date().toISOString() } satisfies Answer) });
    } catch (error) {
      signal.throwIfAborted();
      if (isPending(error)) {
        this.#attempts += 1;
        this.#retryAt = performance.now() + delayOf(this.retry, this.#attempts);
        throw error;
      }
      const answer: Answer = { number, at: new Date().toISOString(), error: shownError(error) };
      await of.change({ resized: JSON.stringify(answer) });
    }
    this.#attempts = 0;
  }

  /** Returns the nominal size that the machine has then. A machine of the right type is not switched off. */
  async #resize(of: MaintainedMachine, id: string, growDisk: boolean, signal: AbortSignal): Promise<MachineSize> {
    const { project } = of;
    const { provider } = this.orders;
    const choices = await this.orders.choicesOf(project.region, signal);
    // The list of machines may be older than the last change.
    const observe = () => this.orders.observe(id, signal);
    const machine = await observe();
    if (!machine) throw new ProviderError('unavailable', `The machine ${id} does not exist at the provider.`);
    const { type, size } = targetOf(choices, project.plan, machine);
    if (machine.type === type) return size;
    this.stages.maintain(`changing the machine from ${machine.type} to ${type}; the machine is off`);
    await of.powerOff(machine, signal);
    try {
      await provider.resize(id, { type, growDisk }, signal);
    } catch (error) {
      // An interrupted request may have begun the change, which ended since.
      if (signal.aborted || (await observe())?.type !== type) throw error;
    }
    return size;
  }
}
