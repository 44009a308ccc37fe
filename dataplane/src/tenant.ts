/** A project as the data plane sees it: who may call, and how to reach its database. */
import type { ApiRole } from '@slipway/crds';

/** How one login role reaches the project's database, as `pg` takes it. */
export interface Login {
  host: string;
  port: number;
  database: string;
  user: string;
  password: string;
}

export interface Tenant {
  ref: string;
  /** Changes when anything below does: whoever caches by tenant compares it. */
  revision: string;
  jwtSecret: string;
  anonKey: string;
  serviceRoleKey: string;
  /** Base address of the project's services, without a slash at the end. */
  url: string;
  authenticator: Login;
  authAdmin: Login;
}

/** Who calls: decided by the gateway from a verified token, never by the request itself. */
export interface Caller {
  role: ApiRole;
  /** The verified token's payload as JSON text, as `request.jwt.claims` takes it. */
  claims: string;
}
