/**
 * Walks through the public API of every Supabase client and of MCP, on a real cluster, in a project with its own pods.
 */
import { test } from 'uvu';
import { walkAll } from './clients/all.suite.js';
import { projectToWalk, type WalkedProject } from './clients/walked-project.js';
import { givenCluster } from './cluster/given.js';
import { type ClusterPlatform, startOnCluster } from './cluster/platform.js';

const cluster = givenCluster();
if (cluster) {
  let platform: ClusterPlatform;
  let walked: WalkedProject;
  test.before(async () => {
    platform = await startOnCluster(cluster.kubeconfig, cluster.overlay);
    walked = await projectToWalk(platform, 'starter');
  });
  test.after(async () => {
    if (walked) {
      const { person, project } = walked;
      await person.call('DELETE', `/projects/${project.id}`);
      await person.untilGone(project.id);
    }
    await platform?.close();
  });

  // On a cluster, auth sends requests only to the internet, so an issuer on this machine is left out.
  walkAll(
    test,
    () => walked,
    () => undefined,
  );
}

test.run();
