/**
 * The projects that this process serves, joined from what the Kubernetes API holds of each: the Project and its two
 * Secrets. A project is here when all three are, its type has services here, and it isn't being deleted; a suspended
 * one is, as such.
 */
import { createHash } from 'node:crypto';
import {
  authAdminRole,
  authenticatorRole,
  availableServices,
  databaseIdOf,
  type Installation,
  namespaceOf,
  ownerRole,
  type Project,
  projectUrlOf,
  replicationSlotOf,
  SECRETS,
} from '@slipway/crds';
import type { Login, Tenant } from '../tenant.js';
import type { WatchedObject } from './watch.js';

export type ProjectObject = Pick<Project, 'spec' | 'status'> &
  WatchedObject & { metadata: { uid?: string; deletionTimestamp?: unknown } };

export interface SecretObject extends WatchedObject {
  data?: Record<string, string>;
}

type Values = Record<string, string>;

/** The Secrets of one name, decoded, by the ref of whom they belong to. */
export class SecretsByRef {
  #values = new Map<string, Values>();

  constructor(private readonly onChange: (refs: Iterable<string>) => void) {}

  get(ref: string): Values | undefined {
    return this.#values.get(ref);
  }

  replace(secrets: SecretObject[]): void {
    const before = this.#values;
    this.#values = new Map();
    for (const secret of secrets) this.#set(secret);
    this.onChange(new Set([...before.keys(), ...this.#values.keys()]));
  }

  put(secret: SecretObject): void {
    const ref = this.#set(secret);
    if (ref !== undefined) this.onChange([ref]);
  }

  remove(secret: SecretObject): void {
    const ref = refOf(secret);
    if (ref !== undefined && this.#values.delete(ref)) this.onChange([ref]);
  }

  #set(secret: SecretObject): string | undefined {
    const ref = refOf(secret);
    if (ref !== undefined) this.#values.set(ref, decode(secret));
    return ref;
  }
}

export interface TenantListener {
  /** A project is gone, stands still, or has another database: nothing that was held of it is of use. */
  onForget(ref: string): void;
  /** A project's keys, settings or passwords are others. */
  onChange(tenant: Tenant): void;
  /** Called when the environment of a project's functions has changed. */
  onEnvironment?(ref: string): void;
}

export class Tenants {
  readonly keys = new SecretsByRef((refs) => this.#review(refs));
  readonly databases = new SecretsByRef((refs) => this.#review(refs));
  /** Optional: a project without one has every default. */
  readonly authConfigs = new SecretsByRef((refs) => this.#review(refs));
  /** Variables that owners set for their functions; no other service reads them. */
  readonly environments = new SecretsByRef((refs) => {
    for (const ref of refs) this.listener.onEnvironment?.(ref);
  });
  readonly #tenants = new Map<string, Tenant>();
  #projects = new Map<string, ProjectObject>();

  constructor(
    private readonly installation: Installation,
    private readonly listener: TenantListener,
  ) {}

  get(ref: string): Tenant | undefined {
    return this.#tenants.get(ref);
  }

  /** Returns the environment of a project's functions, without its address and keys. */
  environment(ref: string): Values {
    const url = this.databases.get(ref)?.[SECRETS.database.url];
    return { ...this.environments.get(ref), ...(url && { SUPABASE_DB_URL: url }) };
  }

  owner(ref: string): string | undefined {
    return this.#projects.get(ref)?.spec.owner;
  }

  replaceProjects(projects: ProjectObject[]): void {
    this.#projects = new Map(projects.map((project) => [project.metadata.name, project]));
    this.#review(new Set([...this.#tenants.keys(), ...this.#projects.keys()]));
  }

  putProject(project: ProjectObject): void {
    this.#projects.set(project.metadata.name, project);
    this.#review([project.metadata.name]);
  }

  removeProject(project: ProjectObject): void {
    this.#projects.delete(project.metadata.name);
    this.#review([project.metadata.name]);
  }

  #review(refs: Iterable<string>): void {
    for (const ref of refs) {
      const known = this.#tenants.get(ref);
      const tenant = this.#join(ref);
      if (tenant?.revision === known?.revision) continue;
      if (tenant === undefined) this.#tenants.delete(ref);
      else this.#tenants.set(ref, tenant);
      if (known !== undefined) this.#tell(known, tenant);
    }
  }

  #tell(known: Tenant, tenant: Tenant | undefined): void {
    const holds = tenant && !tenant.suspended && tenant.incarnation === known.incarnation;
    if (holds) this.listener.onChange(tenant);
    else this.listener.onForget(known.ref);
  }

  #join(ref: string): Tenant | undefined {
    const project = this.#projects.get(ref);
    const keys = this.keys.get(ref);
    const database = this.databases.get(ref);
    if (project === undefined || keys === undefined || database === undefined) return undefined;
    const { type = 'shared', plan = 'free' } = project.spec;
    if (project.metadata.deletionTimestamp || type !== 'shared') return undefined;
    const jwtSecret = keys[SECRETS.keys.jwtSecret];
    const databaseId = databaseIdOf(ref, database);
    const login = (user: string, key: PasswordKey, nextKey: PasswordKey) =>
      loginOf(database, { user, key, nextKey, account: project.spec.owner });
    const authenticator = login(authenticatorRole(databaseId), 'authenticatorPassword', 'nextAuthenticatorPassword');
    const authAdmin = login(authAdminRole(databaseId), 'authAdminPassword', 'nextAuthAdminPassword');
    const owner = login(ownerRole(databaseId), 'ownerPassword', 'nextOwnerPassword');
    // Without a secret every token would verify against the empty one.
    if (!jwtSecret || !authenticator || !authAdmin || !owner) return undefined;
    const anonKey = keys[SECRETS.keys.anonKey] ?? '';
    const serviceRoleKey = keys[SECRETS.keys.serviceRoleKey] ?? '';
    const authConfig = this.authConfigs.get(ref) ?? {};
    const services = availableServices(type, plan, this.installation.openedServices);
    const { host, port, database: name } = authenticator;
    const tenant = {
      ref,
      incarnation: digest(project.metadata.uid, type, plan, host, port, name),
      suspended: project.spec.suspend ?? false,
      placement: project.status?.placement ?? 'pooled',
      jwtSecret,
      otherJwtSecrets: otherSecrets(keys),
      anonKey,
      serviceRoleKey,
      url: projectUrlOf(this.installation, ref),
      type,
      plan,
      authenticator,
      authAdmin,
      owner,
      replicationSlot: replicationSlotOf(databaseId),
      authConfig,
    };
    return { ...tenant, services: new Set(services), revision: digest(tenant, services) };
  }
}

/** Never an empty one, which anybody could sign with. */
const otherSecrets = (keys: Values): string[] =>
  [keys[SECRETS.keys.nextJwtSecret], keys[SECRETS.keys.previousJwtSecret]].filter(
    (secret) => secret !== undefined && secret !== '' && secret !== keys[SECRETS.keys.jwtSecret],
  ) as string[];

const NAMESPACE_PREFIX = namespaceOf('');

/** Returns the project of a Secret, by its namespace: anyone who may write Secrets somewhere could write a label. */
function refOf({ metadata: { namespace = '' } }: SecretObject): string | undefined {
  return namespace.startsWith(NAMESPACE_PREFIX) ? namespace.slice(NAMESPACE_PREFIX.length) : undefined;
}

const decode = ({ data = {} }: SecretObject): Values =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));

type PasswordKey = keyof typeof SECRETS.database;

interface Role {
  user: string;
  key: PasswordKey;
  nextKey: PasswordKey;
  account: string | undefined;
}

function loginOf(values: Values, { user, key, nextKey, account }: Role): Login | undefined {
  const { [key]: passwordKey, [nextKey]: nextPasswordKey, host, port, database } = SECRETS.database;
  const [password, nextPassword] = [values[passwordKey], values[nextPasswordKey]];
  if (!values[host] || !values[port] || !values[database] || !password) return undefined;
  const place = { host: values[host], port: Number(values[port]), database: values[database] };
  return { ...place, user, password, ...(nextPassword ? { nextPassword } : {}), ...(account ? { account } : {}) };
}

const digest = (...parts: unknown[]) => createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
