/**
 * Orders machines at a provider for projects. In: a project and the secrets of its machine. Out: the machine, and what
 * the status shows of it. Shared by the loops of all machines.
 */
import { MACHINE_SIZES, type MachineSize, type Region, SIZE_OF_PLAN } from '@slipway/crds';
import type { KubeClient } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import type { EngineProject, MachineView } from '../../../capabilities/index.js';
import type { Machine, MachineChoice, MachineProvider, MachineState } from '../provider.js';
import { isKind } from '../provider-error.js';
import { ensurePack, type Pack } from '../software/pack/pack.js';
import { PORTS } from '../software/state/firewall.js';
import { GoldenImage } from './golden-image.js';
import { labelsOf, labelsOfInstallation, type MachineOwner, nameOf } from './labels.js';
import { MachineCap } from './machine-cap.js';
import { type MachineRecord, restoringOf } from './record.js';
import { StageProblem } from './stages.js';
import { userDataOf } from './user-data.js';

export interface Reserved {
  project: EngineProject;
  record: MachineRecord;
  /** The nominal size of the machine. */
  size: MachineSize;
  choices: readonly MachineChoice[];
  key: string;
  firewall: string;
}

/** A machine that was ordered. */
export interface Ordered {
  view: MachineView;
  cores: number;
  memoryGb: number;
}

export interface MachineOrdersOptions {
  provider: MachineProvider;
  client: KubeClient;
  /** The label of this installation at the provider. */
  installation: string;
  /** The folder of the packed software. */
  packs: string;
  /** True if machines boot from a snapshot with the software. */
  snapshot: boolean;
  /** The most machines of projects. */
  maxMachines: number;
  log: Logger;
}

const IMAGE = 'debian-12';
const ANYWHERE = ['0.0.0.0/0', '::/0'];
/** Prices and types change rarely. */
const CHOICES_MS = 60 * 60_000;
const LIST_MS = 60_000;
const BETWEEN_REBOOTS_MS = 5 * 60_000;

export class MachineOrders {
  readonly #choices = new Map<Region, { until: number; found: Promise<MachineChoice[]> }>();
  #listed: { until: number; found: Promise<readonly Machine[]> } | undefined;
  #noRebootBefore = 0;
  #pack: Promise<Pack> | undefined;
  readonly #stop = new AbortController();

  readonly provider: MachineProvider;
  readonly client: KubeClient;
  readonly installation: string;
  readonly #cap: MachineCap;
  /** Undefined: each machine installs the software. */
  readonly #golden: GoldenImage | undefined;

  constructor(private readonly options: MachineOrdersOptions) {
    const { provider, client, installation, snapshot, maxMachines, log } = options;
    this.provider = provider;
    this.client = client;
    this.installation = installation;
    this.#cap = new MachineCap({
      max: maxMachines,
      list: (signal) => provider.list(labelsOfInstallation(installation), signal),
    });
    this.#golden = snapshot
      ? new GoldenImage({
          provider,
          installation,
          baseImage: IMAGE,
          choices: (region, signal) => this.#choicesIn(region, signal),
          firewall: (signal) => this.#firewall(signal),
          pack: () => this.pack(),
          log,
        })
      : undefined;
  }

  /** Prepares everything that a machine needs. Nothing is billed yet. */
  async reserve(project: EngineProject, record: MachineRecord, signal: AbortSignal): Promise<Reserved> {
    // A restore changes neither the size nor the plan.
    const restoring = restoringOf(record);
    const size = (restoring && (record.size as MachineSize | undefined)) ?? SIZE_OF_PLAN[project.plan];
    const { diskGb = 0 } = restoring ?? {};
    const offered = await this.#choicesIn(project.region, signal);
    const choices = offered.filter((choice) => choice.size === size && choice.diskGb >= diskGb);
    if (choices.length === 0) {
      const disk = restoring ? ` with a disk of ${diskGb} GB` : '';
      const lacking = `the provider has no machine of size ${size}${disk} in ${project.region}`;
      throw new StageProblem('NoSuchMachine', `${lacking}. Choose another region or plan.`, false);
    }
    await this.#cap.claim(project.uid, signal);
    const firewall = await this.#firewall(signal);
    const name = nameOf(this.installation, project);
    const key = await this.provider.ensureKey(
      { name, labels: labelsOf(this.installation, project), publicKey: record.sshPublicKey },
      signal,
    );
    return { project, record, size, choices, key, firewall };
  }

  /** Returns the machine of the project, a new one if there is none: from the snapshot that is being restored. */
  async create({ project, record, choices, key, firewall }: Reserved, signal: AbortSignal): Promise<Machine> {
    const restored = restoringOf(record)?.image;
    const snapshot = restored ?? (await this.#golden?.id(signal).catch(() => undefined));
    const request = {
      name: nameOf(this.installation, project),
      labels: labelsOf(this.installation, project),
      choices,
      image: snapshot ?? IMAGE,
      userData: userDataOf({ privateKey: record.bootPrivateKey, publicKey: record.bootPublicKey }),
      keys: [key],
      firewall,
    };
    try {
      return await this.provider.ensureMachine(request, signal);
    } catch (error) {
      // The snapshot may have been deleted, or need a larger disk.
      if (snapshot === undefined || restored !== undefined || !(isKind(error, 'invalid') || isKind(error, 'not-found')))
        throw error;
      return await this.provider.ensureMachine({ ...request, image: IMAGE }, signal);
    }
  }

  /** Makes the snapshot for further machines in the background, unless it exists. */
  beginSnapshot({ region }: EngineProject): void {
    this.#golden?.begin(region);
  }

  /** Undefined: it was deleted. */
  observe(machineId: string, signal: AbortSignal): Promise<Machine | undefined> {
    return this.provider.observe(machineId, signal);
  }

  /**
   * Returns the machine as it was within the last minute, if it had the expected state then, and observes it otherwise.
   * All loops share one list: 100 machines cost at most 240 requests an hour, not 2000 of the 3600 that the provider
   * allows.
   */
  async look(machineId: string, expected: MachineState, signal: AbortSignal): Promise<Machine | undefined> {
    const listed = await this.#list(signal);
    const found = listed.find(({ id, state }) => id === machineId && state === expected);
    return found ?? (await this.observe(machineId, signal));
  }

  /** Deletes everything of the project at the provider. Snapshots stay. */
  async delete(project: MachineOwner, signal: AbortSignal, { keepsPlace = false } = {}): Promise<void> {
    await this.provider.delete(labelsOf(this.installation, project), signal);
    if (!keepsPlace) this.#cap.release(project.uid);
  }

  /**
   * Returns false soon after another machine was rebooted: if all machines are unreachable at once, the network of the
   * operator is the likely cause.
   */
  claimReboot(): boolean {
    if (performance.now() < this.#noRebootBefore) return false;
    this.#noRebootBefore = performance.now() + BETWEEN_REBOOTS_MS;
    return true;
  }

  /** Forgets the list of machines, because one was changed. */
  forget(): void {
    this.#listed = undefined;
  }

  /** Returns what a machine of the region is made or resized to, by size and location. */
  async choicesOf(region: Region, signal: AbortSignal): Promise<readonly MachineChoice[]> {
    return this.#choicesIn(region, signal);
  }

  /** The size is that of the machine: the plan of the project may have changed since. */
  async viewOf(
    { region }: EngineProject,
    { size: recorded }: Pick<MachineRecord, 'size'>,
    machine: Machine,
    signal: AbortSignal,
  ): Promise<Ordered> {
    const { id, type, location, address, cores, memoryGb, diskGb } = machine;
    const size = recorded === undefined ? nominalSizeOf(machine) : (recorded as MachineSize);
    const choices = await this.#choicesIn(region, signal);
    const choice = choices.find((each) => each.type === type && each.location === location);
    const price = choice && { centsPerMonth: Math.round(choice.eurosPerMonth * 100) };
    const view = { id, type, size, cores, memoryGb, diskGb, ...price, location, ...(address && { address }) };
    return { view, cores, memoryGb };
  }

  /** Packs the software once for all machines. */
  pack(): Promise<Pack> {
    this.#pack ??= ensurePack(this.options.packs, this.#stop.signal).catch((error: unknown) => {
      this.#pack = undefined;
      throw error;
    });
    return this.#pack;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('the operator ends'));
    await this.#golden?.close();
    await this.#pack?.catch(() => undefined);
    await this.provider.close();
  }

  #firewall(signal: AbortSignal): Promise<string> {
    const rules = [
      ...PORTS.map((port) => ({ protocol: 'tcp', ports: String(port), sources: ANYWHERE }) as const),
      { protocol: 'icmp', sources: ANYWHERE } as const,
    ];
    const labels = labelsOfInstallation(this.installation);
    return this.provider.ensureFirewall({ name: `slipway-${this.installation}`, labels, rules }, signal);
  }

  /** The signal of one loop does not end the list of all. */
  #list(signal: AbortSignal): Promise<readonly Machine[]> {
    if (!this.#listed || this.#listed.until <= performance.now()) {
      const found = this.provider.list(labelsOfInstallation(this.installation), this.#stop.signal);
      this.#listed = { until: performance.now() + LIST_MS, found };
      found.catch(() => {
        if (this.#listed?.found === found) this.#listed = undefined;
      });
    }
    return untilAborted(this.#listed.found, signal);
  }

  #choicesIn(region: Region, signal: AbortSignal): Promise<MachineChoice[]> {
    const known = this.#choices.get(region);
    if (known && known.until > performance.now()) return known.found;
    const found = this.provider.choices(region, signal);
    found.catch(() => this.#choices.delete(region));
    this.#choices.set(region, { until: performance.now() + CHOICES_MS, found });
    return found;
  }
}

/** Returns the largest nominal size that the machine has the processors and the memory of. */
function nominalSizeOf({ cores, memoryGb }: Machine): MachineSize {
  const sizes = Object.keys(MACHINE_SIZES) as MachineSize[];
  const fitting = sizes.filter(
    (size) => MACHINE_SIZES[size].cores <= cores && MACHINE_SIZES[size].memoryGb <= memoryGb,
  );
  return fitting.at(-1) ?? 'cpx11';
}

const untilAborted = <T>(work: Promise<T>, signal: AbortSignal): Promise<T> =>
  new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener('abort', abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort));
  });
