/**
 * Client of the Kubernetes API for Projects, their namespaces and Secrets, and the operator's lease. Every call has a
 * deadline, and an unexpected failure becomes a 503.
 */

import { Injectable } from '@nestjs/common';
import { API_VERSION, GROUP, type Project, VERSION } from '@slipway/crds';
import {
  ANNOTATION_RETAINED_FOR,
  LABEL_MANAGED_BY,
  LABEL_PROJECT,
  LABEL_RETAINED,
  MANAGED_BY,
  namespaceOf,
  OPERATOR_LEASE,
  SYSTEM_NAMESPACE,
} from '@slipway/installation';
import {
  isConflict,
  isNotFound,
  KubeClient,
  KubeError,
  type KubeObject,
  loadKubeConfig,
  type Secret,
} from '@slipway/kubernetes';
import { Problem, retryLater } from '../http/problem.js';

export const PROJECTS = `/apis/${GROUP}/${VERSION}/projects`;
const NAMESPACES = '/api/v1/namespaces';
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/${SYSTEM_NAMESPACE}/leases/${OPERATOR_LEASE}`;
/** Maximum milliseconds for a whole request. */
const DEADLINE_MS = 10_000;

export interface Lease extends KubeObject {
  spec?: { holderIdentity?: string; renewTime?: string; leaseDurationSeconds?: number };
}

/** Content of a Secret, and the version that changes with it. A missing Secret has a version too. */
export interface SecretVersion {
  content: Record<string, string>;
  version: string;
}
/** No object has this resourceVersion. */
const MISSING_VERSION = '0';
/** Each failed attempt means that another client's change succeeded. */
const MOST_ATTEMPTS = 20;

interface ProjectMetadata {
  metadata: { name: string; uid: string };
}

export const connect = async (kubeconfig: string | undefined): Promise<KubeClient> =>
  KubeClient.connect(await loadKubeConfig(kubeconfig), { deadlineMs: DEADLINE_MS });

@Injectable()
export class Kubernetes {
  constructor(readonly client: KubeClient) {}

  getProject(ref: string): Promise<Project | undefined> {
    return this.unlessMissing(() => this.client.get(projectPath(ref)));
  }

  createProject(body: Project): Promise<Project> {
    return this.call(() => this.client.create(PROJECTS, body));
  }

  /**
   * A merge patch. With a `uid` or a `resourceVersion` in its metadata, the server rejects it (409) for another object
   * or version.
   */
  patchProject(ref: string, body: object): Promise<Project | undefined> {
    return this.unlessMissing(() => this.client.patch(projectPath(ref), body));
  }

  /** Deletes the object of this uid. Returns the object while finalizers run. */
  async deleteProject(ref: string, uid: string): Promise<Project | undefined> {
    const body = { preconditions: { uid } };
    const left = await this.unlessMissing(() =>
      this.client.request<Project>({ method: 'DELETE', path: projectPath(ref), body }),
    ).catch((error: unknown) => {
      if (isConflict(error)) return undefined;
      throw error;
    });
    return left?.kind === 'Project' ? left : undefined;
  }

  async getSecret(ref: string, name: string): Promise<Record<string, string> | undefined> {
    const secret = await this.unlessMissing(() => this.client.get<Secret>(secretPath(ref, name)));
    return secret && contentOf(secret);
  }

  /** Creates the Secret, or replaces its content. */
  async putSecret(secret: Secret & { metadata: { namespace: string } }): Promise<void> {
    const { name, namespace } = secret.metadata;
    const path = `${NAMESPACES}/${namespace}/secrets`;
    try {
      await this.call(() => this.client.create(path, secret));
    } catch (error) {
      if (!isConflict(error)) throw error;
      await this.call(() => this.client.request({ method: 'PUT', path: `${path}/${name}`, body: secret }));
    }
  }

  /**
   * Replaces a Secret's content by the result of `rewrite`, unless that is undefined. Fails with a 409 if another
   * client changes the Secret at the same time.
   */
  async rewriteSecret(
    ref: string,
    name: string,
    rewrite: (content: Record<string, string>) => Record<string, string> | undefined,
  ): Promise<'missing' | 'unchanged' | 'rewritten'> {
    const path = secretPath(ref, name);
    const secret = await this.unlessMissing(() => this.client.get<Secret>(path));
    if (!secret) return 'missing';
    const content = rewrite(contentOf(secret));
    if (!content) return 'unchanged';
    const body = { ...secret, data: dataOf(content) };
    await this.call(() => this.client.request({ method: 'PUT', path, body }));
    return 'rewritten';
  }

  /**
   * Changes the keys of a Secret that `decide` returns, where null removes a key, and adds `labels`. Creates a missing
   * Secret. If another client changes the Secret at the same time, `decide` runs again with the new content.
   */
  async changeSecret(
    ref: string,
    { name, labels }: { name: string; labels: Record<string, string> },
    decide: (current: SecretVersion) => Record<string, string | null>,
  ): Promise<SecretVersion> {
    const path = secretPath(ref, name);
    for (let attempt = 1; attempt <= MOST_ATTEMPTS; attempt++) {
      const found = await this.unlessMissing(() => this.client.get<Secret>(path));
      const data = dataOf(decide(versionOf(found)));
      if (Object.keys(data).length === 0) return versionOf(found);
      const write = () =>
        found
          ? this.client.patch<Secret>(path, {
              metadata: { resourceVersion: found.metadata.resourceVersion, labels },
              data,
            })
          : this.client.create<Secret>(path.slice(0, path.lastIndexOf('/')), {
              metadata: { name, labels },
              data: withoutNulls(data),
            });
      try {
        return versionOf(await this.call(write));
      } catch (error) {
        // Changed, deleted or created since it was read.
        if (!isConflict(error) && !(found && isNotFound(error))) throw error;
      }
    }
    throw retryLater('unavailable', 'Other clients change the same object now. Try again.', 1);
  }

  async readSecretVersion(ref: string, name: string): Promise<SecretVersion> {
    return versionOf(await this.unlessMissing(() => this.client.get<Secret>(secretPath(ref, name))));
  }

  /** Merges into an existing Secret. Returns false if there is none. */
  async patchSecret(ref: string, name: string, content: Record<string, string>): Promise<boolean> {
    const body = { data: dataOf(content) };
    return (await this.unlessMissing(() => this.client.patch(secretPath(ref, name), body))) !== undefined;
  }

  async deleteSecret(ref: string, name: string): Promise<void> {
    await this.unlessMissing(() => this.client.delete(secretPath(ref, name)));
  }

  /** Creates the namespace of a project that the operator has not seen yet. */
  async ensureNamespace({ metadata: { name: ref, uid } }: ProjectMetadata): Promise<void> {
    const labels = { [LABEL_PROJECT]: ref, [LABEL_MANAGED_BY]: MANAGED_BY };
    const owner = { apiVersion: API_VERSION, kind: 'Project', name: ref, uid };
    const body = { metadata: { name: namespaceOf(ref), labels, ownerReferences: [owner] } };
    try {
      await this.call(() => this.client.create(NAMESPACES, body));
    } catch (error) {
      if (!isConflict(error)) throw error;
    }
  }

  /** Returns the deleted projects with retained data, and the address for which each is retained. */
  async retainedNamespaces(): Promise<{ ref: string; owner: string }[]> {
    const retained: { ref: string; owner: string }[] = [];
    const request = { path: NAMESPACES, query: { labelSelector: `${LABEL_RETAINED}=true` } };
    const note = ({ metadata: { labels = {}, annotations = {} } }: KubeObject) =>
      void retained.push({ ref: labels[LABEL_PROJECT] ?? '', owner: annotations[ANNOTATION_RETAINED_FOR] ?? '' });
    await this.call(() => this.client.eachOf<KubeObject>(request, note));
    return retained;
  }

  /** Records a Warning on a Project, for `kubectl describe`. */
  async recordEvent({ metadata: { name, uid = '' } }: Project, reason: string, message: string): Promise<void> {
    const now = new Date().toISOString();
    const event = {
      metadata: { generateName: `${name.slice(0, 50)}-` },
      involvedObject: { apiVersion: `${GROUP}/${VERSION}`, kind: 'Project', name, uid },
      type: 'Warning',
      reason,
      message,
      count: 1,
      firstTimestamp: now,
      lastTimestamp: now,
      source: { component: 'slipway-api' },
    };
    await this.call(() => this.client.create<object>(`${NAMESPACES}/default/events`, event));
  }

  operatorLease(): Promise<Lease | undefined> {
    return this.unlessMissing(() => this.client.get(LEASE));
  }

  /** Returns undefined for a 404. */
  async unlessMissing<T>(request: () => Promise<T>): Promise<T | undefined> {
    try {
      return await this.call(request);
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async call<T>(request: () => Promise<T>): Promise<T> {
    try {
      return await request();
    } catch (error) {
      if (error instanceof KubeError && (error.status === 400 || error.status === 422)) {
        throw new Problem('bad_request', error.message);
      }
      if (error instanceof KubeError && !isTemporary(error)) throw error;
      throw new Problem('unavailable', 'The Kubernetes API does not respond. Try again.', {
        headers: { 'retry-after': '2' },
        cause: withoutText(error),
      });
    }
  }
}

/** Statuses of an overloaded server, or of a list that changed too much between two pages (410). */
const isTemporary = ({ status }: KubeError) => status >= 500 || status === 429 || status === 410;

/** The text of a response may quote the request, and with it a secret. */
const withoutText = (error: unknown) =>
  error instanceof KubeError ? new Error(`the Kubernetes API answered ${error.status}`) : error;

const projectPath = (ref: string) => `${PROJECTS}/${ref}`;
const secretPath = (ref: string, name: string) => `${NAMESPACES}/${namespaceOf(ref)}/secrets/${name}`;

const contentOf = ({ data = {} }: Secret): Record<string, string> =>
  Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]));

/** Null stays null, which removes a key in a merge patch. */
const dataOf = <V extends string | null>(content: Record<string, V>): Record<string, V> =>
  Object.fromEntries(
    Object.entries(content).map(([key, value]) => [
      key,
      (value === null ? null : Buffer.from(value).toString('base64')) as V,
    ]),
  );

const versionOf = (secret: Secret | undefined): SecretVersion => ({
  content: secret ? contentOf(secret) : {},
  version: secret?.metadata.resourceVersion ?? MISSING_VERSION,
});

const withoutNulls = (data: Record<string, string | null>): Record<string, string> =>
  Object.fromEntries(Object.entries(data).filter((entry): entry is [string, string] => entry[1] !== null));
