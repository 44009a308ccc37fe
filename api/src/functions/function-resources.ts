/** EdgeFunctions and the ConfigMaps of their versions, in the Kubernetes API. */
import { createHash } from 'node:crypto';
import { CoreV1Api, CustomObjectsApi, setHeaderOptions, type V1ConfigMapList } from '@kubernetes/client-node';
import { Inject, Injectable } from '@nestjs/common';
import { type EdgeFunction, GROUP, LABEL_FUNCTION, LABEL_FUNCTION_VERSION, namespaceOf, VERSION } from '@slipway/crds';
import { isConflict, Kubernetes, kubeConfig } from '../kubernetes/client.js';
import { SETTINGS } from '../platform.js';
import type { ApiSettings } from '../settings.js';

export type SeenFunction = EdgeFunction & {
  metadata: { uid: string; creationTimestamp: string; generation: number; resourceVersion: string };
};

/** Without its code, of which only the size is kept. */
export type SizedFunction = SeenFunction & { codeBytes: number };

/** Functions or versions in one page; each may have a mebibyte of code. */
const PAGE = 8;

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

  /** All functions of a project, without their code: it is in memory a page at a time. */
  async list(ref: string): Promise<SizedFunction[]> {
    const found: SizedFunction[] = [];
    for (let next: string | undefined = ''; next !== undefined; ) {
      const request = { ...AT, namespace: namespaceOf(ref), limit: PAGE, ...(next && { _continue: next }) };
      const page = (await this.kubernetes.call((options) =>
        this.objects.listNamespacedCustomObject(request, options),
      )) as { items: SeenFunction[]; metadata?: { continue?: string } };
      for (const object of page.items) {
        const codeBytes = Buffer.byteLength(object.spec.code);
        found.push({ ...object, spec: { ...object.spec, code: '' }, codeBytes });
      }
      next = page.metadata?.continue || undefined;
    }
    return found;
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

  /** The versions of a function, each with the digest of its code: the code is in memory a page at a time. */
  async versions({ metadata }: SeenFunction): Promise<{ version: number; createdAt: string; digest: string }[]> {
    const at = { namespace: metadata.namespace ?? '', labelSelector: `${LABEL_FUNCTION}=${metadata.uid}`, limit: PAGE };
    const found: { version: number; createdAt: string; digest: string }[] = [];
    for (let next: string | undefined = ''; next !== undefined; ) {
      const request = { ...at, ...(next && { _continue: next }) };
      const page: V1ConfigMapList = await this.kubernetes.call((options) =>
        this.core.listNamespacedConfigMap(request, options),
      );
      for (const map of page.items) {
        found.push({
          version: Number(map.metadata?.labels?.[LABEL_FUNCTION_VERSION]),
          createdAt: (map.metadata?.creationTimestamp ?? new Date(0)).toISOString(),
          digest: digestOf(map.data?.code ?? ''),
        });
      }
      next = page.metadata?._continue || undefined;
    }
    return found;
  }
}

export const digestOf = (code: string) => createHash('sha256').update(code).digest('base64url');
