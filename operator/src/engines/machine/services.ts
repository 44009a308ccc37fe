/** The services of one machine, where one data plane serves all projects. In: the data plane's address. */
import { availableServices, type OpenedServices } from '@slipway/installation';
import type {
  EngineOutcome,
  EnginePart,
  EngineProject,
  ProjectServices,
  ServicesOutcome,
  ServicesRequest,
  Usage,
} from '../../capabilities/index.js';
import type { PauseWatch } from '../pause-watch.js';
import { ServiceProbe } from '../service-probe.js';

export interface MachineServicesSettings {
  /** URL of the data plane. */
  dataplaneUrl: string;
  /** Returns the address of a project's services, for its status. */
  projectUrl(ref: string): string;
  /** Services that the settings open beyond the availability matrix. */
  openedServices?: OpenedServices;
  /** Undefined: pauses are detected only by the responses of projects. */
  pauses?: PauseWatch;
  /** The conditions of a project's certificates. Undefined: this machine orders none. */
  certificatesOf?(ref: string): readonly EnginePart[];
}

export class MachineServices implements ProjectServices {
  readonly #opened: OpenedServices;
  readonly #probe: ServiceProbe;
  readonly #certificatesOf: (ref: string) => readonly EnginePart[];

  constructor({
    dataplaneUrl,
    projectUrl,
    openedServices = {},
    pauses,
    certificatesOf = () => [],
  }: MachineServicesSettings) {
    this.#opened = openedServices;
    this.#certificatesOf = certificatesOf;
    this.#probe = new ServiceProbe(dataplaneUrl, projectUrl, pauses);
  }

  async ensure({ project, anonKey }: ServicesRequest): Promise<ServicesOutcome> {
    const parts = this.#certificatesOf(project.ref);
    if (project.suspended) return { outcome: { state: 'ready', value: { services: {} } }, parts };
    const available = availableServices(project.type, project.plan, this.#opened);
    const asked = await this.#probe.ask(project, anonKey, available);
    return { outcome: asked.state === 'ready' ? { ...asked, value: { services: asked.value } } : asked, parts };
  }

  verifiersAccept({ project, anonKey }: ServicesRequest): Promise<EngineOutcome> {
    return this.#probe.accepts(project.ref, anonKey);
  }

  storageUsage({ ref }: EngineProject, serviceRoleKey: string): Promise<Usage | undefined> {
    return this.#probe.storageUsage(ref, serviceRoleKey);
  }

  /** Nothing to do: the data plane drops a project by itself once the Project is deleted. */
  async remove(): Promise<void> {}

  close(): Promise<void> {
    return this.#probe.close();
  }
}
