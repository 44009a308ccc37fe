/** The URLs of the single replicas of the shared data plane, each of which has its own state. */

import { PROGRAMS, SYSTEM_NAMESPACE } from '@slipway/installation';
import type { KubeClient } from '@slipway/kubernetes';

interface EndpointSlices {
  items: {
    addressType: string;
    endpoints?: { addresses: string[]; conditions?: { ready?: boolean } }[] | null;
    ports?: { port?: number }[] | null;
  }[];
}

/** `url`: URL of the Service of all replicas; or of a data plane that runs elsewhere, which then is the only one. */
export async function dataplaneOrigins(client: KubeClient, url: string): Promise<string[]> {
  const { hostname, origin } = new URL(url);
  if (!hostname.startsWith(`${PROGRAMS.dataplane}.`)) return [origin];
  const path = `/apis/discovery.k8s.io/v1/namespaces/${SYSTEM_NAMESPACE}/endpointslices`;
  const labelSelector = `kubernetes.io/service-name=${PROGRAMS.dataplane}`;
  const { items } = await client.get<EndpointSlices>(path, { labelSelector });
  const origins = items.flatMap(({ endpoints, ports, addressType }) => {
    const port = ports?.[0]?.port;
    const living = (endpoints ?? []).filter(({ conditions }) => conditions?.ready !== false);
    return living.flatMap(({ addresses: [address] }) => {
      const host = addressType === 'IPv6' ? `[${address}]` : address;
      return address && port ? [`http://${host}:${port}`] : [];
    });
  });
  return origins.length > 0 ? origins : [origin];
}
