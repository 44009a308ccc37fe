/**
 * Registry of the one project of a machine. In: the project's document, a file that the operator replaces. Out: the
 * project, and calls of a listener when the file changes. A malformed file is logged, and the former project stays.
 */
import { type FSWatcher, readFileSync, watch } from 'node:fs';
import path from 'node:path';
import { PROJECT_SERVICES } from '@slipway/crds';
import { type MachineProject, readMachineProject } from '@slipway/installation';
import type { Logger } from 'pino';
import { digest, notify, otherSecrets, type Registry, type TenantListener } from '../projects/index.js';
import type { BackendTenant } from '../projects/tenant.js';

/** Milliseconds without a further change of the file after which it is read. */
const SETTLED_MS = 50;

interface Known {
  tenant: BackendTenant;
  project: MachineProject;
}

export class ProjectFile implements Registry {
  /** The file was read before anything else started. */
  readonly complete = true;
  #known: Known;
  #watcher: FSWatcher | undefined;
  #timer: NodeJS.Timeout | undefined;
  #listener: TenantListener | undefined;

  /** @throws Error that names the file, and each wrong member of it */
  constructor(
    private readonly file: string,
    private readonly log: Logger,
  ) {
    this.#known = read(file);
  }

  /** Reads the file again when another one replaces it, when it is written, and on SIGHUP. */
  watch(listener: TenantListener): void {
    this.#listener = listener;
    const name = path.basename(this.file);
    this.#watcher = watch(path.dirname(this.file), (_, changed) => {
      if (changed === null || changed === name) this.#reloadSoon();
    });
    this.#watcher.on('error', (err) => this.log.error({ err }, 'project file watch failed'));
    process.on('SIGHUP', this.#reload);
    // The file may have changed since it was read.
    this.#reload();
  }

  /** The project as the file last described it. */
  get now(): BackendTenant {
    return this.#known.tenant;
  }

  get revision(): string {
    return this.#known.project.revision;
  }

  get replicationPassword(): string {
    return this.#known.project.replication.password;
  }

  readonly tenant = (ref: string): BackendTenant | undefined => this.backend(ref);

  backend(ref: string): BackendTenant | undefined {
    const { tenant } = this.#known;
    return tenant.ref === ref ? tenant : undefined;
  }

  environment(): Record<string, string> {
    return this.#known.project.environment;
  }

  /** The machine has no other project with which an account could share. */
  readonly owner = (): undefined => undefined;

  readonly linkedTo = (): undefined => undefined;

  async close(): Promise<void> {
    process.off('SIGHUP', this.#reload);
    clearTimeout(this.#timer);
    this.#watcher?.close();
  }

  #reloadSoon(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(this.#reload, SETTLED_MS);
  }

  readonly #reload = (): void => {
    const before = this.#known;
    let next: Known;
    try {
      next = read(this.file);
      if (next.tenant.ref !== before.tenant.ref) throw new Error('ref is that of another project');
    } catch (error) {
      this.log.error({ reason: (error as Error).message, revision: this.revision }, 'project file rejected');
      return;
    }
    // Caches know a tenant by its object, which is a new one only if the tenant has changed.
    const isSame = next.tenant.revision === before.tenant.revision;
    this.#known = isSame ? { ...next, tenant: before.tenant } : next;
    const { ref } = next.tenant;
    if (!isSame && this.#listener) notify(this.#listener, before.tenant, next.tenant);
    if (digest(next.project.environment) !== digest(before.project.environment)) this.#listener?.onEnvironment?.(ref);
    if (digest(next.project) !== digest(before.project)) this.log.info({ revision: this.revision }, 'project changed');
  };
}

function read(file: string): Known {
  let text: string;
  try {
    text = readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`${file} can not be read (${(error as NodeJS.ErrnoException).code})`);
  }
  try {
    const project = readMachineProject(text);
    return { project, tenant: tenantOf(project) };
  } catch (error) {
    throw new Error(`${file} is malformed: ${(error as Error).message}`);
  }
}

function tenantOf({ ref, type, plan, url, jwt, apiKeys, logins, ...project }: MachineProject): BackendTenant {
  const { authenticator, authAdmin, owner } = logins;
  const services = PROJECT_SERVICES.filter((service) => project.services.includes(service));
  const { host, port, database } = authenticator;
  const tenant = {
    kind: 'backend' as const,
    ref,
    incarnation: digest(type, plan, host, port, database),
    suspended: false,
    upstream: 'pooled' as const,
    jwtSecret: jwt.secret,
    otherJwtSecrets: otherSecrets(jwt.secret, jwt.nextSecret, jwt.previousSecret),
    anonKey: apiKeys.anon,
    serviceRoleKey: apiKeys.serviceRole,
    url,
    type,
    plan,
    authenticator: loginOf(authenticator, ref),
    authAdmin: loginOf(authAdmin, ref),
    owner: loginOf(owner, ref),
    replicationSlot: project.replication.slot,
    authConfig: project.authConfig,
  };
  return { ...tenant, services: new Set(services), revision: digest(tenant, services) };
}

/** Copies only known members, because a later release may write others, which `pg` would read as options. */
const loginOf = (
  { host, port, database, user, password, nextPassword }: MachineProject['logins']['owner'],
  project: string,
) => ({ host, port, database, user, password, project, ...(nextPassword === undefined ? {} : { nextPassword }) });
