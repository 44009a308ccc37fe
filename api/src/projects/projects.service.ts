/** Projects over REST. Reads and writes Project resources, which the operator reconciles. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Inject, Injectable } from '@nestjs/common';
import {
  API_VERSION,
  DEFAULT_TYPE,
  hasOwnMachine,
  type Plan,
  type Project,
  type ProjectType,
  TYPES,
  typeOf,
} from '@slipway/crds';
import { SECRETS, targetsOf, whyTypeUnavailable } from '@slipway/installation';
import { isConflict } from '@slipway/kubernetes';
import { maySee, type Principal } from '../callers/principal.js';
import { ExclusiveWork } from '../database/exclusive-work.js';
import { invalid, missing, Problem } from '../http/problem.js';
import { Kubernetes } from '../kubernetes/client.js';
import { ANNOTATION_UPDATED, ProjectCache, type SeenProject } from '../kubernetes/project-cache.js';
import { SETTINGS } from '../settings/injected.js';
import type { Allowances, ApiSettings } from '../settings/settings.js';
import { RefTaken, withNewRef } from './new-ref.js';
import type {
  EnvVariable,
  FullProject,
  ListedProject,
  NewProject,
  ProjectChange,
  ProjectQuery,
  ProjectStatusAnswer,
} from './project.schema.js';
import { defaultTarget, envContent, refuseSettingsOfOthers, refuseTooManyBytes, specPatch } from './project-change.js';
import { ProjectIds } from './project-ids.js';
import { ProjectOwnersRepository } from './project-owners.repository.js';
import { SecretsOfProjects } from './project-secrets.js';
import { oneOfType } from './project-types.js';
import { fullOf, hasDatabase, nameOf, type ProjectSecrets, phaseOf, statusOf, summaryOf } from './project-view.js';
import { ProjectsRepository } from './projects.repository.js';
import { CREDENTIALS, type CredentialName, nextNumber } from './rotation.js';
import { refuseResumption } from './suspension.js';

/** Milliseconds for which a change of the webhook secret waits for a new project's Secret, and between two looks. */
const [KEYS_WAIT_MS, KEYS_LOOK_MS] = [5_000, 50];

export interface FoundProject {
  id: number;
  project: SeenProject;
}

@Injectable()
export class ProjectsService {
  constructor(
    private readonly rows: ProjectsRepository,
    private readonly ids: ProjectIds,
    private readonly owners: ProjectOwnersRepository,
    private readonly kubernetes: Kubernetes,
    private readonly cache: ProjectCache,
    private readonly secrets: SecretsOfProjects,
    private readonly exclusive: ExclusiveWork,
    @Inject(SETTINGS) private readonly settings: ApiSettings,
  ) {}

  async create(caller: Principal, input: NewProject): Promise<FullProject> {
    this.refuse(caller, input);
    const allowances = this.allowancesOf(caller);
    const maxMachines = hasOwnMachine(input.backend_type ?? DEFAULT_TYPE) ? allowances.maxMachines : undefined;
    const limits = { maxProjects: allowances.maxProjects, maxMachines };
    const { id, project } = await withNewRef(async (ref) => {
      const { id, owner } = await this.rows.reserve({ ref, ownerId: caller.user.id, name: input.name, ...limits });
      return { id, project: await this.createResource(id, resourceOf(ref, owner, input)) };
    }, this.settings.newRef);
    if (input.jwt_secret !== undefined) await this.bringJwtSecret(project, input.jwt_secret);
    await this.rows.markCreated(id, project.metadata.uid);
    return this.full(caller, { id, project }, {});
  }

  async list(
    caller: Principal,
    { limit, offset = 0, status, name }: ProjectQuery,
  ): Promise<{ page: ListedProject[]; total: number }> {
    await this.ids.settled();
    const isRequested = (project: SeenProject) =>
      (!status || phaseOf(project) === status) && (name === undefined || nameOf(project) === name);
    const seen = (await this.owners.ownedBy(caller.user.id))
      .flatMap(({ id, ref, uid }) => {
        const project = this.cache.get(ref);
        const isIt = project && (uid === null || uid === project.metadata.uid);
        return isIt && maySee(caller, id) && isRequested(project) ? [summaryOf(project, id, this.settings)] : [];
      })
      .sort((a, b) => a.id - b.id);
    return { page: seen.slice(offset, limit === undefined ? undefined : offset + limit), total: seen.length };
  }

  /** Returns the caller's project. Another account's project gets the same error as an unknown id. */
  async find(caller: Principal, id: number): Promise<FoundProject> {
    const row = maySee(caller, id) ? await this.rows.byId(id) : undefined;
    if (row?.ownerId !== caller.user.id) throw missing('project');
    const project = this.cache.get(row.ref) ?? (await this.fetch(row.ref));
    const isIt = project && (row.uid === null || row.uid === project.metadata.uid);
    if (!isIt) throw missing('project');
    return { id, project };
  }

  async read(caller: Principal, id: number): Promise<FullProject> {
    const own = await this.find(caller, id);
    return this.full(caller, own, await this.secrets.read(own.project));
  }

  /** Variables in a Secret that kubectl created are not read. */
  async listEnv(caller: Principal, id: number): Promise<EnvVariable[]> {
    const { project } = await this.find(caller, id);
    const isOurs = project.spec.env?.secretRef.name === SECRETS.env.name;
    const targets = isOurs ? targetsOf(await this.secrets.env(project)) : [];
    return [...targets].map(([key, target]) => ({ key, target }));
  }

  async change(caller: Principal, id: number, change: ProjectChange): Promise<FullProject> {
    const { project } = await this.find(caller, id);
    refuseDeleting(project);
    refuseSettingsOfOthers(project, change);
    if (change.database_project) await this.refuseLink(caller, change.database_project);
    if (isResumption(change)) refuseResumption(project);
    if (change.plan !== undefined) this.refusePlan(caller, project, change.plan);
    const apply = () => this.applyChange(project, change);
    const { name } = change;
    const work = name === undefined ? apply : () => this.rows.rename({ id, ownerId: caller.user.id, name }, apply);
    // Locked, as a removal during another change would delete the Secret that the other has just written.
    const patched = changesSecrets(change) ? await this.exclusive.run('projectSecrets', id, work) : await work();
    return this.full(caller, { id, project: patched }, await this.secrets.read(patched));
  }

  private refusePlan(caller: Principal, project: SeenProject, plan: Plan): void {
    const { plan: present = 'free' } = project.spec;
    if (plan === present) return;
    refuseUnlessAllowed(this.allowancesOf(caller), { plan });
    const plans = this.settings.site?.plans;
    if (!plans || !hasDatabase(project) || plans[plan].ownDatabase === plans[present].ownDatabase) return;
    const place = plans[plan].ownDatabase ? 'has a Postgres server of its own' : 'shares a Postgres server';
    const how = 'Create another project, and move the data with pg_dump.';
    throw invalid('plan', `a project of the plan ${plan} ${place}, and a database is not moved. ${how}`);
  }

  /** An app can read the keys of the project that it is linked to, so the caller must be able to. */
  private async refuseLink(caller: Principal, ref: string): Promise<void> {
    const field = 'database_project';
    const row = (await this.owners.ownedBy(caller.user.id)).find((own) => own.ref === ref);
    const found = row && maySee(caller, row.id) ? await this.find(caller, row.id) : undefined;
    if (!found || found.project.metadata.deletionTimestamp) {
      throw invalid(field, 'is the ref of no project of yours: GET /projects');
    }
    const type = typeOf(found.project);
    if (!hasDatabase(found.project) || hasOwnMachine(type)) {
      throw invalid(field, `is the ref of ${oneOfType(type)} project: an app is linked to a shared one`);
    }
    if (caller.scopes.includes('secrets:read')) return;
    throw new Problem('missing_scope', `${field} needs a token with the scope secrets:read.`);
  }

  private async applyChange(project: SeenProject, change: ProjectChange): Promise<SeenProject> {
    await this.putSecrets(project, change);
    const patched = await this.patch(project, specPatch(change));
    await this.removeSecrets(project, change);
    return patched;
  }

  /** The name stays taken until the Project is deleted, as the operator would reject another Project of the name. */
  async remove(caller: Principal, id: number): Promise<void> {
    const { project } = await this.find(caller, id);
    if (project.metadata.deletionTimestamp) return;
    const { name, uid } = project.metadata;
    const left = await this.kubernetes.deleteProject(name, uid);
    if (left) this.cache.put(left);
    else {
      this.cache.remove(project);
      await this.ids.reconcile();
    }
  }

  /** Returns the status, with the rotations that were requested. */
  async readStatus(caller: Principal, id: number): Promise<ProjectStatusAnswer> {
    const { project } = await this.find(caller, id);
    return statusOf(project, project.spec.rotation && (await this.secrets.credentials(project)));
  }

  /** Requests new credentials. The operator makes them, and takes the former ones out of use where it can. */
  async rotate(caller: Principal, id: number, names: readonly CredentialName[]): Promise<void> {
    const { project } = await this.find(caller, id);
    refuseDeleting(project);
    if (!hasDatabase(project)) {
      throw invalid('what', `${oneOfType(typeOf(project))} project has none of these credentials`);
    }
    const number = nextNumber(project, await this.secrets.credentials(project), names);
    const rotation = Object.fromEntries(names.map((name) => [CREDENTIALS[name].number, number]));
    // The operator rotates no JWT secret that the owner brought, so it is replaced.
    const isOwn = names.includes('jwt_secret') && project.spec.jwtSecretRef !== undefined;
    await this.patch(project, { rotation, ...(isOwn ? { jwtSecretRef: null } : {}) });
    if (isOwn) await this.secrets.remove(project, SECRETS.jwt.name);
  }

  private refuse(caller: Principal, input: NewProject): void {
    if (caller.projectIds !== null)
      throw new Problem('not_allowed', 'This token is limited to some projects and cannot create others.');
    refuseJwtSecretWithoutKeys(input);
    const unavailable = whyTypeUnavailable(input.backend_type ?? DEFAULT_TYPE, this.settings);
    if (unavailable)
      throw new Problem('backend_type_unavailable', unavailable, {
        errors: [{ field: 'backend_type', message: unavailable }],
      });
    const { plan = 'free', backend_type: type = DEFAULT_TYPE } = input;
    refuseUnlessAllowed(this.allowancesOf(caller), { plan, type });
  }

  private allowancesOf({ allowed }: Principal): Allowances {
    const { defaults } = this.settings.accounts;
    return {
      plans: allowed.plans ?? defaults.plans,
      types: allowed.types ?? defaults.types,
      maxProjects: allowed.maxProjects ?? defaults.maxProjects,
      maxMachines: allowed.maxMachines ?? defaults.maxMachines,
    };
  }

  private async fetch(ref: string): Promise<SeenProject | undefined> {
    const project = await this.kubernetes.getProject(ref);
    return project && this.cache.put(project);
  }

  /** Frees the id and the name if the server rejects the Project. After an uncertain error, `ProjectIds` settles it. */
  private async createResource(id: number, resource: Project): Promise<SeenProject> {
    try {
      return this.cache.put(await this.kubernetes.createProject(resource));
    } catch (error) {
      if (!(error instanceof Problem && error.kind === 'unavailable')) await this.rows.remove(id);
      throw isConflict(error) ? new RefTaken('another Project has the ref') : error;
    }
  }

  private async bringJwtSecret(project: SeenProject, secret: string): Promise<void> {
    try {
      await this.secrets.putJwtSecret(project, secret);
    } catch (error) {
      // No client knows this project, so it is deleted. If that fails too, `ProjectIds` deletes it.
      await this.kubernetes.deleteProject(project.metadata.name, project.metadata.uid).catch(() => undefined);
      throw error;
    }
  }

  /** Writes Secrets before the Project names them. */
  private async putSecrets(project: SeenProject, change: ProjectChange): Promise<void> {
    const { webhook_secret, github_token, slack_webhook } = change;
    // Checked before anything is written.
    if (change.env_vars) refuseTooManyBytes(change.env_vars);
    if (webhook_secret !== undefined) await this.changeWebhookSecret(project, webhook_secret);
    if (change.env_vars) await this.putEnv(project, change.env_vars);
    if (github_token) await this.secrets.putGitCredential(project, SECRETS.git.token, github_token);
    if (slack_webhook) await this.secrets.putSlackWebhook(project, slack_webhook);
  }

  /** A new project has its Secret in a fraction of a second, unless no operator runs. */
  private async changeWebhookSecret(project: SeenProject, secret: string): Promise<void> {
    for (const deadline = performance.now() + KEYS_WAIT_MS; performance.now() < deadline; await sleep(KEYS_LOOK_MS)) {
      if (await this.secrets.changeWebhookSecret(project, secret)) return;
    }
    throw new Problem('project_not_ready', 'webhook_secret can be set once the project is provisioned: try again.');
  }

  /** Merges with the present content. Callers must hold the lock `projectSecrets`. */
  private async putEnv(project: SeenProject, given: NonNullable<ProjectChange['env_vars']>): Promise<void> {
    const content = envContent(given, await this.secrets.env(project), defaultTarget(project));
    await this.secrets.putEnv(project, content);
  }

  /** Deletes Secrets that the Project no longer names. */
  private async removeSecrets(project: SeenProject, change: ProjectChange): Promise<void> {
    if (change.env_vars === null) await this.secrets.remove(project, SECRETS.env.name);
    if (change.github_token === null) await this.secrets.removeGitCredential(project, SECRETS.git.token);
    if (change.slack_webhook === null) await this.secrets.remove(project, SECRETS.notifications.name);
  }

  /** Changes only the named fields, so no concurrent write is lost. */
  async patch({ metadata }: SeenProject, spec: object, annotations: Record<string, string> = {}): Promise<SeenProject> {
    const { name, uid } = metadata;
    const body = {
      metadata: { uid, annotations: { ...annotations, [ANNOTATION_UPDATED]: new Date().toISOString() } },
      spec,
    };
    const patched = await this.kubernetes.patchProject(name, body).catch((error: unknown) => {
      if (isConflict(error)) return undefined;
      throw error;
    });
    if (!patched) throw missing('project');
    return this.cache.put(patched);
  }

  private full(caller: Principal, { id, project }: FoundProject, secrets: ProjectSecrets): FullProject {
    return fullOf(project, id, this.settings, secrets, caller.scopes.includes('secrets:read'));
  }
}

function resourceOf(ref: string, owner: string, input: NewProject): Project {
  const { name, region = 'eu-central', plan = 'free', backend_type: type = DEFAULT_TYPE } = input;
  const jwt =
    input.jwt_secret === undefined ? {} : { jwtSecretRef: { name: SECRETS.jwt.name, key: SECRETS.jwt.secret } };
  const spec = { name, owner, type, region, plan, ...jwt };
  return { apiVersion: API_VERSION, kind: 'Project', metadata: { name: ref }, spec };
}

function refuseUnlessAllowed(
  { plans: allowedPlans, types }: Allowances,
  { plan, type }: { plan: Plan; type?: ProjectType },
): void {
  const refuse = (field: string, value: string, allowed: readonly string[]) => {
    const may = allowed.length > 0 ? `may use ${allowed.join(', ')}` : 'may use none';
    const detail = `Your account may not use ${field} ${value}: it ${may}. An administrator can allow more.`;
    throw new Problem('plan_not_allowed', detail, { errors: [{ field, message: `the account ${may}` }] });
  };
  if (!allowedPlans.includes(plan)) refuse('plan', plan, allowedPlans);
  if (type !== undefined && !types.includes(type)) refuse('backend_type', type, types);
}

const changesSecrets = ({ env_vars, github_token, slack_webhook, webhook_secret }: ProjectChange) =>
  [env_vars, github_token, slack_webhook, webhook_secret].some((value) => value !== undefined);

function refuseJwtSecretWithoutKeys({ backend_type: type = DEFAULT_TYPE, jwt_secret }: NewProject): void {
  if (jwt_secret === undefined || TYPES[type].hasDatabase) return;
  throw invalid('jwt_secret', `${oneOfType(type)} project has no API keys for it to sign. Leave it out.`);
}

const isResumption = ({ suspended }: ProjectChange) => suspended === false || suspended === null;

export function refuseDeleting(project: Pick<Project, 'metadata'>) {
  if (project.metadata.deletionTimestamp)
    throw new Problem('project_deleting', 'The project is being deleted and cannot be changed.');
}
