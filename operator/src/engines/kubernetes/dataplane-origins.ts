/** Each replica of the shared data plane by itself: what one has learned, another may not have. */
import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/crds';
import type { KubeClient } from '../../runtime/kube.js';

interface EndpointSlices {
  items: {
    addressType: string;
    endpoints?: { addresses: string[]; conditions?: { ready?: boolean } }[] | null;
    ports?: { port?: number }[] | null;
  }[];
}

/** Empty where no data plane runs in the cluster. */
export async function dataplaneOrigins(client: KubeClient): Promise<string[]> {
  const path = `/apis/discovery.k8s.io/v1/namespaces/${SYSTEM_NAMESPACE}/endpointslices`;
  const labelSelector = `kubernetes.io/service-name=${PROGRAMS.dataplane}`;
  const { items } = await client.get<EndpointSlices>(path, { labelSelector });
  return items.flatMap(({ endpoints, ports, addressType }) => {
    const port = ports?.[0]?.port;
    const living = (endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false);
    return living.flatMap(({ addresses: [address] }) => {
      const host = addressType === 'IPv6' ? `[${address}]` : address;
      return address && port ? [`http://${host}:${port}`] : [];
    });
  });
}
