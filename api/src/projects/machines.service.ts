/**
 * The machines of dedicated projects over REST. Requests are numbers in `spec.machine`, which the operator answers in
 * `status.server`.
 */
import { Inject, Injectable } from '@nestjs/common';
import {
  hasOwnMachine,
  isRequestDone,
  MACHINE_UNITS,
  nextRequest,
  type Project,
  type RestartableUnit,
  SIZE_OF_PLAN,
  systemdUnitOf,
  typeOf,
} from '@slipway/crds';
import type { Principal } from '../callers/principal.js';
import { plans, regions } from '../discovery/catalogue.js';
import { Problem, retryLater } from '../http/problem.js';
import { ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import type { MachineService, MachineServices, RestartableService, RestartedService } from './machine.schema.js';
import { refuseWithoutMachine } from './machine-requests.js';
import type { Reprovisioned } from './project.schema.js';
import { ProjectRequests } from './project-requests.js';
import { refuseExceptDedicated } from './project-types.js';
import { phaseOf } from './project-view.js';
import { ProjectsService, refuseDeleting } from './projects.service.js';
import type { Resize, ResizeRequested } from './snapshot.schema.js';
import { refuseSuspended } from './suspension.js';

/** The operator needs up to 51 s for a service that does not stop. */
const RESTART_TIMEOUT_MS = 60_000;

type Server = NonNullable<NonNullable<Project['status']>['server']>;

@Injectable()
export class MachinesService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly requests: ProjectRequests,
    private readonly cache: ProjectCache,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

  async list(caller: Principal, id: number): Promise<MachineServices> {
    const { project } = await this.projects.find(caller, id);
    refuseExceptDedicated(project);
    const { units = {}, unitsObservedAt } = project.status?.server ?? {};
    return {
      services: Object.fromEntries(MACHINE_UNITS.map((name) => [name, serviceOf(systemdUnitOf(name), units[name])])),
      observed_at: unitsObservedAt ?? null,
    };
  }

  /** Resolves once the operator has restarted the service. `signal`: aborts if the caller disconnects. */
  async restart(
    caller: Principal,
    { id, service }: RestartableService,
    signal: AbortSignal,
  ): Promise<RestartedService> {
    const { project } = await this.projects.find(caller, id);
    refuseDeleting(project);
    refuseExceptDedicated(project);
    refuseSuspended(project);
    if (!project.status?.server?.units) {
      throw new Problem(
        'project_not_ready',
        'The machine has no services yet. GET /projects/{id}/status shows the progress.',
      );
    }
    let number = 0;
    await this.requests.write(id, project, ({ spec, status }) => {
      number = nextRequest(
        Math.max(spec.machine?.restarts?.[service] ?? 0, status?.server?.restarts?.[service]?.number ?? 0),
      );
      return { machine: { restarts: { [service]: number } } };
    });
    const { units, restarts } = await this.answered(project, { service, number }, signal);
    const error = restarts?.[service]?.error;
    if (error !== undefined)
      throw new Problem('restart_failed', `${systemdUnitOf(service)} was not restarted: ${error}`);
    const status = units?.[service]?.status ?? 'unknown';
    return { ok: true, service, systemd_unit: systemdUnitOf(service), status };
  }

  /** Waits for the operator's answer to the request. */
  private async answered(
    { metadata: { name, uid } }: SeenProject,
    { service, number }: { service: RestartableUnit; number: number },
    signal: AbortSignal,
  ): Promise<Server> {
    const timeout = AbortSignal.timeout(this.settings.restartTimeoutMs ?? RESTART_TIMEOUT_MS);
    const answer = await this.cache.until(
      name,
      (seen) => {
        if (seen?.metadata.uid !== uid || seen.metadata.deletionTimestamp) return { server: undefined };
        const { server } = seen.status ?? {};
        const done = server?.restarts?.[service]?.number;
        return done !== undefined && isRequestDone(done, number) ? { server } : undefined;
      },
      AbortSignal.any([signal, timeout]),
    );
    signal.throwIfAborted();
    if (!answer) {
      const detail =
        `The restart of ${systemdUnitOf(service)} is requested, and the platform's operator has not reported it yet. ` +
        'GET /projects/{id}/services shows `since` of the service. Do not repeat the request before.';
      throw retryLater('unavailable', detail, 30);
    }
    if (!answer.server) throw new Problem('project_deleting', 'The project is being deleted and cannot be changed.');
    return answer.server;
  }

  async reprovision(caller: Principal, id: number): Promise<Reprovisioned> {
    const { project } = await this.projects.find(caller, id);
    refuseReprovision(project);
    await this.requests.write(id, project, (current) => {
      refuseReprovision(current);
      return { machine: { provision: nextRequest(current.spec.machine?.provision) } };
    });
    const plan = plans.find((candidate) => candidate.id === (project.spec.plan ?? 'free'));
    const region = regions.find((candidate) => candidate.id === (project.spec.region ?? 'eu-central'));
    return { ok: true, server_type: plan?.server.type ?? '', location: region?.datacenter ?? '' };
  }

  /** Each call is a new request, because the plan may have changed during the last one. */
  async resize(caller: Principal, id: number, { grow_disk = true }: Resize): Promise<ResizeRequested> {
    const { project } = await this.projects.find(caller, id);
    refuseExceptDedicated(project);
    const written = await this.requests.write(id, project, (current) => {
      refuseSuspended(current);
      refuseWithoutMachine(current);
      const { spec, status } = current;
      const last = Math.max(spec.machine?.resize?.number ?? 0, status?.machine?.resize?.number ?? 0);
      return { machine: { resize: { number: nextRequest(last), keepDisk: grow_disk ? null : true } } };
    });
    return { ok: true, size: SIZE_OF_PLAN[written.spec.plan ?? 'free'], grow_disk };
  }
}

function serviceOf(unit: string, seen: NonNullable<Server['units']>[string] | undefined): MachineService {
  return {
    status: seen?.status ?? 'unknown',
    unit,
    since: seen?.since ?? null,
    restarts: seen?.restarts ?? null,
    main_pid: seen?.mainPid ?? null,
    memory_bytes: seen?.memoryBytes ?? null,
  };
}

function refuseReprovision(project: Project): void {
  const refusal = (detail: string) => new Problem('not_reprovisionable', detail);
  if (!hasOwnMachine(typeOf(project))) throw refusal('Only a dedicated project can be provisioned again.');
  if (project.status?.server) {
    const route = 'POST /projects/{id}/services/{service}/restart';
    throw refusal(`A server exists already. Restart its services instead: ${route}.`);
  }
  if (phaseOf(project) === 'error') return;
  const rule = 'Only a project whose provisioning failed can be provisioned again';
  throw refusal(`${rule}; this one is ${phaseOf(project)}.`);
}
