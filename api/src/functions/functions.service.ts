/** Edge functions: REST writes EdgeFunction resources, the operator deploys them, and their status is what is shown. */
import { randomInt } from 'node:crypto';
import { Inject, Injectable } from '@nestjs/common';
import { API_VERSION, availableServices, FUNCTION_BUDGET, whyUnavailable } from '@slipway/crds';
import type { Principal } from '../access/principal.js';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { missing, Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { SETTINGS } from '../platform.js';
import { hasDatabase, phaseOf, typeOf } from '../projects/project-view.js';
import { ProjectsService } from '../projects/projects.service.js';
import { refuseSuspended } from '../projects/suspension.js';
import type { ApiSettings } from '../settings.js';
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
    private readonly exclusive: ExclusiveWork,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

  async list(caller: Principal, projectId: number): Promise<ListedFunction[]> {
    const { project } = await this.projects.find(caller, projectId);
    const before = await this.rows.uidsOf(projectId);
    const objects = await this.resources.list(project.metadata.name);
    const seen = objects.map(({ metadata }) => ({ uid: metadata.uid, name: metadata.name }));
    const ids = await this.rows.idsOf(projectId, seen, before);
    const listed = objects.map((object) => viewOf(ids.get(object.metadata.uid) as number, object));
    return listed.sort((a, b) => a.id - b.id);
  }

  async create(caller: Principal, projectId: number, wish: NewFunction): Promise<FullFunction> {
    const { project } = await this.projects.find(caller, projectId);
    if (!hasDatabase(project)) throw new Problem('no_database', `A ${typeOf(project)} project has no edge functions.`);
    this.refuseUnavailable(project);
    refuseUnready(project);
    // The name, the count and the bytes are looked at before the resource is made.
    const make = () => this.make(projectId, project.metadata.name, wish);
    return this.exclusive.run('projectFunctions', projectId, make);
  }

  private async make(projectId: number, ref: string, wish: NewFunction): Promise<FullFunction> {
    const others = await this.resources.list(ref);
    if (others.some(({ spec }) => spec.name === wish.name)) {
      throw new Problem('name_taken', `The project has a function named ${wish.name}. Choose another name.`, {
        errors: [{ field: 'name', message: 'is the name of another function of the project' }],
      });
    }
    const { functionsOfProject } = FUNCTION_BUDGET;
    if (others.length >= functionsOfProject) {
      throw new Problem('project_limit', `A project has at most ${functionsOfProject} functions. Delete some first.`);
    }
    const { name, code, verify_jwt: verifyJwt = true } = wish;
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
    return this.logs.read(project.metadata.name, object.spec.name, query);
  }

  /** Finds a function of the project. The id of another project's function counts as unknown. */
  private async find(caller: Principal, projectId: number, id: number): Promise<Found> {
    const { project } = await this.projects.find(caller, projectId);
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

/** A name that Kubernetes takes, whatever letters the function's own has. */
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
  // A project that was healthy once has a place for its functions, whatever is wrong now.
  if (phase === 'error' && project.status?.url === undefined) {
    const why = project.status?.message ?? 'it failed';
    throw new Problem('project_not_ready', `The project is not provisioned: ${why}. Put that right first.`);
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
