/**
 * Finds the addresses of the cluster's parts. The tests connect by address, because a pod without DNS could not resolve
 * a name.
 */
import type { KubeObject } from '@slipway/kubernetes';
import { withClient } from '@slipway/kubernetes/testing.js';
import type { Address, Pod } from './shell.js';

interface Service extends KubeObject {
  spec: { clusterIP?: string; selector?: Record<string, string> };
}
interface RunningPod extends KubeObject {
  status: { phase: string; podIP: string };
}
interface Node extends KubeObject {
  status: {
    addresses: { type: string; address: string }[];
    daemonEndpoints?: { kubeletEndpoint?: { Port: number } };
  };
}
interface Endpoints extends KubeObject {
  subsets: { addresses: { ip: string }[]; ports: { port: number }[] }[];
}

export class Places {
  constructor(private readonly kubeconfig: string) {}

  /** Returns the address of a Service. */
  async service(namespace: string, name: string, port: number): Promise<Address> {
    const { spec } = await this.#get<Service>(`/api/v1/namespaces/${namespace}/services/${name}`);
    // A headless Service has no address. Its pods have addresses.
    if (spec.clusterIP && spec.clusterIP !== 'None') return { host: spec.clusterIP, port };
    const labels = Object.entries(spec.selector ?? {}).map(([key, value]) => `${key}=${value}`);
    return await this.pod(namespace, labels.join(), port);
  }

  /** Returns the address of a running pod. */
  async pod(namespace: string, labels: string, port: number): Promise<Address> {
    const { status } = await this.#running(namespace, labels);
    return { host: status.podIP, port };
  }

  async shell(namespace: string, labels: string, speaks: Pod['speaks'], container?: string): Promise<Pod> {
    const { metadata } = await this.#running(namespace, labels);
    return { namespace, name: metadata.name, container, speaks };
  }

  /** Returns the address of a kubelet. */
  async kubelet(): Promise<Address> {
    const { items } = await this.#get<{ items: Node[] }>('/api/v1/nodes');
    const host = items[0]?.status.addresses.find(({ type }) => type === 'InternalIP')?.address;
    return { host: host as string, port: items[0]?.status.daemonEndpoints?.kubeletEndpoint?.Port ?? 10_250 };
  }

  /** Returns the address of the API server behind its Service. */
  async apiServer(): Promise<Address> {
    const { subsets } = await this.#get<Endpoints>('/api/v1/namespaces/default/endpoints/kubernetes');
    const [subset] = subsets;
    return { host: subset?.addresses[0]?.ip as string, port: subset?.ports[0]?.port as number };
  }

  async #running(namespace: string, labelSelector: string): Promise<RunningPod> {
    const path = `/api/v1/namespaces/${namespace}/pods`;
    const { items } = await this.#get<{ items: RunningPod[] }>(path, { labelSelector });
    const pod = items.find(({ metadata, status }) => status.phase === 'Running' && !metadata.deletionTimestamp);
    if (pod === undefined) throw new Error(`no pod of ${labelSelector} runs in ${namespace}`);
    return pod;
  }

  #get<T>(path: string, query?: Record<string, string>): Promise<T> {
    return withClient(this.kubeconfig, (client) => client.get<T>(path, query));
  }
}
