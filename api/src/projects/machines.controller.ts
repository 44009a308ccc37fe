/**
 * Routes for the machine of a dedicated project: its services, their restarts and logs, its size, and another
 * attempt to provision it.
 */
import { Body, Controller, Param, Query } from '@nestjs/common';
import { ApiTags } from '@nestjs/swagger';
import { MACHINE_UNITS, systemdUnitOf } from '@slipway/crds';
import { Caller } from '../callers/caller.js';
import type { Principal } from '../callers/principal.js';
import { CallerSignal } from '../http/caller-signal.js';
import { Route } from '../http/route.js';
import {
  MachineServicePath,
  MachineServices,
  RestartableService,
  RestartedService,
  ServiceLogQuery,
  ServiceLogs,
} from './machine.schema.js';
import { MachinesService } from './machines.service.js';
import { ProjectId, Reprovisioned } from './project.schema.js';
import { DELETING, NO_PROJECT, NOT_DEDICATED } from './project-problems.js';
import { Resize, ResizeRequested } from './snapshot.schema.js';
import { UnitLogsService } from './unit-logs.service.js';

const EXAMPLE: MachineServices = {
  services: Object.fromEntries(
    MACHINE_UNITS.map((name, index) => [
      name,
      {
        status: 'running',
        unit: systemdUnitOf(name),
        since: '2026-01-05T10:00:00.000Z',
        restarts: 0,
        main_pid: 700 + index,
        memory_bytes: 61_000_000,
      },
    ]),
  ),
  observed_at: '2026-01-05T10:20:00.000Z',
};

const LOGS: ServiceLogs = {
  items: [
    {
      time: '2026-01-05T10:00:00.000Z',
      level: 'warn',
      message: 'request rejected method=POST path=/token status=400 code=invalid_credentials',
    },
  ],
};

@ApiTags('machines')
@Controller()
export class MachinesController {
  constructor(
    private readonly machines: MachinesService,
    private readonly logs: UnitLogsService,
  ) {}

  @Route('GET', '/projects/{id}/services', {
    summary: 'List the services on the machine of a dedicated project',
    description:
      'Responds with the last observation. The platform looks at the machine every 20 seconds. ' +
      'A service that was not observed yet is `unknown`.',
    access: 'projects:read',
    params: ProjectId,
    answer: { status: 200, description: 'The services.', schema: MachineServices, example: EXAMPLE },
    problems: {
      ...NO_PROJECT,
      400: { kind: 'wrong_type', text: 'The project is not dedicated, or the id is not valid.' },
    },
  })
  listMachineServices(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<MachineServices> {
    return this.machines.list(caller, id);
  }

  @Route('POST', '/projects/{id}/services/{service}/restart', {
    summary: 'Restart a service on the machine of a dedicated project',
    description:
      'Responds when systemd has restarted the service. Until then, the service responds with 502. ' +
      'If the machine does not respond over SSH, the restart stays requested: it happens when the machine responds.',
    access: 'projects:write',
    cost: 10,
    params: RestartableService,
    answer: {
      status: 200,
      description: 'The service was restarted.',
      schema: RestartedService,
      example: { ok: true, service: 'auth', systemd_unit: systemdUnitOf('auth'), status: 'running' },
    },
    problems: {
      ...NO_PROJECT,
      400: {
        kind: 'wrong_type',
        text: 'The project is not dedicated, this service can not be restarted, or the id is not valid.',
      },
      409: {
        kind: 'project_not_ready',
        text: 'The machine has no services yet, or the project is suspended or being deleted.',
      },
      500: { kind: 'restart_failed', text: 'The machine does not respond over SSH, or the restart failed.' },
    },
  })
  restartMachineService(
    @Caller() caller: Principal,
    @Param() { id, service }: RestartableService,
    @CallerSignal() signal: AbortSignal,
  ): Promise<RestartedService> {
    return this.machines.restart(caller, { id, service }, signal);
  }

  @Route('GET', '/projects/{id}/services/{service}/logs', {
    summary: 'Read the log of a service on the machine of a dedicated project',
    description:
      'Returns the newest lines of the service’s unit in the machine’s journal. ' +
      'Secrets are replaced by `[redacted]`. Statements and details of Postgres are left out, because they may have ' +
      'passwords and rows.',
    access: 'projects:read',
    cost: 5,
    params: MachineServicePath,
    query: ServiceLogQuery,
    answer: { status: 200, description: 'The lines.', schema: ServiceLogs, example: LOGS },
    problems: {
      ...NO_PROJECT,
      ...NOT_DEDICATED,
      409: {
        kind: 'project_not_ready',
        text: 'The machine has no services yet, or the project is suspended or being deleted.',
      },
      503: {
        kind: 'unavailable',
        text: 'The machine does not respond over SSH; `Retry-After` has the seconds to wait.',
      },
    },
  })
  readServiceLogs(
    @Caller() caller: Principal,
    @Param() path: MachineServicePath,
    @Query() query: ServiceLogQuery,
  ): Promise<ServiceLogs> {
    return this.logs.read(caller, path, query);
  }

  @Route('POST', '/projects/{id}/reprovision', {
    summary: 'Provision a failed dedicated project again',
    access: 'projects:write',
    cost: 20,
    params: ProjectId,
    answer: {
      status: 200,
      description: 'Provisioning restarts.',
      schema: Reprovisioned,
      example: { ok: true, server_type: 'cpx11', location: 'fsn1' },
    },
    problems: {
      ...DELETING,
      400: 'The project is not dedicated, has a server already, or did not fail; or the id is not valid.',
    },
  })
  reprovisionProject(@Caller() caller: Principal, @Param() { id }: ProjectId): Promise<Reprovisioned> {
    return this.machines.reprovision(caller, id);
  }

  @Route('POST', '/projects/{id}/resize', {
    summary: 'Give the machine of a dedicated project the size of its plan',
    description:
      'First change the plan: PATCH /projects/{id} with {"plan": …}. The machine is shut down for the change: ' +
      'until it runs again, the project’s services don’t respond. Responds at once; `machine.resize` of ' +
      '/projects/{id}/status shows the end. Without a body, the disk grows too.',
    access: 'projects:write',
    cost: 20,
    params: ProjectId,
    body: Resize,
    optionalBodyAs: ['application/json'],
    bodyExamples: { 'with the disk': {}, 'without the disk': { grow_disk: false } },
    answer: {
      status: 202,
      description: 'The resize is requested.',
      schema: ResizeRequested,
      example: { ok: true, size: 'cpx21', grow_disk: true },
    },
    problems: {
      ...NO_PROJECT,
      ...NOT_DEDICATED,
      409: { kind: 'project_not_ready', text: 'The project has no machine, or is suspended or being deleted.' },
    },
  })
  resizeProject(
    @Caller() caller: Principal,
    @Param() { id }: ProjectId,
    @Body() body: Resize,
  ): Promise<ResizeRequested> {
    return this.machines.resize(caller, id, body);
  }
}
