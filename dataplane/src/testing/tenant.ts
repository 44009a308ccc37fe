/** Project without a database for tests of the gateway and of functions. */
import { randomBytes } from 'node:crypto';
import { availableServices } from '@slipway/installation';
import type { BackendTenant } from '../projects/tenant.js';
import { signToken } from './project.js';

const NOWHERE = { host: '/nowhere', port: 1, database: 'none', user: 'none', password: 'none' };

/** Its keys have no valid signature, unless `own` has `signedKeys`. */
export const tenantWithoutDatabase = (ref: string, own: Partial<BackendTenant> = {}): BackendTenant => ({
  ref,
  revision: '1',
  incarnation: '1',
  suspended: false,
  kind: 'backend',
  upstream: 'pooled',
  jwtSecret: 'a secret that nothing signs with here',
  otherJwtSecrets: [],
  anonKey: `anon-key-of-${ref}`,
  serviceRoleKey: `service-role-key-of-${ref}`,
  url: `http://localhost:4000/p/${ref}`,
  type: 'shared',
  plan: 'free',
  services: new Set(availableServices('shared', 'free', {})),
  authenticator: NOWHERE,
  authAdmin: NOWHERE,
  owner: NOWHERE,
  replicationSlot: 'none',
  ...own,
});

export async function signedKeys(jwtSecret = randomBytes(32).toString('hex')) {
  return {
    jwtSecret,
    anonKey: await signToken({ role: 'anon' }, jwtSecret),
    serviceRoleKey: await signToken({ role: 'service_role' }, jwtSecret),
  };
}
