/** Every operation, called by every kind of caller, on a real cluster. */
import { randomUUID } from 'node:crypto';
import { SYSTEM_NAMESPACE } from '@slipway/crds';
import { test } from 'uvu';
import { givenCluster } from './cluster/given.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';
import { kubectl } from './kubectl.js';
import { Management } from './management.js';
import { walkRoutes } from './route-walk.suite.js';

const cluster = givenCluster();
if (cluster) {
  let platform: ClusterPlatform;
  test.before(async () => {
    platform = await startOnCluster(cluster.kubeconfig, cluster.overlay);
  });
  test.after(async () => {
    await platform?.close();
  });

  // The overlay lets everyone register, so nobody is an administrator by a code.
  const administrator = async (scopes: string[]) => {
    const login = { email: `${randomUUID()}@example.com`, password: randomUUID() };
    await Management.register(platform, login.email, login.password);
    const program = ['exec', 'deploy/slipway-api', '--', 'node', 'api/dist/admin.js'];
    await kubectl(cluster.kubeconfig, ['-n', SYSTEM_NAMESPACE, ...program, 'appoint', login.email]);
    const signedIn = Management.withToken(platform, login.email, '');
    const session = await signedIn.call<{ token: string }>('POST', '/auth/login', login);
    const person = Management.withToken(platform, login.email, session.body.token);
    const made = await person.call<{ token: string }>('POST', '/tokens', { name: 'walk', scopes });
    return Management.withToken(platform, login.email, made.body.token);
  };
  walkRoutes(test, () => platform, administrator);
}

test.run();
