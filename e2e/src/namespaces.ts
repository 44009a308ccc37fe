import { LABEL_PROJECT } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import { withClient } from '@slipway/kubernetes/testing.js';

/** Returns the names of the namespaces that belong to a project. */
export async function namespacesOfProjects(kubeconfig: string): Promise<string[]> {
  const names: string[] = [];
  const request = { path: '/api/v1/namespaces', query: { labelSelector: LABEL_PROJECT } };
  await withClient(kubeconfig, (client) =>
    client.eachOf<KubeObject>(request, ({ metadata }) => void names.push(metadata.name)),
  );
  return names.sort();
}
