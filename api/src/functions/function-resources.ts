/** EdgeFunctions and the ConfigMaps of their versions, in the Kubernetes API. */
import { CoreV1Api, CustomObjectsApi, setHeaderOptions } from '@kubernetes/client-node';
import { Inject, Injectable } from '@nestjs/common';
import { type EdgeFunction, GROUP, LABEL_FUNCTION, LABEL_FUNCTION_VERSION, namespaceOf, VERSION } from '@slipway/crds';
import { isConflict, Kubernetes, kubeConfig } from '../kubernetes/client.js';
import { SETTINGS } from '../platform.js';
import type { ApiSettings } from '../settings.js';

export type SeenFunction = EdgeFunction & {
  metadata: { uid: string; creationTimestamp: string; generation: number; resourceVersion: string };
};

const AT = { group: GROUP, version: VERSION, plural: 'edgefunctions' };

@Injectable()
export class FunctionResources {
  private readonly objects: CustomObjectsApi;
  private readonly core: CoreV1Api;

  constructor(
    private readonly kubernetes: Kubernetes,
    @Inject(SETTINGS) settings: ApiSettings,
  ) {
    const config = kubeConfig(settings.kubeconfig);
    this.objects = config.makeApiClient(CustomObjectsApi);
    this.core = config.makeApiClient(CoreV1Api);
  }

  async list(ref: string): Promise<SeenFunction[]> {
    const request = { ...AT, namespace: namespaceOf(ref) };
    const { items } = await this.kubernetes.call((options) =>
      this.objects.listNamespacedCustomObject(request, options),
    );
    return items as SeenFunction[];
  }

  get(ref: string, name: string): Promise<SeenFunction | undefined> {
    const request = { ...AT, namespace: namespaceOf(ref), name };
    return this.kubernetes.unlessMissing((options) => this.objects.getNamespacedCustomObject(request, options));
  }

  create(ref: string, body: object): Promise<SeenFunction> {
    const request = { ...AT, namespace: namespaceOf(ref), body };
    return this.kubernetes.call((options) => this.objects.createNamespacedCustomObject(request, options));
  }

  /** `expected`: refused, as undefined, where another has changed it since. */
  async patch({ metadata }: SeenFunction, spec: object, expected?: string): Promise<SeenFunction | undefined> {
    const { name, namespace = '', uid } = metadata;
    const body = { metadata: { uid, ...(expected ? { resourceVersion: expected } : {}) }, spec };
    const request = { ...AT, namespace, name, body };
    const merge = 'application/merge-patch+json';
    return this.kubernetes
      .unlessMissing<SeenFunction>((options) =>
        this.objects.patchNamespacedCustomObject(request, setHeaderOptions('Content-Type', merge, options)),
      )
      .catch((error: unknown) => {
        if (isConflict(error)) return undefined;
        throw error;
      });
  }

  async remove({ metadata }: SeenFunction): Promise<void> {
    const request = { ...AT, namespace: metadata.namespace ?? '', name: metadata.name };
    await this.kubernetes.unlessMissing((options) => this.objects.deleteNamespacedCustomObject(request, options));
  }

  async versions({
    metadata,
  }: SeenFunction): Promise<{ version: number; createdAt: string; code: string | undefined }[]> {
    const request = { namespace: metadata.namespace ?? '', labelSelector: `${LABEL_FUNCTION}=${metadata.uid}` };
    const { items } = await this.kubernetes.call((options) => this.core.listNamespacedConfigMap(request, options));
    return items.map((map) => ({
      version: Number(map.metadata?.labels?.[LABEL_FUNCTION_VERSION]),
      createdAt: (map.metadata?.creationTimestamp ?? new Date(0)).toISOString(),
      code: map.data?.code,
    }));
  }
}
