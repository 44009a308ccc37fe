/**
 * Selects the Secrets whose values the engine needs in memory: those that it creates, because it compares them with the
 * live ones. Pure. In: the site's settings. Called once, for the operator's cache of Secrets.
 */

import { DATA_NAMESPACE, DEPLOYED_SERVICES, PART_POSTGRES, type Site } from '@slipway/installation';
import type { KubeObject } from '@slipway/kubernetes';
import { superuserSecretName } from './postgres-cluster/cluster.js';
import { environmentSecretOf, type ServiceName } from './services/deployment.js';

export function comparedSecrets({ images }: Pick<Site, 'images'>): (secret: KubeObject) => boolean {
  const environments = (Object.keys(DEPLOYED_SERVICES) as ServiceName[]).map(environmentSecretOf);
  const superuser = superuserSecretName({ namespace: '', name: PART_POSTGRES });
  const names = new Set([...environments, superuser, ...images.pullSecrets]);
  // In the namespace of shared servers no member of a project may write.
  return ({ metadata: { namespace, name } }) => namespace === DATA_NAMESPACE || names.has(name);
}
