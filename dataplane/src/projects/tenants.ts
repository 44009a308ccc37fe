/**
 * Projects that this process serves, joined from their objects in the Kubernetes API. A backend needs its Project and
 * both Secrets, a site or an app only its Project. Projects that are being deleted are left out; suspended ones are
 * included.
 */
import { createHash } from 'node:crypto';
import {
  hasOwnMachine,
  isHosted,
  isSuspended,
  normalAddress,
  type Placement,
  type Project,
  TYPES,
  typeOf,
} from '@slipway/crds';
import {
  authAdminRole,
  authenticatorRole,
  availableServices,
  databaseIdOf,
  type Installation,
  namespaceOf,
  ownerRole,
  projectUrlOf,
  replicationSlotOf,
  SECRETS,
  siteUrlOf,
  variablesFor,
} from '@slipway/installation';
import type { Change, Informer, KubeObject } from '@slipway/kubernetes';
import { underWay } from '@slipway/program';
import { placeDatabase } from '../sql/account-shares.js';
import type { Login } from '../sql/login.js';
import { parseAppUpstream } from './app-upstream.js';
import { parseMachine } from './machine.js';
import type { AppTenant, BackendTenant, SiteTenant, Tenant, Upstream } from './tenant.js';

export type ProjectObject = Pick<Project, 'spec' | 'status'> & KubeObject;

export interface SecretObject extends KubeObject {
  data?: Record<string, string>;
}

type Values = Record<string, string>;

export interface TenantListener {
  /** Releases connections and caches of a project that was deleted, suspended or moved to another database. */
  onForget(ref: string): void;
  /** Called when a project's keys, settings or passwords change. */
  onChange(tenant: BackendTenant): void;
  /** Called when the environment of a project's functions changes. */
  onEnvironment?(ref: string): void;
}

/** Looks up the objects of projects. */
export interface Sources {
  projects: Informer<ProjectObject>;
  keys: Informer<SecretObject>;
  databases: Informer<SecretObject>;
  /** Optional: a project without the Secret has the default settings. */
  authConfigs: Informer<SecretObject>;
  /** Variables that owners set for functions; no other service reads them. */
  environments?: Informer<SecretObject>;
}

export class Tenants {
  readonly #tenants = new Map<string, Tenant>();
  /** Apps by the addresses of their containers. */
  readonly #apps = new Map<string, string>();

  constructor(
    private readonly sources: Sources,
    private readonly installation: Installation,
    private readonly listener: TenantListener,
  ) {
    const { projects, keys, databases, authConfigs, environments } = sources;
    projects.onChange((change) => {
      this.#placeContainers(change);
      this.#review(nameOf(change));
    });
    for (const secrets of [keys, databases, authConfigs]) secrets.onChange(ofRef((ref) => this.#review(ref)));
    environments?.onChange(ofRef((ref) => this.listener.onEnvironment?.(ref)));
  }

  get(ref: string): Tenant | undefined {
    return this.#tenants.get(ref);
  }

  /** Returns the environment of a project's functions, without its URL and keys. */
  environment(ref: string): Values {
    const { databases, environments } = this.sources;
    const url = valuesOf(databases, ref, SECRETS.database.name)?.[SECRETS.database.url];
    const content = environments && valuesOf(environments, ref, SECRETS.env.name);
    return { ...(content && variablesFor('runtime', content)), ...(url && { SUPABASE_DB_URL: url }) };
  }

  owner(ref: string): string | undefined {
    const owner = this.sources.projects.get(ref)?.spec.owner;
    return owner && normalAddress(owner);
  }

  /** Returns the project that a container at this address may reach. A transfer of either project ends the link. */
  linkedTo(address: string): string | undefined {
    const app = this.#apps.get(address);
    const project = app === undefined ? undefined : this.sources.projects.get(app)?.status?.databaseLink?.project;
    if (app === undefined || project === undefined) return undefined;
    return this.owner(app) === this.owner(project) ? project : undefined;
  }

  #review(ref: string): void {
    underWay(ref, 'project update');
    const known = this.#tenants.get(ref);
    const tenant = this.#join(ref);
    if (tenant?.revision === known?.revision) return;
    placeDatabase(ref, tenant?.kind === 'backend' && tenant.upstream !== 'machine' ? tenant.authenticator : undefined);
    if (tenant === undefined) this.#tenants.delete(ref);
    else this.#tenants.set(ref, tenant);
    if (known !== undefined && known.kind !== 'site') notify(this.listener, known, tenant);
  }

  #placeContainers({ before, after }: Change<ProjectObject>): void {
    for (const address of before?.status?.databaseLink?.addresses ?? []) {
      if (this.#apps.get(address) === before?.metadata.name) this.#apps.delete(address);
    }
    if (!after || after.metadata.deletionTimestamp || isSuspended(after)) return;
    for (const address of after.status?.databaseLink?.addresses ?? []) this.#apps.set(address, after.metadata.name);
  }

  #join(ref: string): Tenant | undefined {
    const project = this.sources.projects.get(ref);
    if (project === undefined || project.metadata.deletionTimestamp) return undefined;
    const type = typeOf(project);
    if (isHosted(type)) return type === 'app' ? this.#app(project) : this.#site(project);
    return TYPES[type].hasDatabase ? this.#backend(project) : undefined;
  }

  #site(project: ProjectObject): SiteTenant {
    const formsEnabled = project.spec.formsEnabled ?? false;
    const tenant = { kind: 'site' as const, formsEnabled, ...this.#hosted(project) };
    return { ...tenant, revision: digest(tenant, project.metadata.uid) };
  }

  #app(project: ProjectObject): AppTenant {
    const { metadata, spec, status } = project;
    const tenant = {
      kind: 'app' as const,
      ...this.#hosted(project),
      incarnation: digest(metadata.uid),
      account: normalAddress(spec.owner),
      upstream: parseAppUpstream(status?.upstream),
    };
    return { ...tenant, revision: digest(tenant) };
  }

  /** Returns the fields that a site and an app have. */
  #hosted(project: ProjectObject) {
    const ref = project.metadata.name;
    const siteUrl = siteUrlOf(this.installation, ref);
    return { ref, suspended: isSuspended(project), type: typeOf(project), siteUrl };
  }

  #backend(project: ProjectObject): BackendTenant | undefined {
    const { sources: secrets } = this;
    const ref = project.metadata.name;
    const type = typeOf(project);
    const keys = valuesOf(secrets.keys, ref, SECRETS.keys.name);
    const database = valuesOf(secrets.databases, ref, SECRETS.database.name);
    if (keys === undefined || database === undefined) return undefined;
    const { plan = 'free' } = project.spec;
    const jwtSecret = keys[SECRETS.keys.jwtSecret];
    const databaseId = databaseIdOf(ref, database);
    const login = (user: string, key: PasswordKey, nextKey: PasswordKey) =>
      loginOf(database, { ref, user, key, nextKey, account: normalAddress(project.spec.owner) });
    const authenticator = login(authenticatorRole(databaseId), 'authenticatorPassword', 'nextAuthenticatorPassword');
    const authAdmin = login(authAdminRole(databaseId), 'authAdminPassword', 'nextAuthAdminPassword');
    const owner = login(ownerRole(databaseId), 'ownerPassword', 'nextOwnerPassword');
    // An empty secret would verify forged tokens.
    if (!jwtSecret || !authenticator || !authAdmin || !owner) return undefined;
    const anonKey = keys[SECRETS.keys.anonKey] ?? '';
    const serviceRoleKey = keys[SECRETS.keys.serviceRoleKey] ?? '';
    const authConfig = valuesOf(secrets.authConfigs, ref, SECRETS.auth.name) ?? {};
    const services = availableServices(type, plan, this.installation.openedServices);
    const { host, port, database: name } = authenticator;
    const { placement = 'pooled', server } = project.status ?? {};
    const isOnMachine = hasOwnMachine(type);
    const machine = isOnMachine ? parseMachine(server) : undefined;
    const tenant = {
      kind: 'backend' as const,
      ref,
      incarnation: digest(project.metadata.uid, type, plan, host, port, name, machine),
      suspended: isSuspended(project),
      upstream: isOnMachine ? ('machine' as const) : UPSTREAMS[placement],
      ...(isOnMachine && { machine }),
      jwtSecret,
      otherJwtSecrets: otherSecrets(jwtSecret, keys[SECRETS.keys.nextJwtSecret], keys[SECRETS.keys.previousJwtSecret]),
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

/** Calls the listener after a project has changed from `known` to `tenant`. */
export function notify(
  listener: Pick<TenantListener, 'onChange' | 'onForget'>,
  known: BackendTenant | AppTenant,
  tenant: Tenant | undefined,
): void {
  const isSame = tenant?.kind === known.kind && tenant.incarnation === known.incarnation;
  if (!isSame || tenant.suspended) listener.onForget(known.ref);
  else if (tenant.kind === 'backend') listener.onChange(tenant);
}

const UPSTREAMS: Readonly<Record<Placement, Upstream>> = { pooled: 'pooled', deployments: 'pods' };

/** Returns the secrets that verify tokens beside the current one. With an empty secret anybody could sign. */
export const otherSecrets = (current: string, ...others: (string | undefined)[]): string[] =>
  others.filter((secret) => secret !== undefined && secret !== '' && secret !== current) as string[];

const nameOf = ({ before, after }: Change<ProjectObject>) => (after ?? (before as ProjectObject)).metadata.name;

const NAMESPACE_PREFIX = namespaceOf('');

/**
 * Calls `listener` with the project of a changed Secret. The namespace decides the project, because Secrets of
 * another namespace could have any label.
 */
const ofRef =
  (call: (ref: string) => void) =>
  ({ before, after }: Change<SecretObject>): void => {
    const { namespace = '' } = (after ?? (before as SecretObject)).metadata;
    if (namespace.startsWith(NAMESPACE_PREFIX)) call(namespace.slice(NAMESPACE_PREFIX.length));
  };

function valuesOf(secrets: Informer<SecretObject>, ref: string, name: string): Values | undefined {
  const secret = secrets.get(name, namespaceOf(ref));
  return secret && decode(secret);
}

const decode = ({ data = {} }: SecretObject): Values =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));

type PasswordKey = keyof typeof SECRETS.database;

interface Role {
  ref: string;
  user: string;
  key: PasswordKey;
  nextKey: PasswordKey;
  account: string | undefined;
}

function loginOf(values: Values, { ref, user, key, nextKey, account }: Role): Login | undefined {
  const { [key]: passwordKey, [nextKey]: nextPasswordKey, host, port, database } = SECRETS.database;
  const [password, nextPassword] = [values[passwordKey], values[nextPasswordKey]];
  if (!values[host] || !values[port] || !values[database] || !password) return undefined;
  const place = { host: values[host], port: Number(values[port]), database: values[database] };
  const login = { ...place, user, password, project: ref };
  return { ...login, ...(nextPassword ? { nextPassword } : {}), ...(account ? { account } : {}) };
}

export const digest = (...parts: unknown[]) => createHash('sha256').update(JSON.stringify(parts)).digest('base64url');
