/**
 * The one project that a program of its own serves, as its service takes it. In: what the environment says. Out: a
 * tenant that never changes.
 */
import type { ProjectService } from '@slipway/crds';
import { JWT_KEYS } from '../signing-keys.js';
import type { Login, Tenant } from '../tenant.js';
import type { JwtSecrets } from './jwt-secrets.js';

/** A variable that counts as absent, and why. */
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

export function onlyTenant({ service, serviceUrl, login, secrets, authConfig }: OnlyProject): Tenant {
  return {
    ref: login.database,
    revision: '1',
    incarnation: '1',
    suspended: false,
    placement: 'deployments',
    jwtSecret: secrets.current,
    otherJwtSecrets: secrets.others,
    // Nobody is asked for an API key here: whoever hands requests on has seen to it.
    anonKey: '',
    serviceRoleKey: '',
    url: new URL(serviceUrl).origin,
    serviceUrl,
    authConfig: { ...authConfig, ...(secrets.asymmetric === undefined ? {} : { [JWT_KEYS]: secrets.asymmetric }) },
    type: 'shared',
    plan: 'free',
    services: new Set([service]),
    // It has one login, and asks for no other.
    authenticator: login,
    authAdmin: login,
    owner: login,
    // The data plane alone reads changes.
    replicationSlot: '',
  };
}
