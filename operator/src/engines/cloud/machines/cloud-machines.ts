/**
 * Machines of projects at a provider. In: the provider, the Kubernetes API, and folders for packs and sockets. Out: the
 * capability `machines`. Each project has a loop, which works by itself.
 */
import { createHash } from 'node:crypto';
import path from 'node:path';
import type { MachineProject } from '@slipway/installation';
import { machineProjectText } from '@slipway/installation';
import type { KubeClient } from '@slipway/kubernetes';
import type { Logger } from 'pino';
import type {
  EngineOutcome,
  EngineProject,
  FunctionEngine,
  MachineDocument,
  MachineProgress,
  Machines,
} from '../../../capabilities/index.js';
import type { MachineProvider } from '../provider.js';
import { projectFile, projectServices } from '../software/project-services.js';
import { POSTGRES_PORT, POSTGRES_SOCKET } from '../software/state/paths.js';
import { stateOf } from '../software/state/state.js';
import { openAccess } from './machine-access.js';
import { MachineDatabases } from './machine-databases.js';
import { type LoopLimits, MachineLoop, type StateMaker } from './machine-loop.js';
import { MachineOrders } from './machine-orders.js';
import { MachineRemovals } from './machine-removals.js';
import { MachineSweep } from './sweep.js';

export interface CloudMachinesOptions {
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
  /** The folder of sockets. Its path has at most 70 bytes. */
  sockets: string;
  /** Returns the password of the role that reads changes for realtime, in the Postgres at `host`. */
  replicationPassword(host: string): Promise<string>;
  /** True for the uid of a Project that exists. */
  isProject(uid: string): boolean;
  /** True if machines of no project are deleted. */
  deletesOrphans: boolean;
  /** Called with the number of machines of no project. */
  onOrphans(count: number): void;
  log: Logger;
  /** Shorter ones for tests. `late`: the time in which an interrupted creation may still be executed. */
  limits?: Partial<LoopLimits> & { late?: number };
}

type Removal = Parameters<Machines['remove']>[0];

export class CloudMachines implements Machines {
  readonly databases: MachineDatabases;
  readonly functions: FunctionEngine;
  readonly #orders: MachineOrders;
  readonly #removals: MachineRemovals;
  readonly #sweep: MachineSweep;
  readonly #loops = new Map<string, { uid: string; loop: MachineLoop }>();
  readonly #listeners: ((ref: string) => void)[] = [];

  constructor(private readonly options: CloudMachinesOptions) {
    const { provider, client, installation, packs, snapshot, maxMachines, log, limits } = options;
    this.#orders = new MachineOrders({ provider, client, installation, packs, snapshot, maxMachines, log });
    this.#removals = new MachineRemovals(this.#orders, (ref) => this.#changed(ref), log, limits?.late);
    const { isProject, deletesOrphans: deletes, onOrphans: onCount } = options;
    this.#sweep = new MachineSweep({ provider, installation, isProject, deletes, onCount, log });
    const loopOf = (ref: string) => this.#loops.get(ref)?.loop;
    this.databases = new MachineDatabases(loopOf, (uid) => this.#folderOf(uid));
    this.functions = {
      ensureFunction: async (request) => {
        const functions = loopOf(request.ref)?.access?.functions;
        return functions ? functions.ensure(request) : { state: 'busy', message: 'the machine does not run yet' };
      },
      removeFunction: async (ref, name) => loopOf(ref)?.access?.functions.remove(ref, name),
    };
  }

  async ensure(project: EngineProject): Promise<MachineProgress> {
    const loop = await this.#loopOf(project);
    loop.want(project);
    const stages = project.suspended ? SUSPENDED_STAGES : MACHINE_STAGES;
    const { outcome, parts } = loop.stages.progressOf(stages);
    return { outcome, parts, view: loop.view, answers: loop.answers, durations: loop.stages.durations };
  }

  async configure(project: EngineProject, document: MachineDocument) {
    const loop = await this.#loopOf(project);
    const digest = createHash('sha256').update(JSON.stringify(document)).digest('hex');
    loop.configure(this.#makerOf(project, document, digest), digest);
    const { outcome, parts } = loop.stages.progressOf(['configure', 'start']);
    if (outcome.state === 'ready') this.#orders.beginSnapshot(project);
    const filter = loop.hasFirewall ? READY : NO_FILTER;
    return {
      outcome: outcome.state === 'ready' && !loop.isConfigured(digest) ? CHANGING : outcome,
      parts: [...parts, { condition: 'PacketFilterLoaded', outcome: filter, advisory: true }],
    };
  }

  async remove(removal: Removal): Promise<EngineOutcome> {
    const known = this.#loops.get(removal.ref);
    if (known?.uid === removal.uid) {
      this.#loops.delete(removal.ref);
      await known.loop.close();
    }
    return this.#removals.remove(removal);
  }

  onChange(listener: (ref: string) => void): void {
    this.#listeners.push(listener);
  }

  /** Starts the background work. Call it when this operator leads. */
  begin(): void {
    this.#sweep.begin();
  }

  async close(): Promise<void> {
    this.#sweep.close();
    await Promise.all([...this.#loops.values()].map(({ loop }) => loop.close()));
    await this.#removals.close();
    await this.#orders.close();
  }

  /** A project of the same ref as a former one has another machine. */
  async #loopOf(project: EngineProject): Promise<MachineLoop> {
    const { ref, uid } = project;
    const known = this.#loops.get(ref);
    if (known?.uid === uid) return known.loop;
    const { replicationPassword, log, limits } = this.options;
    const loop = new MachineLoop(project, {
      orders: this.#orders,
      openAccess: (ssh, record) =>
        openAccess({
          ssh,
          record,
          folder: this.#folderOf(uid),
          replicationPassword: () => replicationPassword(hostOf(uid)),
          onChange: () => this.#changed(ref),
          log,
        }),
      onChange: () => this.#changed(ref),
      log,
      limits,
    });
    this.#loops.set(ref, { uid, loop });
    await known?.loop.close();
    return loop;
  }

  #makerOf({ uid }: EngineProject, document: MachineDocument, digest: string): StateMaker {
    return async ({ ordered: { cores, memoryGb }, record, platform }) => {
      const { replicationSlot: slot, logins, ...rest } = document;
      const password = await this.options.replicationPassword(hostOf(uid));
      const project: MachineProject = {
        ...rest,
        logins: onMachine(logins),
        revision: digest,
        replication: { slot, password },
      };
      const { id: release } = await this.#orders.pack();
      return stateOf({
        release,
        machine: { cores, memoryGb },
        superuserPassword: record.superuserPassword,
        certificate: { chain: record.certificate, privateKey: record.certificateKey },
        services: projectServices({ trustedProxies: [platform] }),
        files: [projectFile(machineProjectText(project))],
      });
    };
  }

  /** Uids are longer than the path of a socket may be. */
  #folderOf(uid: string): string {
    return path.join(this.options.sockets, createHash('sha256').update(uid).digest('hex').slice(0, 8));
  }

  #changed(ref: string): void {
    for (const listener of this.#listeners) listener(ref);
  }
}

const MACHINE_STAGES = ['reserve', 'create', 'boot', 'connect', 'install'] as const;
const SUSPENDED_STAGES = ['reserve', 'create', 'boot'] as const;
const CHANGING: EngineOutcome = {
  state: 'progressing',
  message: 'bringing changes to the machine',
  lookAgainMs: 5_000,
};
const READY: EngineOutcome = { state: 'ready', value: undefined };
const NO_FILTER: EngineOutcome = {
  state: 'failed',
  reason: 'PacketFilterNotLoaded',
  message:
    'the kernel of the machine loads no packet filter. The provider’s firewall is in place, but programs on the ' +
    'machine reach the provider’s metadata service, which has no secrets.',
  retry: false,
};

/** Returns the logins for programs on the machine itself. */
function onMachine({ authenticator, authAdmin, owner }: MachineDocument['logins']): MachineProject['logins'] {
  const place = { host: POSTGRES_SOCKET, port: POSTGRES_PORT };
  return {
    authenticator: { ...authenticator, ...place },
    authAdmin: { ...authAdmin, ...place },
    owner: { ...owner, ...place },
  };
}

/** A name of the machine's Postgres for derived passwords. It is no address. */
const hostOf = (uid: string) => `machine.${uid}`;
