/** Calls every operation as every kind of caller, on a real cluster. */
import { test } from 'uvu';
import { registerAdministrator } from './cluster/administrator.js';
import { givenCluster } from './cluster/given.js';
import { platformOf } from './cluster/platform.js';
import { Management } from './management.js';
import { walkRoutes } from './route-walk.suite.js';

const cluster = givenCluster();
if (cluster) {
  const platform = platformOf(test, cluster);

  const administrator = async (scopes: string[]) => {
    const person = await registerAdministrator(platform());
    const made = await person.call<{ token: string }>('POST', '/tokens', { name: 'walk', scopes });
    return Management.withToken(platform(), person.email, made.body.token);
  };
  walkRoutes(test, platform, administrator);
}

test.run();
