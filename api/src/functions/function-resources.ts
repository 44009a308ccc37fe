/** Reads and writes EdgeFunctions, and the ConfigMaps of their versions, in the Kubernetes API. */
import { createHash } from 'node:crypto';
import { Injectable } from '@nestjs/common';
import { type EdgeFunction, GROUP, VERSION } from '@slipway/crds';
import { LABEL_FUNCTION, LABEL_FUNCTION_VERSION, namespaceOf } from '@slipway/installation';
import { isConflict, type KubeObject } from '@slipway/kubernetes';
import { Kubernetes } from '../kubernetes/client.js';

export type SeenFunction = EdgeFunction & {
  metadata: { uid: string; creationTimestamp: string; generation: number; resourceVersion: string };
};

/** EdgeFunction without its code, but with the size of it. */
export type SizedFunction = SeenFunction & { codeBytes: number };

/** Number of functions or versions in a page; each may have a mebibyte of code. */
const PAGE = 8;

const pathOf = (ref: string) => `/apis/${GROUP}/${VERSION}/namespaces/${namespaceOf(ref)}/edgefunctions`;
const objectPath = ({ metadata: { namespace, name } }: SeenFunction) =>
  `/apis/${GROUP}/${VERSION}/namespaces/${namespace}/edgefunctions/${name}`;

interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

@Injectable()
export class FunctionResources {
  constructor(private readonly kubernetes: Kubernetes) {}

  /** Returns all functions of a project without their code, of which only one page is in memory at a time. */
  async list(ref: string): Promise<SizedFunction[]> {
    const listed: SizedFunction[] = [];
    await this.eachOf<SeenFunction>({ path: pathOf(ref) }, (object) => {
      const codeBytes = Buffer.byteLength(object.spec.code);
      listed.push({ ...object, spec: { ...object.spec, code: '' }, codeBytes });
    });
    return listed;
  }

  get(ref: string, name: string): Promise<SeenFunction | undefined> {
    return this.kubernetes.unlessMissing(() => this.kubernetes.client.get(`${pathOf(ref)}/${name}`));
  }

  create(ref: string, body: object): Promise<SeenFunction> {
    return this.kubernetes.call(() =>
      this.kubernetes.client.request<SeenFunction>({ method: 'POST', path: pathOf(ref), body }),
    );
  }

  /** With `expected`, returns undefined if another client has changed the function since that resourceVersion. */
  async patch(seen: SeenFunction, spec: object, expected?: string): Promise<SeenFunction | undefined> {
    const { uid } = seen.metadata;
    const body = { metadata: { uid, ...(expected ? { resourceVersion: expected } : {}) }, spec };
    return this.kubernetes
      .unlessMissing(() => this.kubernetes.client.patch<SeenFunction>(objectPath(seen), body))
      .catch((error: unknown) => {
        if (isConflict(error)) return undefined;
        throw error;
      });
  }

  async remove(seen: SeenFunction): Promise<void> {
    await this.kubernetes.unlessMissing(() => this.kubernetes.client.delete(objectPath(seen)));
  }

  /**
   * Returns the versions of a function with the digest of their code, of which only one page is in memory at a time.
   */
  async versions({ metadata }: SeenFunction): Promise<{ version: number; createdAt: string; digest: string }[]> {
    const path = `/api/v1/namespaces/${metadata.namespace}/configmaps`;
    const query = { labelSelector: `${LABEL_FUNCTION}=${metadata.uid}` };
    const listed: { version: number; createdAt: string; digest: string }[] = [];
    await this.eachOf<ConfigMap>({ path, query }, ({ metadata: { labels, creationTimestamp = 0 }, data }) => {
      listed.push({
        version: Number(labels?.[LABEL_FUNCTION_VERSION]),
        createdAt: new Date(creationTimestamp).toISOString(),
        digest: digestOf(data?.code ?? ''),
      });
    });
    return listed;
  }

  private eachOf<T>(request: { path: string; query?: Record<string, string> }, each: (object: T) => void) {
    return this.kubernetes.call(() => this.kubernetes.client.eachOf<T>({ ...request, limit: PAGE }, each));
  }
}

export const digestOf = (code: string) => createHash('sha256').update(code).digest('base64url');
