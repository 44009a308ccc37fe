/**
 * Orders machines at a provider for projects. In: a project and the secrets of its machine. Out: the machine, and what
 * the status shows of it. Shared by the loops of all machines.
 */
import { MACHINE_SIZES, type Region, SIZE_OF_PLAN } from '@slipway/crds';
import type { KubeClient } from '@slipway/kubernetes';
import type { EngineProject, MachineView } from '../../../capabilities/index.js';
import type { Machine, MachineChoice, MachineProvider } from '../provider.js';
import { ensurePack, type Pack } from '../software/pack/pack.js';
import { PORTS } from '../software/state/firewall.js';
import { labelsOf, labelsOfInstallation, nameOf } from './labels.js';
import type { MachineRecord } from './record.js';
import { StageProblem } from './stages.js';
import { userDataOf } from './user-data.js';

export interface Reserved {
  project: EngineProject;
  record: MachineRecord;
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

const IMAGE = 'debian-12';
const ANYWHERE = ['0.0.0.0/0', '::/0'];
/** Prices and types change rarely. */
const CHOICES_MS = 60 * 60_000;

export class MachineOrders {
  readonly #choices = new Map<Region, { until: number; found: Promise<MachineChoice[]> }>();
  #pack: Promise<Pack> | undefined;
  readonly #stop = new AbortController();

  constructor(
    readonly provider: MachineProvider,
    readonly client: KubeClient,
    /** The label of this installation at the provider. */
    readonly installation: string,
    private readonly packs: string,
  ) {}

  /** Prepares everything that a machine needs. Nothing is billed yet. */
  async reserve(project: EngineProject, record: MachineRecord, signal: AbortSignal): Promise<Reserved> {
    const size = SIZE_OF_PLAN[project.plan];
    const choices = (await this.#choicesIn(project.region, signal)).filter((choice) => choice.size === size);
    if (choices.length === 0) {
      const lacking = `the provider has no machine of size ${size} in ${project.region}`;
      throw new StageProblem('NoSuchMachine', `${lacking}. Choose another region or plan.`, false);
    }
    const labels = labelsOfInstallation(this.installation);
    const firewall = await this.provider.ensureFirewall(
      {
        name: `slipway-${this.installation}`,
        labels,
        rules: [
          ...PORTS.map((port) => ({ protocol: 'tcp', ports: String(port), sources: ANYWHERE }) as const),
          { protocol: 'icmp', sources: ANYWHERE },
        ],
      },
      signal,
    );
    const name = nameOf(this.installation, project);
    const key = await this.provider.ensureKey(
      { name, labels: labelsOf(this.installation, project), publicKey: record.sshPublicKey },
      signal,
    );
    return { project, record, choices, key, firewall };
  }

  /** Returns the machine of the project, a new one if there is none. */
  create({ project, record, choices, key, firewall }: Reserved, signal: AbortSignal): Promise<Machine> {
    const request = {
      name: nameOf(this.installation, project),
      labels: labelsOf(this.installation, project),
      choices,
      image: IMAGE,
      userData: userDataOf({ privateKey: record.bootPrivateKey, publicKey: record.bootPublicKey }),
      keys: [key],
      firewall,
    };
    return this.provider.ensureMachine(request, signal);
  }

  /** Undefined: it was deleted. */
  observe(machineId: string, signal: AbortSignal): Promise<Machine | undefined> {
    return this.provider.observe(machineId, signal);
  }

  /** A type that is no longer sold is shown with the numbers of its nominal size. */
  async viewOf({ plan, region }: EngineProject, machine: Machine, signal: AbortSignal): Promise<Ordered> {
    const { id, type, location, address } = machine;
    const size = SIZE_OF_PLAN[plan];
    const choices = await this.#choicesIn(region, signal);
    const choice = choices.find((each) => each.type === type && each.location === location);
    const { cores, memoryGb, diskGb } = choice ?? MACHINE_SIZES[size];
    const price = choice && { centsPerMonth: Math.round(choice.eurosPerMonth * 100) };
    const view = { id, type, size, cores, memoryGb, diskGb, ...price, location, ...(address && { address }) };
    return { view, cores, memoryGb };
  }

  /** Packs the software once for all machines. */
  pack(): Promise<Pack> {
    this.#pack ??= ensurePack(this.packs, this.#stop.signal).catch((error: unknown) => {
      this.#pack = undefined;
      throw error;
    });
    return this.#pack;
  }

  async close(): Promise<void> {
    this.#stop.abort(new Error('the operator ends'));
    await this.#pack?.catch(() => undefined);
    await this.provider.close();
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
