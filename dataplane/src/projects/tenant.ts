/**
 * A project as the data plane needs it. A backend has services, callers and a database. A hosted project has only an
 * origin, and no database login: a site serves files there, and an app its container.
 */
import type { Plan, ProjectService, ProjectType } from '@slipway/crds';
import type { ApiRole } from '@slipway/installation';
import type { Login } from '../sql/login.js';

export type Tenant = BackendTenant | HostedTenant;
export type HostedTenant = SiteTenant | AppTenant;

interface AnyTenant {
  ref: string;
  /** Changes with any field of the tenant, which then is a new object. */
  revision: string;
  /** True if the project is suspended, so that no service responds. */
  suspended: boolean;
  type: ProjectType;
}

/**
 * Programs that serve a project: `pooled`, this data plane for all services; `pods`, the project's own for auth and
 * REST; `machine`, those on the project's own machine, with its database.
 */
export type Upstream = 'pooled' | 'pods' | 'machine';

export interface Machine {
  /** IPv4 address. */
  address: string;
  /** The only certificate that the machine may have, in PEM. */
  certificate: string;
}

interface AnyHostedTenant extends AnyTenant {
  /** Origin of the project, which no other one shares; undefined: this installation has no domain for projects. */
  siteUrl: string | undefined;
}

export interface SiteTenant extends AnyHostedTenant {
  kind: 'site';
  /** True if the site accepts posts of forms. */
  formsEnabled: boolean;
}

export interface AppTenant extends AnyHostedTenant {
  kind: 'app';
  /** Changes when another project has the ref, whose visitors must not keep the sockets of the former one. */
  incarnation: string;
  /** Account that owns the project. All its apps share the account's part of the limits. */
  account: string;
  /** Address of the running container; undefined: no version of the app is running. */
  upstream: AppUpstream | undefined;
}

export interface AppUpstream {
  host: string;
  port: number;
}

export interface BackendTenant extends AnyTenant {
  kind: 'backend';
  /**
   * Changes when the project gets another database, plan, machine or certificate of it, which makes its connections and
   * caches useless. Passwords may change without it.
   */
  incarnation: string;
  upstream: Upstream;
  /** Set only for the upstream `machine`; undefined there: the machine is not set up yet. */
  machine?: Machine | undefined;
  /** The secret that signs new tokens. */
  jwtSecret: string;
  /** Next and previous secret during a rotation, whose tokens are valid too. */
  otherJwtSecrets: readonly string[];
  anonKey: string;
  serviceRoleKey: string;
  /** Base URL of the project's services, without a trailing slash. */
  url: string;
  /** URL of the only service, in a program that runs one; otherwise each service has a path below `url`. */
  serviceUrl?: string;
  /** Content of the Secret `auth-config`, for auth, and for the gateway's signing keys. */
  authConfig?: Readonly<Record<string, string>>;
  plan: Plan;
  /** Services that the project has in this installation, whether or not this data plane runs them. */
  services: ReadonlySet<ProjectService>;
  authenticator: Login;
  authAdmin: Login;
  /**
   * Login of the database's owner, for migrations of schemas that the owner may change. Schema `auth` has another
   * owner.
   */
  owner: Login;
  /** Replication slot through which realtime reads changes. */
  replicationSlot: string;
}

/** Identity of the caller, which the gateway takes from a verified token, never from the request itself. */
export interface Caller {
  role: ApiRole;
  /** Payload of the verified token as JSON text, for `request.jwt.claims`. */
  claims: string;
}
