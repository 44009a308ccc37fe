/** A project as the data plane sees it: who may call, and how to reach its database. */
import type { ApiRole, Placement, Plan, ProjectService, ProjectType } from '@slipway/crds';

/** How one login role reaches the project's database, as `pg` takes it. */
export interface Login {
  host: string;
  port: number;
  database: string;
  user: string;
  password: string;
  /** The one that Postgres is about to take in its place. */
  nextPassword?: string | undefined;
  /** The account that owns the project, if it is known: the projects of one account share budgets. */
  account?: string | undefined;
}

export interface Tenant {
  ref: string;
  /** Changes when anything below does; the tenant is another object then. */
  revision: string;
  /**
   * Changes when the database is another one, or the plan: what was held of it is worthless then. While it is the same,
   * logins may get other passwords.
   */
  incarnation: string;
  /** It stands still: nothing is served. */
  suspended: boolean;
  /** Where its auth and rest answer from. */
  placement: Placement;
  /** The secret that signs new tokens. */
  jwtSecret: string;
  /** While secrets are rotated: what is about to sign, and what signed before. Their tokens are good as well. */
  otherJwtSecrets: readonly string[];
  anonKey: string;
  serviceRoleKey: string;
  /** Base address of the project's services, without a slash at the end. */
  url: string;
  /** Where the one service answers that a program of its own runs; elsewhere each has its place below `url`. */
  serviceUrl?: string;
  /** The Secret `auth-config`, as text. Auth reads it, and the gateway reads its signing keys. */
  authConfig?: Readonly<Record<string, string>>;
  type: ProjectType;
  plan: Plan;
  /** Which services it has in this installation, whether or not this data plane runs them. */
  services: ReadonlySet<ProjectService>;
  authenticator: Login;
  authAdmin: Login;
  /**
   * The owner of the database and of all in it but schema `auth`: runs migrations of schemas that the owner may change.
   */
  owner: Login;
  /** The slot by which realtime reads the changes of its database. */
  replicationSlot: string;
}

/** The caller's identity: the gateway takes it from a verified token, never from the request itself. */
export interface Caller {
  role: ApiRole;
  /** The verified token's payload as JSON text, as `request.jwt.claims` takes it. */
  claims: string;
}
