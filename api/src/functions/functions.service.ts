/** Edge functions over REST. Writes EdgeFunction resources, which the operator deploys, and shows their status. */
import { randomInt } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { API_VERSION, FUNCTION_BUDGET, hasOwnMachine, typeOf } from '@slipway/crds';
import { availableServices, machineFunctionsSocket, SECRETS, whyUnavailable } from '@slipway/installation';
import type { Principal } from '../callers/principal.js';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { missing, Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { SecretsOfProjects } from '../projects/project-secrets.js';
import { phaseOf } from '../projects/project-view.js';
import { ProjectsService } from '../projects/projects.service.js';
import { refuseSuspended } from '../projects/suspension.js';
import { refuseWithoutDatabase } from '../projects/without-database.js';
import { SETTINGS } from '../settings/injected.js';
import type { ApiSettings } from '../settings/settings.js';
import { checkCodeBudget } from './code-budget.js';
import type {
  FullFunction,
  FunctionChange,
  FunctionVersion,
  ListedFunction,
  LogLine,
  LogQuery,
  NewFunction,
} from './function.schema.js';
import { FunctionDeploys } from './function-deploys.js';
import { FunctionLogs } from './function-logs.js';
import { FunctionResources, type SeenFunction } from './function-resources.js';
import { fullOf, viewOf } from './function-view.js';
import { FunctionsRepository } from './functions.repository.js';

interface Found {
  project: SeenProject;
  object: SeenFunction;
}

@Injectable()
export class FunctionsService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly resources: FunctionResources,
    private readonly deploys: FunctionDeploys,
    private readonly rows: FunctionsRepository,
    private readonly logs: FunctionLogs,
    private readonly secrets: SecretsOfProjects,
    private readonly exclusive: ExclusiveWork,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

  async list(caller: Principal, projectId: number): Promise<ListedFunction[]> {
    const project = await this.findProject(caller, projectId);
    const before = await this.rows.uidsOf(projectId);
    const objects = await this.resources.list(project.metadata.name);
    const seen = objects.map(({ metadata }) => ({ uid: metadata.uid, name: metadata.name }));
    const ids = await this.rows.idsOf(projectId, seen, before);
    const listed = objects.map((object) => viewOf(ids.get(object.metadata.uid) as number, object));
    return listed.sort((a, b) => a.id - b.id);
  }

  async create(caller: Principal, projectId: number, input: NewFunction): Promise<FullFunction> {
    const project = await this.findProject(caller, projectId);
    this.refuseUnavailable(project);
    refuseUnready(project);
    // Name, count and bytes are checked before the resource is created.
    const make = () => this.make(projectId, project.metadata.name, input);
    return this.exclusive.run('projectFunctions', projectId, make);
  }

  private async make(projectId: number, ref: string, input: NewFunction): Promise<FullFunction> {
    const others = await this.resources.list(ref);
    if (others.some(({ spec }) => spec.name === input.name)) {
      throw new Problem('name_taken', `The project has a function named ${input.name}. Choose another name.`, {
        errors: [{ field: 'name', message: 'is the name of another function of the project' }],
      });
    }
    const { functionsOfProject } = FUNCTION_BUDGET;
    if (others.length >= functionsOfProject) {
      throw new Problem('project_limit', `A project has at most ${functionsOfProject} functions. Delete some first.`);
    }
    const { name, code, verify_jwt: verifyJwt = true } = input;
    checkCodeBudget(others, code);
    const object = await this.resources.create(ref, {
      apiVersion: API_VERSION,
      kind: 'EdgeFunction',
      metadata: { name: resourceName(name) },
      spec: { name, code, verifyJwt, deployedGeneration: 0 },
    });
    return fullOf(await this.rows.add(projectId, object.metadata.uid, object.metadata.name), object);
  }

  async read(caller: Principal, projectId: number, id: number): Promise<FullFunction> {
    return fullOf(id, (await this.find(caller, projectId, id)).object);
  }

  async change(caller: Principal, projectId: number, id: number, change: FunctionChange): Promise<FullFunction> {
    const { project, object } = await this.find(caller, projectId, id);
    const { code, verify_jwt: verifyJwt } = change;
    const spec = { ...(code === undefined ? {} : { code }), ...(verifyJwt === undefined ? {} : { verifyJwt }) };
    const write = async () => {
      if (code !== undefined) checkCodeBudget(await this.resources.list(project.metadata.name), code, object);
      return this.resources.patch(object, spec);
    };
    const changed = await (code === undefined ? write() : this.exclusive.run('projectFunctions', projectId, write));
    if (!changed) throw missing('function');
    return fullOf(id, changed);
  }

  async remove(caller: Principal, projectId: number, id: number): Promise<void> {
    await this.resources.remove((await this.find(caller, projectId, id)).object);
  }

  async deploy(caller: Principal, projectId: number, id: number, signal: AbortSignal): Promise<ListedFunction> {
    const { project, object } = await this.find(caller, projectId, id);
    refuseStandstill(project);
    return viewOf(id, await this.deploys.deploy(project.metadata.name, object, signal));
  }

  async rollback(
    caller: Principal,
    projectId: number,
    id: number,
    version: number,
    signal: AbortSignal,
  ): Promise<ListedFunction> {
    const { project, object } = await this.find(caller, projectId, id);
    refuseStandstill(project);
    return viewOf(id, await this.deploys.rollback(project.metadata.name, object, version, signal));
  }

  async versions(caller: Principal, projectId: number, id: number): Promise<FunctionVersion[]> {
    const { object } = await this.find(caller, projectId, id);
    const deployed = object.status?.deployedVersion;
    const versions = await this.resources.versions(object);
    return versions
      .sort((a, b) => b.version - a.version)
      .map(({ version, createdAt }) => ({ version, deployed: version === deployed, created_at: createdAt }));
  }

  async readLogs(caller: Principal, projectId: number, id: number, query: LogQuery): Promise<LogLine[]> {
    const { project, object } = await this.find(caller, projectId, id);
    const machine = hasOwnMachine(typeOf(project)) ? await this.secrets.database(project) : undefined;
    const host = machine?.[SECRETS.database.host];
    return this.logs.read(project.metadata.name, object.spec.name, query, host && machineFunctionsSocket(host));
  }

  private async findProject(caller: Principal, projectId: number): Promise<SeenProject> {
    const { project } = await this.projects.find(caller, projectId);
    refuseWithoutDatabase(project, 'edge functions');
    return project;
  }

  /** Finds a function of the project. The id of another project's function counts as unknown. */
  private async find(caller: Principal, projectId: number, id: number): Promise<Found> {
    const project = await this.findProject(caller, projectId);
    const row = await this.rows.byId(projectId, id);
    const object = row && (await this.resources.get(project.metadata.name, row.name));
    if (!object || object.metadata.uid !== row.uid) throw missing('function');
    return { project, object };
  }

  private refuseUnavailable(project: SeenProject): void {
    const type = typeOf(project);
    if (availableServices(type, project.spec.plan ?? 'free', this.settings.openedServices).includes('functions'))
      return;
    const { message, hint } = whyUnavailable('functions', type);
    throw new Problem('service_not_available', [message, hint].filter(Boolean).join('. '));
  }
}

/** Returns a valid resource name for a function's name. */
function resourceName(name: string): string {
  const plain =
    name
      .toLowerCase()
      .replaceAll('_', '-')
      .replaceAll(/^-+|-+$/g, '')
      .slice(0, 40) || 'function';
  return `${plain.replace(/-+$/, '')}-${randomInt(36 ** 6)
    .toString(36)
    .padStart(6, '0')}`;
}

function refuseStandstill(project: SeenProject): void {
  if (phaseOf(project) === 'deleting') throw new Problem('project_deleting', 'The project is being deleted.');
  refuseSuspended(project);
}

function refuseUnready(project: SeenProject): void {
  refuseStandstill(project);
  const phase = phaseOf(project);
  // A project that was healthy once has a namespace for its functions, even if it is unhealthy now.
  if (phase === 'error' && project.status?.url === undefined) {
    const why = project.status?.message ?? 'it failed';
    throw new Problem('project_not_ready', `The project is not provisioned: ${why}. Correct that first.`);
  }
  if (phase !== 'provisioning') return;
  throw new Problem(
    'project_not_ready',
    'The project is being provisioned. Poll /projects/{id}/status until it is healthy.',
    {
      headers: { 'retry-after': '1' },
    },
  );
}
