/**
 * Decides whether pods of builds get user namespaces of their own. In: the site's setting, and the features that each
 * node reports of its container runtime. A runtime without the feature does not start a pod that requests one.
 */
import type { Site } from '@slipway/installation';
import type { KubeClient, KubeObject } from '@slipway/kubernetes';

export interface NodeObject extends KubeObject {
  status?: { runtimeHandlers?: { name?: string; features?: { userNamespaces?: boolean } }[] };
}

export async function userNamespacesOn(
  client: Pick<KubeClient, 'eachOf'>,
  setting: Site['builds']['userNamespaces'],
): Promise<boolean> {
  if (setting !== 'auto') return setting === 'always';
  const able: boolean[] = [];
  await client.eachOf<NodeObject>({ path: '/api/v1/nodes' }, (node) => void able.push(isAble(node)));
  return able.length > 0 && able.every((each) => each);
}

/** The handler without a name runs the pods that name no RuntimeClass. */
export const isAble = ({ status }: NodeObject): boolean =>
  status?.runtimeHandlers?.some(({ name = '', features }) => name === '' && features?.userNamespaces === true) ?? false;
