/**
 * Where things are on the cluster, by address and not by name: who can't ask for names must be shown not to reach what
 * has them.
 */
import { CoreV1Api, type KubeConfig } from '@kubernetes/client-node';
import type { Address, Pod } from './shell.js';

export class Places {
  readonly #api: CoreV1Api;

  constructor(config: KubeConfig) {
    this.#api = config.makeApiClient(CoreV1Api);
  }

  /** Returns the address of a Service. */
  async service(namespace: string, name: string, port: number): Promise<Address> {
    const { spec } = await this.#api.readNamespacedService({ namespace, name });
    // A headless one has no address: its pods have.
    if (spec?.clusterIP && spec.clusterIP !== 'None') return { host: spec.clusterIP, port };
    const labels = Object.entries(spec?.selector ?? {}).map(([key, value]) => `${key}=${value}`);
    return await this.pod(namespace, labels.join(), port);
  }

  /** Returns the address of a running pod. */
  async pod(namespace: string, labels: string, port: number): Promise<Address> {
    const { status } = await this.#running(namespace, labels);
    return { host: status?.podIP as string, port };
  }

  async shell(namespace: string, labels: string, speaks: Pod['speaks'], container?: string): Promise<Pod> {
    const { metadata } = await this.#running(namespace, labels);
    return { namespace, name: metadata?.name as string, container, speaks };
  }

  /** Where kubelets answer. */
  async kubelet(): Promise<Address> {
    const { items } = await this.#api.listNode();
    const addresses = items[0]?.status?.addresses ?? [];
    const host = addresses.find(({ type }) => type === 'InternalIP')?.address;
    return { host: host as string, port: items[0]?.status?.daemonEndpoints?.kubeletEndpoint?.Port ?? 10_250 };
  }

  /** The API server behind its Service. */
  async apiServer(): Promise<Address> {
    const { subsets } = await this.#api.readNamespacedEndpoints({ namespace: 'default', name: 'kubernetes' });
    const [subset] = subsets ?? [];
    return { host: subset?.addresses?.[0]?.ip as string, port: subset?.ports?.[0]?.port as number };
  }

  async #running(namespace: string, labelSelector: string) {
    const { items } = await this.#api.listNamespacedPod({ namespace, labelSelector });
    const pod = items.find(({ metadata, status }) => status?.phase === 'Running' && !metadata?.deletionTimestamp);
    if (pod === undefined) throw new Error(`no pod of ${labelSelector} runs in ${namespace}`);
    return pod;
  }
}
