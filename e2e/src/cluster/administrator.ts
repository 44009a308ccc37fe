/** Registers an account on a cluster and makes it an administrator, with the admin command of the API's program. */
import { randomUUID } from 'node:crypto';
import { SYSTEM_NAMESPACE } from '@slipway/installation';
import { kubectl } from '../kubectl.js';
import { Management } from '../management.js';
import type { ClusterPlatform } from './platform.js';

/**
 * Returns the administrator with a user token. The overlay has open registration, so no setup code makes an
 * administrator.
 */
export async function registerAdministrator(platform: ClusterPlatform): Promise<Management> {
  const login = { email: `${randomUUID()}@example.com`, password: randomUUID() };
  await Management.register(platform, login.email, login.password);
  const program = ['exec', 'deploy/slipway-api', '--', 'node', 'api/dist/admin.js'];
  await kubectl(platform.kubeconfig, ['-n', SYSTEM_NAMESPACE, ...program, 'appoint', login.email]);
  const signedIn = Management.withToken(platform, login.email, '');
  const session = await signedIn.call<{ token: string }>('POST', '/auth/login', login);
  return Management.withToken(platform, login.email, session.body.token);
}
