/** Edge functions: REST writes EdgeFunction resources, the operator deploys them, and their status is what is shown. */
import { randomInt } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import { API_VERSION, availableServices, whyUnavailable } from '@slipway/crds';
import type { Principal } from '../access/principal.js';
import { missing, Problem } from '../http/problem.js';
import type { SeenProject } from '../kubernetes/project-cache.js';
import { SETTINGS } from '../platform.js';
import { hasDatabase, phaseOf, typeOf } from '../projects/project-view.js';
import { ProjectsService } from '../projects/projects.service.js';
import { refuseSuspended } from '../projects/suspension.js';
import type { ApiSettings } from '../settings.js';
import type {
  FullFunction,
  FunctionChange,
  FunctionVersion,
  ListedFunction,
  LogLine,
  LogQuery,
  NewFunction,
} from './function.schema.js';
import { FunctionLogs } from './function-logs.js';
import { FunctionResources, type SeenFunction } from './function-resources.js';
import { FunctionsRepository } from './functions.repository.js';

const FUNCTIONS_PER_PROJECT = 100;
/** A deploy that takes longer goes on, and its status tells. */
const DEPLOY_PATIENCE_MS = 60_000;
const LOOK_EVERY_MS = 50;
const DEPLOY_TRIES = 5;
const WAITING = 'waiting for the operator';

interface Found {
  id: number;
  project: SeenProject;
  object: SeenFunction;
}

@Injectable()
export class FunctionsService {
  constructor(
    private readonly projects: ProjectsService,
    private readonly resources: FunctionResources,
    private readonly rows: FunctionsRepository,
    private readonly logs: FunctionLogs,
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
    const ref = project.metadata.name;
    const others = await this.resources.list(ref);
    if (others.some(({ spec }) => spec.name === wish.name)) {
      throw new Problem('name_taken', `The project has a function named ${wish.name}. Choose another name.`, {
        errors: [{ field: 'name', message: 'is the name of another function of the project' }],
      });
    }
    if (others.length >= FUNCTIONS_PER_PROJECT) {
      throw new Problem(
        'project_limit',
        `A project has at most ${FUNCTIONS_PER_PROJECT} functions. Delete some first.`,
      );
    }
    const { name, code, verify_jwt: verifyJwt = true } = wish;
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
    const { object } = await this.find(caller, projectId, id);
    const { code, verify_jwt: verifyJwt } = change;
    const spec = { ...(code === undefined ? {} : { code }), ...(verifyJwt === undefined ? {} : { verifyJwt }) };
    const changed = await this.resources.patch(object, spec);
    if (!changed) throw missing('function');
    return fullOf(id, changed);
  }

  async remove(caller: Principal, projectId: number, id: number): Promise<void> {
    await this.resources.remove((await this.find(caller, projectId, id)).object);
  }

  /** Callers get the code as it is now; answers when they do, or with what is wrong with it. */
  async deploy(caller: Principal, projectId: number, id: number): Promise<ListedFunction> {
    for (let attempt = 1; attempt <= DEPLOY_TRIES; attempt += 1) {
      const { object, project } = await this.find(caller, projectId, id);
      refuseSuspended(project);
      const { generation, resourceVersion } = object.metadata;
      // The generation that this very change makes: the code is of it or of an earlier one, and no other change comes between.
      const spec = { deployedGeneration: generation + 1 };
      const patched = await this.resources.patch(object, spec, resourceVersion);
      if (!patched) continue;
      const seen = await this.whenSeen(patched);
      if (isAsPatched(seen, patched)) return answerOf(id, seen);
      // Changed again before the operator looked, the code may never have become a version of the generation that was asked for.
      if (await this.serves(seen, patched.spec.code)) return viewOf(id, seen);
      if (seen.spec.deployedGeneration !== spec.deployedGeneration) break;
    }
    throw changedByOthers();
  }

  async rollback(caller: Principal, projectId: number, id: number, version: number): Promise<ListedFunction> {
    const { object, project } = await this.find(caller, projectId, id);
    refuseSuspended(project);
    const versions = await this.resources.versions(object);
    if (!versions.some((kept) => kept.version === version)) throw missing('version of this function');
    const patched = await this.resources.patch(object, { deployedGeneration: version });
    if (!patched) throw missing('function');
    const seen = await this.whenSeen(patched);
    const isServed = seen.status?.deployedVersion === version;
    if (!isServed && seen.spec.deployedGeneration !== version) throw changedByOthers();
    if (!isServed && isWithoutVersion(seen)) {
      // Pruned since it was looked for: callers get again what they got before.
      const before = { deployedGeneration: object.spec.deployedGeneration ?? null };
      await this.resources.patch(seen, before, seen.metadata.resourceVersion);
      throw missing('version of this function');
    }
    return answerOf(id, seen);
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

  /** Of the project that the caller may see: an id of another project's function is as one that never was. */
  private async find(caller: Principal, projectId: number, id: number): Promise<Found> {
    const { project } = await this.projects.find(caller, projectId);
    const row = await this.rows.byId(projectId, id);
    const object = row && (await this.resources.get(project.metadata.name, row.name));
    if (!object || object.metadata.uid !== row.uid) throw missing('function');
    return { id, project, object };
  }

  private refuseUnavailable(project: SeenProject): void {
    const type = typeOf(project);
    if (availableServices(type, project.spec.plan ?? 'free', this.settings.openedServices).includes('functions'))
      return;
    const { message, hint } = whyUnavailable('functions', type);
    throw new Problem('service_not_available', [message, hint].filter(Boolean).join('. '));
  }

  private async serves(object: SeenFunction, code: string): Promise<boolean> {
    const versions = await this.resources.versions(object);
    return versions.find(({ version }) => version === object.status?.deployedVersion)?.code === code;
  }

  /** As it is once the operator is done with the change, or with a later one. */
  private async whenSeen(patched: SeenFunction): Promise<SeenFunction> {
    const deadline = performance.now() + DEPLOY_PATIENCE_MS;
    const ref = (patched.metadata.namespace ?? '').slice('p-'.length);
    for (;;) {
      const object = await this.resources.get(ref, patched.metadata.name);
      if (object?.metadata.uid !== patched.metadata.uid) throw missing('function');
      const { status } = object;
      const isSeen = (status?.observedGeneration ?? 0) >= patched.metadata.generation;
      if (isSeen && status?.phase !== 'pending') return object;
      if (performance.now() > deadline) return isSeen ? object : unseen(object);
      await pause(LOOK_EVERY_MS);
    }
  }
}

const changedByOthers = () => new Problem('conflict', 'The function is changed by others at the same time. Try again.');

/** Whether the status is of the very change, and of none that came after it. */
const isAsPatched = ({ status }: SeenFunction, patched: SeenFunction) =>
  status?.phase === 'pending' || status?.observedGeneration === patched.metadata.generation;

/** The operator serves an older version where the one that is asked for is no more, or none where there is no older one. */
const isWithoutVersion = ({ status }: SeenFunction) =>
  status?.phase === 'deployed' ||
  status?.conditions?.some(({ type, reason }) => type === 'Ready' && reason === 'NoSuchVersion');

/** The status of what was before the change says nothing about it. */
const unseen = (object: SeenFunction): SeenFunction => ({
  ...object,
  status: { conditions: [], ...object.status, phase: 'pending', message: WAITING },
});

function answerOf(id: number, object: SeenFunction): ListedFunction {
  if (object.status?.phase === 'error') throw refusalOf(object);
  return viewOf(id, object);
}

function refusalOf({ status }: SeenFunction): Problem {
  const problems = status?.problems ?? [];
  const errors = problems.map(({ message, line, column }) => ({
    field: 'code',
    message: line === undefined ? message : `line ${line}, column ${column}: ${message}`,
  }));
  return new Problem('function_invalid', status?.message ?? 'The function could not be deployed.', {
    errors,
    members: { problems: problemsOf(problems) },
  });
}

type Problems = NonNullable<NonNullable<SeenFunction['status']>['problems']>;
const problemsOf = (problems: Problems) =>
  problems.map(({ message, line, column }) => ({ message, line: line ?? null, column: column ?? null }));

function viewOf(id: number, { metadata, spec, status }: SeenFunction): ListedFunction {
  return {
    id,
    name: spec.name,
    status: status?.phase ?? 'pending',
    message: status?.message ?? WAITING,
    problems: problemsOf(status?.problems ?? []),
    version: status?.observedGeneration === metadata.generation ? (status.newestVersion ?? null) : null,
    deployed_version: status?.deployedVersion ?? null,
    verify_jwt: spec.verifyJwt ?? true,
    url: status?.url ?? '',
    created_at: metadata.creationTimestamp,
  };
}

const fullOf = (id: number, object: SeenFunction): FullFunction => ({ ...viewOf(id, object), code: object.spec.code });

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

function refuseUnready(project: SeenProject): void {
  const phase = phaseOf(project);
  if (phase === 'deleting') throw new Problem('project_deleting', 'The project is being deleted.');
  refuseSuspended(project);
  if (phase !== 'provisioning') return;
  throw new Problem(
    'project_not_ready',
    'The project is being provisioned. Poll /projects/{id}/status until it is healthy.',
    {
      headers: { 'retry-after': '1' },
    },
  );
}
