import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { LABEL_PROJECT } from '@slipway/crds';

/** Names of the namespaces that belong to some project. */
export async function namespacesOfProjects(kubeconfig: string): Promise<string[]> {
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  const { items } = await config.makeApiClient(CoreV1Api).listNamespace({ labelSelector: LABEL_PROJECT });
  return items.map(({ metadata }) => metadata?.name ?? '').sort();
}
