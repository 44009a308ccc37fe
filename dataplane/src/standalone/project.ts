/**
 * The one project of a separate program, as its service expects it. In: the settings. Out: a tenant that never changes.
 */
import { DEFAULT_TYPE, type ProjectService } from '@slipway/crds';
import { JWT_KEYS } from '@slipway/installation/auth-settings.js';
import type { BackendTenant } from '../projects/tenant.js';
import type { Login } from '../sql/login.js';
import type { JwtSecrets } from './jwt-secrets.js';

/** Ignored variable, and the reason. */
export interface Ignored {
  name: string;
  reason: string;
}

export interface OnlyProject {
  service: ProjectService;
  serviceUrl: string;
  login: Login;
  secrets: JwtSecrets;
  authConfig: Readonly<Record<string, string>>;
}

export function onlyTenant({ service, serviceUrl, login, secrets, authConfig }: OnlyProject): BackendTenant {
  return {
    ref: login.database,
    revision: '1',
    incarnation: '1',
    suspended: false,
    kind: 'backend',
    upstream: 'pods',
    jwtSecret: secrets.current,
    otherJwtSecrets: secrets.others,
    // API keys are not checked here: the gateway that forwards requests has checked them.
    anonKey: '',
    serviceRoleKey: '',
    url: new URL(serviceUrl).origin,
    serviceUrl,
    authConfig: { ...authConfig, ...(secrets.asymmetric === undefined ? {} : { [JWT_KEYS]: secrets.asymmetric }) },
    type: DEFAULT_TYPE,
    plan: 'free',
    services: new Set([service]),
    // The service has one login, and needs no other.
    authenticator: login,
    authAdmin: login,
    owner: login,
    // Only the data plane reads changes.
    replicationSlot: '',
  };
}
